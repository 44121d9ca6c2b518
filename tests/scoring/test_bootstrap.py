"""How large a change of scores is: an interval that can be relied on, the same every time."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.scoring import bootstrap
from evalwright.scoring.bootstrap import ScoreChange, expanded_tail, score_change

scores = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]) | st.floats(
    0,
    1,
    allow_subnormal=False,  # the mean of such differences may round to 0
)
differences = st.lists(
    st.tuples(scores, scores).map(lambda pair: pair[0] - pair[1]), min_size=1, max_size=30
)


def change(values: list[float]) -> ScoreChange:
    found = score_change(values)
    assert found is not None
    return found


def a_sample(kind: str, pairs: int) -> list[float]:
    """Differences as suites have them: sparse flips, small drifts, or a long tail downwards."""
    draw = np.random.default_rng(pairs)
    values = {
        "flips": draw.choice([-1.0, 0.0, 1.0], pairs, p=[0.15, 0.8, 0.05]),
        "drift": draw.normal(-0.05, 0.2, pairs).clip(-1, 1),
        "tail": -draw.exponential(0.15, pairs).clip(0, 1),
    }
    return [float(value) for value in values[kind]]


# Against SciPy.


@pytest.mark.parametrize("kind", ["flips", "drift", "tail"])
@pytest.mark.parametrize("pairs", [8, 12, 40, 190, 700])
def test_the_interval_is_scipys_percentile_interval_with_the_tails_of_few_pairs(kind, pairs):
    import scipy.stats  # here, since importing it takes a while

    values = a_sample(kind, pairs)
    found = change(values)
    expected = scipy.stats.bootstrap(
        (np.array(values),),
        np.mean,
        confidence_level=1 - 2 * expanded_tail(pairs),
        n_resamples=20_000,
        batch=1_000,
        method="percentile",
        rng=1,
    )
    # A percentile of 10,000 resampled means is itself uncertain, the more so far out. Means of
    # flips come in steps of 1 / pairs, and a percentile may fall on either of two steps.
    tolerance = 0.25 * expected.standard_error + (1 / pairs if kind == "flips" else 0)
    assert found.low == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert found.high == pytest.approx(expected.confidence_interval.high, abs=tolerance)


@pytest.mark.parametrize("pairs", [4, 6, 10, 30, 1000])
def test_few_pairs_widen_the_interval_as_students_t_does(pairs):
    import scipy.stats  # here, since importing it takes a while

    t = scipy.stats.t.ppf(0.975, pairs - 1)
    expected = scipy.stats.norm.sf(t * (pairs / (pairs - 1)) ** 0.5)
    assert expanded_tail(pairs) == pytest.approx(expected, rel=0.05)


def missed(samples: list[list[float]], truth: float) -> int:
    return sum(not found.low <= truth <= found.high for found in map(change, samples))


def test_widening_keeps_the_interval_of_ten_pairs_near_its_promise(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1_000)
    draw = np.random.default_rng(4)
    samples = [[float(x) for x in draw.normal(0.1, 0.2, 10)] for _ in range(500)]
    widened = missed(samples, 0.1)
    monkeypatch.setattr(bootstrap, "expanded_tail", lambda pairs: 0.025)
    assert widened <= 39  # 25 would be exact; about 29 are to be expected, give or take 5
    assert widened < 0.7 * missed(samples, 0.1)


# Properties.


@settings(max_examples=40, deadline=None)
@given(differences, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(values, random):
    assert score_change(random.sample(values, len(values))) == score_change(values)


@settings(max_examples=40, deadline=None)
@given(differences)
def test_turned_round_the_interval_is_turned_round(values):
    there, back = change(values), change([-value for value in values])
    assert (back.low, back.high) == (-there.high, -there.low)
    assert back.difference == -there.difference
    assert back.p_value == there.p_value
    assert back.significant is there.significant


@settings(max_examples=40, deadline=None)
@given(differences)
def test_the_interval_holds_the_difference_and_stays_in_range(values):
    found = change(values)
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert found.pairs == len(values)


@settings(max_examples=40, deadline=None)
@given(differences, st.integers(1, 20))
def test_pairs_without_a_change_never_turn_the_difference_round(values, more):
    before, after = change(values), change([*values, *[0.0] * more])
    assert np.sign(after.difference) == np.sign(before.difference)
    assert after.p_value == before.p_value


# Degenerate cases.


def test_no_pairs_tell_nothing():
    assert score_change([]) is None


def test_one_pair_tells_its_difference_and_nothing_of_its_spread():
    assert score_change([-0.5]) == ScoreChange(1, -0.5, -1.0, 1.0, 1.0)


@pytest.mark.parametrize("pairs", [2, 12, 500])
def test_pairs_that_are_all_equal_leave_no_doubt_that_nothing_changed(pairs):
    found = change([0.0] * pairs)
    assert (found.low, found.difference, found.high, found.p_value) == (0, 0, 0, 1)
    assert not found.significant


@pytest.mark.parametrize("pairs", [6, 12, 500])
def test_pairs_that_all_fell_by_the_same_amount_tell(pairs):
    found = change([-0.25] * pairs)
    assert (found.low, found.high) == pytest.approx((-0.25, -0.25))
    assert found.significant


def test_three_that_fell_are_not_believed_though_the_interval_is_below_0():
    found = change([-0.5, -0.4, -0.3])
    assert found.high < 0
    assert found.p_value == 0.25
    assert not found.significant


def test_a_few_large_drops_tell_though_as_many_tasks_rose_a_little():
    assert change([-0.5] * 12 + [0.01] * 12).significant


@pytest.mark.parametrize("changed", [200, 201, 10_000])
def test_ten_thousand_pairs_are_no_more_work_than_a_few_hundred(changed, monkeypatch):
    draws = []
    choices = bootstrap.Random.choices

    def counted(self, population, weights=None, *, k):
        draws.append(k)
        return choices(self, population, weights, k=k)

    monkeypatch.setattr(bootstrap.Random, "choices", counted)
    found = change([-0.5, 0.25] * (changed // 2) + [0.0] * (10_000 - changed))
    assert found.significant
    assert sum(draws) < 2_500_000


# Limits.


def test_a_change_is_significant_only_inside_the_level_and_away_from_0():
    clear = ScoreChange(pairs=20, difference=-0.2, low=-0.3, high=-0.1, p_value=0.01)
    assert clear.significant
    for fields in ({"p_value": 0.05}, {"high": 0.0}, {"low": -0.0, "high": 0.1, "difference": 0.0}):
        assert not msgspec.structs.replace(clear, **fields).significant


@pytest.mark.parametrize(("changed", "resampled"), [(200, True), (201, False)])
def test_up_to_200_differences_are_resampled_and_of_more_the_limit_is_taken(
    changed, resampled, monkeypatch
):
    drawn = []
    whole = bootstrap._resampled_interval
    monkeypatch.setattr(
        bootstrap, "_resampled_interval", lambda *given: drawn.append(1) or whole(*given)
    )
    change([0.01 * (1 + place % 7) for place in range(changed)] + [0.0] * 50)
    assert bool(drawn) is resampled
