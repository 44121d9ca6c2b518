"""Rubric scoring: a majority per criterion, weights exact in decimal, never a default score."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.events import Judged
from evalwright.contracts.suite import Criterion
from evalwright.contracts.verdicts import Verdict
from evalwright.scoring.rubric import agreement_of, rubric_result

weights = st.floats(0, 1) | st.sampled_from([0.1, 0.2, 0.25, 0.5, 1])
weight_lists = st.lists(weights, min_size=1, max_size=6).filter(lambda found: sum(found) > 0)


@st.composite
def judged_rubrics(draw: st.DrawFn) -> tuple[list[Criterion], list[Judged]]:
    criteria = a_rubric(*draw(weight_lists))
    size = len(criteria)
    votes = draw(
        st.lists(st.lists(st.booleans(), min_size=size, max_size=size), min_size=1, max_size=7)
    )
    return criteria, [an_answer(*met, judge=f"judge:{n}") for n, met in enumerate(votes)]


def a_rubric(*given: float) -> list[Criterion]:
    return [Criterion(f"criterion {n}", weight) for n, weight in enumerate(given, 1)]


def an_answer(*met: bool, judge: str = "judge:a", subject: str = "rubric") -> Judged:
    verdicts = [Verdict(f"c{n}", "so it is", is_met) for n, is_met in enumerate(met, 1)]
    return Judged(subject, judge, 1, "1", verdicts)


# The score.


@pytest.mark.parametrize(
    ("weights", "met", "score"),
    [
        ((1,), (True,), 1.0),
        ((1,), (False,), 0.0),
        ((0.25, 0.75), (True, False), 0.25),
        ((0.1, 0.2, 0.7), (True, True, False), 0.3),  # 0.30000000000000004 in binary
        ((0.5, 0.5, 0.5), (True, True, False), 2 / 3),  # weights need not sum to 1
        ((0, 1), (True, False), 0.0),
    ],
)
def test_the_score_is_the_weight_of_what_is_met_by_all_weight(weights, met, score):
    assert rubric_result(a_rubric(*weights), [an_answer(*met)]).score == score


@given(weight_lists)
def test_all_met_is_exactly_1_and_none_met_exactly_0(given_weights):
    criteria = a_rubric(*given_weights)
    everything = [True] * len(criteria)
    assert rubric_result(criteria, [an_answer(*everything)]).score == 1.0
    assert rubric_result(criteria, [an_answer(*(not met for met in everything))]).score == 0.0


@given(judged_rubrics())
def test_score_and_agreement_are_shares(case):
    result = rubric_result(*case)
    agreement = agreement_of(case[1])
    assert 0 <= result.score <= 1
    assert agreement is not None
    assert 0.5 <= agreement.share <= 1


@given(judged_rubrics(), st.randoms(use_true_random=False))
def test_the_order_in_which_judges_answered_does_not_matter(case, chance: random.Random):
    criteria, judged = case
    shuffled = chance.sample(judged, len(judged))
    assert rubric_result(criteria, shuffled) == rubric_result(criteria, judged)


# The majority.


def test_a_criterion_is_met_if_more_than_half_of_the_votes_say_so():
    judged = [an_answer(True, True), an_answer(True, False), an_answer(False, False)]
    assert rubric_result(a_rubric(0.5, 0.5), judged).met == (True, False)


def test_a_tie_is_not_met():
    assert rubric_result(a_rubric(1), [an_answer(True), an_answer(False)]).met == (False,)


@given(judged_rubrics())
def test_one_more_vote_for_a_criterion_never_takes_it_away(case):
    criteria, judged = case
    before = rubric_result(criteria, judged)
    after = rubric_result(criteria, [*judged, an_answer(*[True] * len(criteria))])
    assert all(now or not then for then, now in zip(before.met, after.met, strict=True))
    assert after.score >= before.score


# Agreement.


def test_one_vote_agrees_with_itself():
    assert agreement_of([an_answer(True, False)]) == (1.0, 2, 2)


def test_agreement_is_the_share_of_votes_that_are_those_of_the_majority():
    judged = [an_answer(True, True), an_answer(True, False), an_answer(True, False)]
    assert agreement_of(judged) == (5 / 6, 6, 2)


def test_agreement_is_over_the_rubric_and_what_checks_asked_and_apart_from_safety():
    subjects = {"rubric": (True, True), "check:a": (True, False), "safety": (False, False)}
    judged = [an_answer(met, subject=name) for name, votes in subjects.items() for met in votes]
    assert agreement_of(judged) == (3 / 4, 4, 2)
    assert agreement_of(judged, on_safety=True) == (1, 2, 1)
    assert agreement_of([]) is None


# What is no score.


def test_without_a_verdict_there_is_no_score():
    with pytest.raises(ValueError, match="no judge gave a verdict on criterion c1"):
        rubric_result(a_rubric(1), [])


def test_a_criterion_that_no_judge_spoke_of_has_no_default():
    with pytest.raises(ValueError, match="criterion c2"):
        rubric_result(a_rubric(0.5, 0.5), [an_answer(True)])


def test_verdicts_on_safety_are_no_verdicts_on_the_rubric():
    safety = an_answer(True, subject="safety")
    assert rubric_result(a_rubric(1), [safety, an_answer(False)]).score == 0.0
    with pytest.raises(ValueError, match="c1"):
        rubric_result(a_rubric(1), [safety])


class OnceOnly(list[Judged]):
    """Answers that can be gone through a single time."""

    gone_through = 0

    def __iter__(self) -> Iterator[Judged]:
        self.gone_through += 1
        assert self.gone_through == 1
        return super().__iter__()


def test_a_rubric_of_thousands_of_criteria_goes_through_the_answers_once():
    met = [n % 2 == 0 for n in range(10_000)]
    judged = OnceOnly([an_answer(*met), an_answer(*met, judge="judge:b")])
    assert rubric_result(a_rubric(*[1.0] * 10_000), judged).score == 0.5
