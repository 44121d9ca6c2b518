"""Agreement: of runs with each other, and of judges with each other."""

from statistics import fmean, stdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evalwright.prompts.agreement import (
    RunSpread,
    panel_agreement,
    rank_correlation,
    run_noise,
    run_spread,
    t_quantile,
)

percentages = st.integers(10, 100).map(float)
several = st.lists(percentages, min_size=2, max_size=30)


# Runs.


def test_a_single_run_tells_its_score_and_nothing_of_the_spread():
    assert run_spread([72.0], 70) == RunSpread(runs=1, mean=72.0, passes=1)


def test_no_run_is_an_error():
    with pytest.raises(ValueError, match="no runs"):
        run_spread([], 70)


def test_several_runs_give_mean_spread_interval_and_flips():
    spread = run_spread([68.0, 72.0, 73.0, 75.0], 70)
    assert (spread.runs, spread.passes, spread.mean) == (4, 3, 72.0)
    assert spread.sd == pytest.approx(2.944, abs=0.001)
    assert (spread.low, spread.high) == (
        pytest.approx(67.32, abs=0.01),
        pytest.approx(76.68, abs=0.01),
    )
    assert spread.flip_rate == pytest.approx(0.5), "3 of the 6 pairs of runs differ"


@pytest.mark.parametrize(
    ("scores", "rate"),
    [([80, 90], 0), ([10, 20, 30], 0), ([60, 80], 1), ([60, 60, 80], 2 / 3)],
)
def test_the_flip_rate_is_the_share_of_pairs_of_runs_that_differ(scores, rate):
    assert run_spread(scores, 70).flip_rate == pytest.approx(rate)


def test_a_score_at_the_threshold_passes():
    assert run_spread([70.0, 70.0], 70).passes == 2


@given(several)
def test_the_interval_is_students_within_the_bounds_of_a_percentage(scores):
    from scipy import stats  # where it is needed: importing it takes a while

    assume(len(set(scores)) > 1)
    spread = run_spread(scores, 70)
    low, high = stats.t.interval(0.95, len(scores) - 1, loc=fmean(scores), scale=stats.sem(scores))
    assert spread.low == pytest.approx(max(0, low))
    assert spread.high == pytest.approx(min(100, high))
    assert spread.sd == pytest.approx(stats.tstd(scores))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 29, 100, 999])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_quantile_is_that_of_students_distribution(freedom, confidence):
    from scipy import stats  # where it is needed: importing it takes a while

    expected = stats.t.ppf(0.5 + confidence / 2, freedom)
    assert t_quantile(freedom, confidence) == pytest.approx(expected, rel=1e-9)


def test_noise_is_pooled_over_prompts_and_the_level_of_a_prompt_does_not_count():
    assert run_noise([[60, 62], [90, 92]]) == pytest.approx(stdev([60, 62]))
    assert run_noise([[60, 62], [80]]) == pytest.approx(stdev([60, 62]))
    assert run_noise([[60, 60, 60], [50, 54]]) == pytest.approx((8 / 3) ** 0.5)


def test_without_repeats_nothing_is_known_of_the_noise():
    assert run_noise([[60], [80]]) is None
    assert run_noise([]) is None


# Judges.


def test_judges_are_shown_beside_each_other_with_their_offsets():
    mild = {"a": 80.0, "b": 90.0, "c": 70.0}
    strict = {"a": 60.0, "b": 70.0}
    panel = panel_agreement({"mild": mild, "strict": strict}, 70)
    assert panel.shared == 2
    assert [(j.judge, j.prompts, j.mean, j.offset) for j in panel.judges] == [
        ("mild", 3, 80.0, 10.0),
        ("strict", 2, 65.0, -10.0),
    ]


def test_a_pair_is_compared_on_the_prompts_that_both_judged():
    first = {"a": 80.0, "b": 60.0, "c": 75.0, "only": 10.0}
    second = {"a": 70.0, "b": 50.0, "c": 65.0, "other": 99.0}
    (pair,) = panel_agreement({"first": first, "second": second}, 70).pairs
    assert (pair.first, pair.second, pair.prompts) == ("first", "second", 3)
    assert (pair.mean_difference, pair.mean_absolute_difference) == (10.0, 10.0)
    assert pair.rank_correlation == pytest.approx(1.0), "they differ in level, not in order"
    assert pair.same_verdict == pytest.approx(2 / 3)


def test_differences_that_cancel_out_still_show_as_distance():
    one, other = {"a": 80.0, "b": 60.0, "c": 70.0}, {"a": 60.0, "b": 80.0, "c": 70.0}
    (pair,) = panel_agreement({"one": one, "other": other}, 70).pairs
    assert pair.mean_difference == 0.0
    assert pair.mean_absolute_difference == pytest.approx(40 / 3)
    assert pair.rank_correlation == pytest.approx(-1.0)


def test_three_judges_make_three_pairs_in_the_order_of_the_judges():
    scores = {name: {"a": 70.0} for name in ("x", "y", "z")}
    pairs = panel_agreement(scores, 70).pairs
    assert [(pair.first, pair.second) for pair in pairs] == [("x", "y"), ("x", "z"), ("y", "z")]


def test_judges_that_share_no_prompt_have_no_offset_and_are_no_pair():
    panel = panel_agreement({"x": {"a": 70.0}, "y": {"b": 80.0}}, 70)
    assert (panel.shared, panel.pairs) == (0, ())
    assert [level.offset for level in panel.judges] == [None, None]


def test_a_judge_that_failed_everywhere_is_left_out_of_the_comparison():
    panel = panel_agreement({"x": {"a": 70.0}, "broken": {}}, 70)
    assert [level.judge for level in panel.judges] == ["x"]
    assert panel_agreement({}, 70).judges == ()


@given(st.lists(st.tuples(percentages, percentages), min_size=3, max_size=30))
def test_the_rank_correlation_is_spearmans_with_ties_shared(pairs):
    from scipy import stats  # where it is needed: importing it takes a while

    first, second = zip(*pairs, strict=True)
    assume(len(set(first)) > 1 and len(set(second)) > 1)
    assert rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second)[0])


@pytest.mark.parametrize(
    ("first", "second"), [([1, 2], [1, 2]), ([5, 5, 5], [1, 2, 3]), ([1, 2, 3], [5, 5, 5])]
)
def test_there_is_no_rank_correlation_of_too_few_or_of_equal_scores(first, second):
    assert rank_correlation(first, second) is None


@given(
    st.dictionaries(
        st.sampled_from("xyz"),
        st.dictionaries(st.sampled_from("abcd"), percentages, min_size=1),
        min_size=1,
    )
)
def test_offsets_cancel_out_over_the_judges(by_judge):
    offsets = [level.offset for level in panel_agreement(by_judge, 70).judges]
    if None not in offsets:
        assert sum(offsets) == pytest.approx(0, abs=1e-9)
