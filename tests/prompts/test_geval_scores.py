"""Scores weighted by token probabilities: the right token, the right range, nothing made up."""

import json
from math import log

import pytest
from geval_subjects import token, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.protocol import TokenLogprob
from evalwright.prompts.geval.scores import Weighted, weigh

HEAD = '{"clarity": {"reason": "It asks for 7 items, not 9.", "score": '


def clarity(*score: TokenLogprob, tail: str = "}}", said: int = 7, head: str = HEAD) -> Weighted:
    found = weigh([*tokens_of(head), *score, *tokens_of(tail)], {"clarity": said})
    return found["clarity"]


def test_a_score_is_the_mean_of_all_scores_by_their_probability():
    weighted = clarity(token("7", 0.6, _8=0.3, _6=0.1))
    assert weighted.score == pytest.approx(0.6 * 7 + 0.3 * 8 + 0.1 * 6)
    assert weighted.covered_mass == pytest.approx(1.0)


def test_the_score_token_is_found_by_its_place_not_by_its_digit():
    head = list(tokens_of(HEAD))
    in_reason = next(number for number, each in enumerate(head) if each.token == "7")
    head[in_reason] = token("7", 0.5, _1=0.5)
    found = weigh([*head, token("7", 0.9, _8=0.1), *tokens_of("}}")], {"clarity": 7})
    assert found["clarity"].score == pytest.approx(7.1)


@pytest.mark.parametrize(
    "reason",
    [
        'He said \\"score\\": 3',
        '\\"score\\": 3, \\"',
        "}} {",
        "\\\\",
        "[1, 2, {",
        "\\xe2\\x80",  # how providers show a token that is part of a character
    ],
)
def test_nothing_in_a_reason_can_pose_as_the_score(reason):
    head = f'{{"clarity": {{"reason": "{reason}", "score": '
    assert clarity(token("7", 0.5, _9=0.5), head=head).score == pytest.approx(8.0)


def test_probability_outside_of_the_range_is_left_out_and_shown_as_not_covered():
    weighted = clarity(token("7", 0.5, _0=0.1, _85=0.2, _high=0.1, _8=0.1))
    assert weighted.score == pytest.approx((0.5 * 7 + 0.1 * 8) / 0.6)
    assert weighted.covered_mass == pytest.approx(0.6)


def test_spellings_of_one_score_are_added_up():
    top = (("7", log(0.4)), (" 7", log(0.2)), ("\n7", log(0.1)), ("7}", log(0.1)), ("8", log(0.2)))
    weighted = clarity(TokenLogprob("7", log(0.4), top))
    assert weighted.score == pytest.approx(0.8 * 7 + 0.2 * 8)


def test_a_space_may_belong_to_the_score_or_not():
    head = HEAD.removesuffix(" ")
    weighted = clarity(TokenLogprob(" 7", log(0.6), ((" 7", log(0.6)), ("8", log(0.4)))), head=head)
    assert weighted.score == pytest.approx(7.4)


def test_a_token_may_hold_what_stands_before_or_after_the_score():
    top = ((": 7}", log(0.7)), (": 9}", log(0.2)), (": [", log(0.1)))
    head = HEAD.removesuffix(": ")
    weighted = clarity(TokenLogprob(": 7}", log(0.7), top), tail="}", head=head)
    assert weighted.score == pytest.approx((0.7 * 7 + 0.2 * 9) / 0.9)
    assert weighted.covered_mass == pytest.approx(0.9)


def test_a_score_written_as_text_is_weighted_too():
    weighted = clarity(token("7", 0.5, _8=0.5), head=f'{HEAD}"', tail='/10"}}')
    assert weighted.score == pytest.approx(7.5)


def test_the_chosen_token_counts_even_if_it_is_not_among_the_likeliest():
    weighted = clarity(TokenLogprob("7", log(0.2), (("8", log(0.6)),)))
    assert weighted.score == pytest.approx((0.2 * 7 + 0.6 * 8) / 0.8)


# Ten.


def test_ten_as_one_token_is_ten():
    assert clarity(token("10", 0.5, _9=0.5), said=10).score == pytest.approx(9.5)


def test_ten_as_two_tokens_is_split_from_one_by_the_token_that_follows():
    ten = (token("1", 0.8, _9=0.2), token("0", 0.75, **{"_}": 0.25}))
    weighted = clarity(*ten, said=10)
    assert weighted.score == pytest.approx(0.8 * 0.75 * 10 + 0.8 * 0.25 * 1 + 0.2 * 9)
    assert weighted.covered_mass == pytest.approx(1.0)


def test_one_is_split_from_ten_in_the_same_way():
    one = (token("1", 0.8, _2=0.2), token("}", 0.9, _0=0.1))
    assert clarity(*one, tail="}", said=1).score == pytest.approx(0.72 * 1 + 0.08 * 10 + 0.4)


def test_a_digit_after_one_that_makes_no_score_is_not_covered():
    one = (token("1", 1.0), token("}", 0.7, _2=0.2, _00=0.1))
    weighted = clarity(*one, tail="}", said=1)
    assert weighted == (pytest.approx(1.0), pytest.approx(0.7))


def test_a_one_that_was_not_chosen_counts_for_neither_where_it_may_begin_ten():
    weighted = clarity(token("7", 0.6, _1=0.4))
    assert weighted == (pytest.approx(7.0), pytest.approx(0.6))


def test_a_one_that_was_not_chosen_is_one_where_the_model_has_a_token_for_ten():
    weighted = clarity(token("7", 0.5, _1=0.3, _10=0.2))
    assert weighted == (pytest.approx(0.5 * 7 + 0.3 * 1 + 0.2 * 10), pytest.approx(1.0))


# What cannot be used.


def test_tokens_that_spell_another_reply_are_not_used():
    tokens = [*tokens_of(HEAD), token("7"), *tokens_of("}}")]
    assert weigh(tokens, {"clarity": 8}) == {}
    assert weigh(tokens, {"safety": 7}) == {}
    assert weigh(tokens_of("I think 7."), {"clarity": 7}) == {}
    assert weigh([], {"clarity": 7}) == {}


def test_a_chosen_token_without_alternatives_gives_nothing_to_weigh():
    alone = TokenLogprob("7", log(0.9))
    assert weigh([*tokens_of(HEAD), alone, *tokens_of("}}")], {"clarity": 7}) == {}


def test_tokens_and_probabilities_that_make_no_sense_do_no_harm():
    weighted = clarity(TokenLogprob("7", 900.0, (("9" * 9000, 900.0), ("", 0.0), ("8", -1e9))))
    assert weighted == (7.0, 1.0)


def test_a_criterion_without_any_likely_score_is_left_out():
    impossible = TokenLogprob("7", -9999.0, (("no", 0.0),))
    assert weigh([*tokens_of(HEAD), impossible, *tokens_of("}}")], {"clarity": 7}) == {}


@given(
    st.text(max_size=30),
    st.lists(st.integers(1, 20), min_size=10, max_size=10),
    st.integers(1, 10),
    st.booleans(),
)
def test_a_weighted_score_is_the_expectation_whatever_the_reason_says(
    reason, parts, said, is_spaced
):
    chances = {score: part / sum(parts) for score, part in enumerate(parts, 1)}
    space = " " if is_spaced else ""
    top = tuple((f"{space}{score}", log(chance)) for score, chance in chances.items())
    chosen = TokenLogprob(f"{space}{said}", log(chances[said]), top)
    head = f'{{"safety":{{"reason":{json.dumps(reason)},"score":'
    after = token("}", 1.0)
    found = weigh([*tokens_of(head), chosen, after, *tokens_of("}")], {"safety": said})
    expected = sum(score * chance for score, chance in chances.items())
    assert found["safety"].score == pytest.approx(expected)
    assert found["safety"].covered_mass == pytest.approx(1.0)


@given(
    st.dictionaries(st.text(max_size=4), st.floats(-50, 0), min_size=1, max_size=6),
    st.floats(-5, 0),
)
def test_a_weighted_score_stays_in_range_and_its_mass_is_a_share(top, chosen):
    weighted = clarity(TokenLogprob("7", chosen, tuple(top.items())))
    assert 1 <= weighted.score <= 10
    assert 0 < weighted.covered_mass <= 1
