"""Is a change more than chance?"""

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.scoring.statistics import mcnemar, paired_change, wilson

counts = st.integers(0, 400)


def test_no_change_is_no_evidence():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(7, 7) == 1.0


@pytest.mark.parametrize(
    ("worse", "better", "p"), [(5, 0, 0.0625), (6, 0, 0.03125), (8, 1, 0.0390625)]
)
def test_known_values_of_the_exact_test(worse, better, p):
    assert mcnemar(worse, better) == pytest.approx(p)


def test_five_regressions_and_nothing_else_may_still_be_chance():
    change = paired_change(both=95, only_baseline=5, only_new=0, neither=0)
    assert change is not None
    assert not change.significant
    assert paired_change(94, 6, 0, 0).significant


@settings(max_examples=20)
@given(st.integers(1001, 1500), st.integers(0, 1500))
def test_large_numbers_agree_with_the_exact_sum(worse, better):
    changed, smaller = worse + better, min(worse, better)
    exact = min(1.0, 2 * sum(comb(changed, k) for k in range(smaller + 1)) / (1 << changed))
    assert mcnemar(worse, better) == pytest.approx(exact, rel=1e-6, abs=1e-300)


@given(counts, counts, counts, counts)
def test_the_interval_holds_the_difference_and_stays_in_range(both, worse, better, neither):
    change = paired_change(both, worse, better, neither)
    if both + worse + better + neither == 0:
        assert change is None
        return
    assert -1 <= change.low <= change.difference + 1e-12
    assert change.difference - 1e-12 <= change.high <= 1
    assert 0 <= change.p_value <= 1


@given(counts, counts, counts, counts)
def test_exchanging_the_sides_turns_the_difference_round(both, worse, better, neither):
    if both + worse + better + neither == 0:
        return
    there = paired_change(both, worse, better, neither)
    back = paired_change(both, better, worse, neither)
    assert there.difference == pytest.approx(-back.difference)
    assert there.low == pytest.approx(-back.high, abs=1e-9)
    assert there.p_value == back.p_value


def test_newcombes_published_example():
    # Newcombe (1998), method 10, table II, (e f g h) = (36, 12, 2, 0): 0.0569 to 0.3404.
    change = paired_change(both=36, only_baseline=2, only_new=12, neither=0)
    assert change.difference == pytest.approx(0.2)
    assert change.low == pytest.approx(0.0569, abs=5e-4)
    assert change.high == pytest.approx(0.3404, abs=5e-4)


def test_wilsons_interval_is_never_a_point_at_the_edges():
    low, high = wilson(10, 10)
    assert high == pytest.approx(1.0)
    assert low < 0.75
