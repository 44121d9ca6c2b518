"""Is a change more than chance?"""

from math import comb, erfc, sqrt

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.scoring import statistics
from evalwright.scoring.statistics import (
    LEVEL,
    PairedChange,
    mcnemar,
    more_failures_needed,
    p_in_words,
    paired_change,
    sign_flip,
    wilson,
)

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


# Against SciPy.


@given(counts, counts)
def test_mcnemar_is_the_binomial_test_of_a_fair_coin(worse, better):
    import scipy.stats  # here, since importing it takes a while

    if worse + better:
        expected = scipy.stats.binomtest(worse, worse + better).pvalue
        assert mcnemar(worse, better) == pytest.approx(expected, rel=1e-9)


@given(counts, counts)
def test_wilsons_interval_is_scipys(passed, failed):
    import scipy.stats  # here, since importing it takes a while

    if passed + failed:
        expected = scipy.stats.binomtest(passed, passed + failed).proportion_ci(method="wilson")
        assert wilson(passed, passed + failed) == pytest.approx(tuple(expected), abs=1e-9)


# Whole numbers and what they are divided by: SciPy is given the whole ones, whose sums are exact.
SIZES = {
    "halves": ([-2, -1, 1, 2], 2),
    "thirds": ([-3, -2, -1, 1, 2, 3], 3),
    "cents": ([n for n in range(-100, 101) if n], 100),
    "odd": ([-70710678, -12345670, 31415926, 27182818], 10**8),
}


def by_all_flips(differences: list[int]) -> float:
    import scipy.stats  # here, since importing it takes a while

    result = scipy.stats.permutation_test(
        (differences,),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        n_resamples=10_000,  # more than there are flips: SciPy then goes through all of them
        vectorized=True,
    )
    return result.pvalue


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZES)), st.data())
def test_the_sign_flip_test_goes_through_all_flips_as_scipy_does(kind, data):
    sizes, divisor = SIZES[kind]
    whole = data.draw(st.lists(st.sampled_from(sizes), min_size=2, max_size=10))
    differences = [n / divisor for n in whole]
    assert sign_flip(differences) == pytest.approx(by_all_flips(whole), abs=1e-9)


# The sign-flip test.

differences = st.lists(st.floats(-1, 1), max_size=40)


@given(counts, counts, st.floats(0.01, 1))
def test_where_all_differences_are_of_one_size_the_sign_flip_test_is_mcnemars(fell, rose, size):
    assert sign_flip([-size] * fell + [size] * rose + [0.0]) == mcnemar(fell, rose)


@given(differences, st.randoms(use_true_random=False))
def test_neither_order_nor_direction_nor_tasks_without_change_matter(values, random):
    p_value = sign_flip(values)
    assert 0 <= p_value <= 1
    assert sign_flip([-value for value in random.sample(values, len(values))]) == p_value
    assert sign_flip([*values, 0.0, 0.0]) == p_value


@pytest.mark.parametrize("shift", [-0.08, -0.04, 0.0])
def test_where_the_exact_test_rounds_it_errs_a_little_to_the_side_of_chance(shift):
    spread = [((n * 7919) % 601 - 300) / 400 + shift for n in range(300)]
    limit = sign_flip([*spread, 1e-9])  # one case more than the exact test takes
    assert limit - 0.001 <= sign_flip(spread) <= limit + 0.02


def test_no_fewer_than_six_differences_can_ever_tell():
    assert sign_flip([-1.0, -0.9, -0.8, -0.7, -0.6]) == 0.0625
    assert sign_flip([-1.0, -0.9, -0.8, -0.7, -0.6, -0.5]) == 0.03125


# What would tell.


def test_six_tasks_must_fail_before_anything_tells():
    assert more_failures_needed(0, 0, both=20) == 6
    assert more_failures_needed(2, 0, both=20) == 4
    assert more_failures_needed(6, 0, both=20) == 0


def test_a_small_suite_may_have_too_few_tasks_to_tell_anything():
    assert more_failures_needed(0, 0, both=5) is None
    assert more_failures_needed(1, 3, both=4) is None


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_what_is_needed_is_the_least_that_tells(worse, better, both):
    needed = more_failures_needed(worse, better, both)
    if needed is None:
        assert worse + both <= better or mcnemar(worse + both, better) >= LEVEL
        return
    assert mcnemar(worse + needed, better) < LEVEL
    if needed:
        before = worse + needed - 1
        assert before <= better or mcnemar(before, better) >= LEVEL


def test_p_values_are_told_in_two_digits_and_tiny_ones_as_such():
    assert p_in_words(0.5) == "p = 0.5"
    assert p_in_words(0.03125) == "p = 0.031"
    assert p_in_words(1e-9) == "p < 0.001"


# Directions and limits.


def test_a_rate_that_fell_has_a_difference_below_0_and_one_that_rose_above():
    fell = paired_change(both=80, only_baseline=10, only_new=0, neither=10)
    rose = paired_change(both=80, only_baseline=0, only_new=10, neither=10)
    assert (fell.cases, fell.baseline_rate, fell.new_rate) == (100, 0.9, 0.8)
    assert fell.difference == pytest.approx(-0.1)
    assert fell.low < fell.difference < fell.high < 0
    assert (rose.cases, rose.baseline_rate, rose.new_rate) == (100, 0.8, 0.9)
    assert rose.difference == pytest.approx(0.1)
    assert 0 < rose.low < rose.difference < rose.high


def test_cases_that_failed_on_both_sides_count():
    change = paired_change(both=0, only_baseline=0, only_new=1, neither=3)
    assert (change.cases, change.baseline_rate, change.new_rate) == (4, 0.0, 0.25)


def test_an_improvement_however_clear_does_not_tell_of_a_regression():
    assert mcnemar(0, 20) < LEVEL
    assert more_failures_needed(0, 20, both=1) is None
    needed = more_failures_needed(0, 20, both=200)
    assert needed is not None
    assert needed > 20
    assert mcnemar(needed, 20) < LEVEL <= mcnemar(needed - 1, 20)


def test_all_that_passed_may_be_needed():
    assert more_failures_needed(0, 0, both=6) == 6
    assert more_failures_needed(0, 0, both=5) is None
    assert more_failures_needed(6, 0, both=0) == 0


def _exact(worse: int, better: int) -> float:
    changed = worse + better
    return 2 * sum(comb(changed, k) for k in range(min(worse, better) + 1)) / (1 << changed)


def test_up_to_a_thousand_changes_the_test_is_exact_to_the_last_digit():
    assert mcnemar(540, 460) == _exact(540, 460)
    assert mcnemar(460, 540) == _exact(540, 460)
    assert mcnemar(541, 460) != _exact(541, 460)
    assert mcnemar(541, 460) == pytest.approx(_exact(541, 460), rel=1e-9)


def test_up_to_300_changes_the_sign_flip_test_counts_and_above_it_is_the_normal_limit():
    of_300 = [0.5, *[1.0] * 160, *[-1.0] * 139]
    of_301 = [0.5, *[1.0] * 161, *[-1.0] * 139]
    assert len(of_300) == 300
    limits = [
        float(erfc(abs(sum(values)) / sqrt(2 * sum(value**2 for value in values))))
        for values in (of_300, of_301)
    ]
    assert sign_flip(of_300) != limits[0]
    assert sign_flip(of_300) == pytest.approx(limits[0], abs=0.05)
    assert sign_flip(of_301) == limits[1]


def test_a_change_on_the_level_itself_is_not_significant():
    on_it = PairedChange(10, 1.0, 0.5, -0.5, -0.8, -0.1, LEVEL)
    assert not on_it.significant
    assert msgspec.structs.replace(on_it, p_value=0.0499).significant


def test_the_correlation_of_the_sides_narrows_the_interval():
    alike = paired_change(both=50, only_baseline=5, only_new=5, neither=40)
    unlike = paired_change(both=30, only_baseline=25, only_new=25, neither=20)
    opposite = paired_change(both=5, only_baseline=50, only_new=40, neither=5)
    widths = [change.high - change.low for change in (alike, unlike, opposite)]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(
    ("p", "words"),
    [(0.000999, "p < 0.001"), (0.001, "p = 0.001"), (0.04999, "p < 0.05"), (1.0, "p = 1")],
)
def test_p_values_in_words(p, words):
    assert p_in_words(p) == words


def test_only_sizes_that_are_whole_steps_are_told_apart_exactly():
    assert statistics._on_a_grid([1.0, 0.5]) == ([2, 1], 0)
    assert statistics._on_a_grid([1.0, 2**-0.5])[1] == 2
