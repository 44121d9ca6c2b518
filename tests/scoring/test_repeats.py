"""The same suite run several times: pass rates, what k runs in a row give, and flaky tasks."""

from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_suite, a_summary, a_task
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.repeats import RepeatsReport, Spread, TaskRepeats, summarise_repeats
from evalwright.scoring.statistics import wilson

counts = st.integers(1, 30).flatmap(lambda runs: st.tuples(st.just(runs), st.integers(0, runs)))


def runs_of(*outcomes: str, suite=None) -> list[EvalSummary]:
    """One run per word: `yes no yes` answers the first task right, the second wrong …"""
    answers = [
        dict(zip(["task-1", "task-2", "task-3"], word.split(), strict=True)) for word in outcomes
    ]
    return [a_summary(suite or a_suite(3, pass_score=0.5), one) for one in answers]


def a_task_with(runs: int, passes: int) -> TaskRepeats:
    return TaskRepeats("task-1", runs, passes, Spread(0.5, 0.0, 1.0))


def a_report(*passes: int, runs: int) -> RepeatsReport:
    tasks = tuple(a_task_with(runs, number) for number in passes)
    return RepeatsReport(runs, runs, Spread(0.5, 0.5, 0.5), tasks)


# Tasks.


def test_a_task_that_passes_sometimes_is_flaky():
    report = summarise_repeats(runs_of("yes no yes", "yes no no", "yes no yes"))
    assert [task.verdict for task in report.tasks] == ["passed", "failed", "flaky"]
    assert report.flaky == ("task-3",)
    assert report.failing == ("task-2",)


def test_the_pass_rate_comes_with_wilsons_interval():
    task = summarise_repeats(runs_of("yes yes yes", "no yes yes", "no yes yes")).tasks[0]
    assert (task.passes, task.runs) == (1, 3)
    assert task.pass_rate == pytest.approx(1 / 3)
    assert task.interval == wilson(1, 3)


def test_scores_are_told_with_their_spread():
    report = summarise_repeats(runs_of("yes yes yes", "no yes yes", "no no yes", "no no yes"))
    assert report.tasks[0].score == Spread(0.25, 0.0, 1.0)
    assert report.score.low == pytest.approx(1 / 3)
    assert report.score.high == 1
    assert report.score.mean == pytest.approx((1 + 2 / 3 + 1 / 3 + 1 / 3) / 4)


def test_runs_that_met_their_bars_are_counted():
    assert summarise_repeats(runs_of("yes yes yes", "no no no", "yes yes no")).runs_passed == 2


# k runs.


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_the_estimate_counts_the_choices_of_k_among_the_runs(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    task = a_task_with(len(outcomes), sum(outcomes))
    chosen = list(combinations(outcomes, k))
    assert task.pass_hat(k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


@given(counts)
def test_more_runs_are_harder_to_pass_in_a_row(count):
    task = a_task_with(*count)
    in_a_row = [task.pass_hat(k) for k in range(1, task.runs + 1)]
    assert in_a_row == sorted(in_a_row, reverse=True)
    assert in_a_row[0] == pytest.approx(task.pass_rate)


@given(counts)
def test_all_runs_pass_in_a_row_only_where_the_verdict_is_passed(count):
    task = a_task_with(*count)
    assert task.pass_hat(task.runs) == (task.verdict == "passed")


@given(counts)
def test_the_interval_holds_the_pass_rate(count):
    task = a_task_with(*count)
    low, high = task.interval
    assert 0 <= low <= task.pass_rate + 1e-12
    assert task.pass_rate - 1e-12 <= high <= 1


def test_the_suite_has_the_mean_of_its_tasks():
    report = a_report(4, 2, 0, runs=4)
    assert report.pass_hat(2) == pytest.approx((1 + 1 / 6 + 0) / 3)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_k_is_from_1_to_the_number_of_runs(k):
    for subject in (a_task_with(3, 2), a_report(2, runs=3)):
        with pytest.raises(ValueError, match=rf"k is {k}, .* number of runs, 3"):
            subject.pass_hat(k)


@given(st.permutations(["yes no yes", "no no yes", "yes no no", "yes no yes"]))
def test_the_order_of_the_runs_does_not_matter(outcomes):
    expected = summarise_repeats(runs_of("yes no yes", "no no yes", "yes no no", "yes no yes"))
    assert summarise_repeats(runs_of(*outcomes)) == expected


# In words.


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (a_report(3, 2, 0, runs=3), "1 of 3 tasks is flaky over 3 runs."),
        (a_report(3, 2, 1, runs=3), "2 of 3 tasks are flaky over 3 runs."),
        (
            a_report(5, 0, runs=5),
            (
                "No task was flaky in 5 runs, though of tasks that pass 55% of the time, "
                "1 in 20 would pass in all too."
            ),
        ),
        (a_report(0, 0, runs=5), "No task was flaky in 5 runs."),
        (a_report(1, 0, runs=1), "One run cannot show which tasks are flaky: repeat it."),
        (a_report(runs=3), "There are no tasks."),
    ],
)
def test_the_sentence_says_what_is_flaky_and_what_agreement_leaves_open(report, sentence):
    assert report.sentence == sentence


# What are no repeats.


def test_no_runs_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        summarise_repeats([])


@pytest.mark.parametrize(
    "change", [{"suite_id": "acme.shop.evals.other"}, {"suite_version": "1.0.1"}]
)
def test_runs_of_another_suite_or_version_are_refused_by_number_and_name(change):
    same = a_summary()
    other = msgspec.structs.replace(same, **change)
    named = rf"run 3 of {other.suite_id}@{other.suite_version}: only runs of the same suite"
    with pytest.raises(ValueError, match=named):
        summarise_repeats([same, same, other])


@pytest.mark.parametrize("names", [["task-1"], ["task-2", "task-1"], ["task-1", "task-3"]])
def test_runs_of_other_tasks_are_refused(names):
    suites = [a_suite([a_task(name) for name in each]) for each in (["task-1", "task-2"], names)]
    with pytest.raises(ValueError, match="run 1 and run 2 have different tasks"):
        summarise_repeats([a_summary(suite) for suite in suites])
