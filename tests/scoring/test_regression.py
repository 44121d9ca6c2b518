"""A run beside its baseline: what changed, whether it is worse, whether that is more than noise."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.run_plan import (
    Baseline,
    BaselineTask,
    LeftOut,
)
from evalwright.contracts.suite import Task, Thresholds, World
from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.scoring.regression import (
    RegressionReport,
    called,
    change_against_baseline,
    compare_to_baseline,
    left_out_tasks,
    verdicts_of,
)
from evalwright.scoring.thresholds import mean

Result = tuple[float, bool]
PASS, FAIL = (1.0, True), (0.0, False)

results = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]), st.booleans())
pairs = st.lists(st.tuples(results, results), max_size=20)


def a_run(outcomes: list[Result]) -> EvalSummary:
    tasks = [TaskResult(f"task-{n}", *outcome) for n, outcome in enumerate(outcomes, 1)]
    passed = sum(task.passed for task in tasks)
    aggregate = mean([task.score for task in tasks])
    return EvalSummary(
        "acme.shop.evals.refunds", "1.0.0", aggregate, True, len(tasks), passed, tasks
    )


def a_baseline(outcomes: list[Result]) -> Baseline:
    tasks = [BaselineTask(*outcome) for outcome in outcomes]
    return Baseline("run_b", mean([task.score for task in tasks]), tasks)


def compared(before: list[Result], now: list[Result]) -> RegressionReport:
    return compare_to_baseline(a_run(now), a_baseline(before))


def of_pairs(both: list[tuple[Result, Result]]) -> RegressionReport:
    return compared([before for before, _ in both], [now for _, now in both])


# What can be compared.


def test_tasks_that_are_not_the_same_in_both_suites_are_left_out():
    """A title changes nothing; the bar of rubric tasks and the world of a task belong to them."""
    shop, bank = World({"orders": [{"id": "A"}]}, {}), World({"accounts": []}, {})
    task, rubric = a_task("same"), a_rubric_task("rubric")
    before = a_suite([task, rubric, a_task("other"), a_task("gone"), at_shop("world")])
    now = a_suite(
        [
            replace(task, title="A title"),
            rubric,
            a_task("other", value="no"),
            at_shop("world"),
            a_task("new"),
        ]
    )
    assert left_out_tasks(before, now) == LeftOut(["other"], ["new"], ["gone"])
    barred = replace(now, thresholds=Thresholds(pass_score=0.9))
    assert left_out_tasks(before, barred).changed == ["rubric", "other"]
    as_now = replace(before, worlds={"shop": shop})
    for world, changed in ((shop, ["other"]), (bank, ["other", "world"])):
        assert left_out_tasks(as_now, replace(now, worlds={"shop": world})).changed == changed
    assert left_out_tasks(before, replace(now, worlds={"shop": shop})).changed == [
        *("other", "world")
    ]


def test_what_a_recorded_suite_lacks_is_no_change():
    def redact(text: bytes) -> bytes:
        return text.replace(b"s3cret", b"[masked]")

    before, now = (
        replace(
            a_suite([at_shop("one", input=said)]), worlds={"shop": World({"k": [{"v": said}]}, {})}
        )
        for said in ("[masked]", "s3cret")
    )
    assert left_out_tasks(before, now, redact) == LeftOut([], [], [])
    assert left_out_tasks(before, now).changed == ["one"]


def at_shop(task_id: str, **fields: str) -> Task:
    return replace(a_task(task_id, **fields), world="shop")


# What changed.


def test_tasks_are_sorted_by_what_became_of_them_in_the_order_of_the_suite():
    report = compared([PASS, FAIL, PASS, FAIL, PASS], [FAIL, PASS, PASS, FAIL, FAIL])
    assert report.newly_failing == ("task-1", "task-5")
    assert report.newly_passing == ("task-2",)
    assert report.still_failing == ("task-4",)
    assert report.score_drops == ()


def test_a_score_that_fell_under_the_same_verdict_is_told():
    report = compared([(0.9, True), (0.4, False), (0.9, True)], [(0.8, True), (0.1, False), FAIL])
    assert [drop.task_id for drop in report.score_drops] == ["task-1", "task-2"]
    assert report.score_drops[0].difference == -0.1
    assert report.newly_failing == ("task-3",)


def test_the_score_delta_is_exact_in_decimal_and_below_0_when_worse():
    assert compared([(0.3, True)], [(0.1, True)]).score_delta == -0.2
    assert compared([(0.1, True)], [(0.3, True)]).score_delta == 0.2


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_baseline_of_another_number_of_tasks_is_refused(tasks):
    with pytest.raises(ValueError, match=rf"baseline run_b has {tasks} tasks and the run has 2"):
        compare_to_baseline(a_run([PASS] * 2), a_baseline([PASS] * tasks))


# Whether it is worse.


def test_a_lower_score_is_a_regression_though_no_verdict_changed():
    assert compared([(0.9, True)], [(0.8, True)]).regressed


def test_a_newly_failing_task_is_a_regression_though_the_score_rose():
    report = compared([PASS, FAIL, FAIL], [FAIL, PASS, PASS])
    assert report.score_delta > 0
    assert report.regressed


def test_the_same_or_better_is_no_regression():
    assert not compared([PASS, FAIL], [PASS, FAIL]).regressed
    assert not compared([PASS, FAIL], [PASS, PASS]).regressed


# Whether it is more than noise.


def test_five_newly_failing_tasks_may_be_noise_and_six_are_not():
    five = compared([PASS] * 12, [FAIL] * 5 + [PASS] * 7)
    six = compared([PASS] * 12, [FAIL] * 6 + [PASS] * 6)
    assert five.regressed
    assert not five.verdict.is_worse
    assert six.verdict.is_worse


def test_scores_that_fell_everywhere_are_a_detail_while_no_verdict_changed():
    report = compared([(0.9, True)] * 8, [(0.85, True)] * 8)
    assert report.score_change.significant
    assert report.sentence == "No verdict changed: 8 of 8 passed on both sides."
    assert report.regressed
    assert not report.verdict.is_worse


def test_verdicts_that_turned_tell_though_no_score_changed():
    report = compared([(1.0, True)] * 6, [(1.0, False)] * 6)
    assert report.score_delta == 0
    assert report.regressed
    assert report.verdict.is_worse


def test_getting_better_is_never_a_significant_regression():
    report = compared([FAIL] * 10, [PASS] * 10)
    assert report.verdict.is_better
    assert not report.verdict.is_worse


# In words.


def test_repeats_are_put_beside_the_baseline_together_and_beside_its_repeats_if_it_has_some():
    runs = [verdicts_of(a_run([FAIL, PASS]))] * 5
    once = change_against_baseline(runs, a_baseline([PASS, PASS]))
    assert str(once.passes) == "2 of 2 → 5 of 10"
    assert not once.is_worse
    repeated = Baseline("run_b", 1.0, [BaselineTask(*PASS, (5, 5)), BaselineTask(*PASS, (5, 5))])
    often = change_against_baseline(runs, repeated, {"task-1": "refunds"}.__getitem__)
    assert often.is_worse
    assert "Task refunds: 5 of 5 → 0 of 5" in often.sentence


def test_tasks_that_the_baseline_does_not_have_are_left_out_of_the_test():
    baseline = msgspec.structs.replace(a_baseline([PASS]), left_out=LeftOut(new=["task-2"]))
    assert change_against_baseline([verdicts_of(a_run([PASS, FAIL]))], baseline).tasks == 1


def test_a_baseline_of_repeats_is_called_by_its_group_and_a_named_one_by_its_name_and_age():
    plain = a_baseline([PASS])
    assert called(plain) == "run_b"
    of_group = msgspec.structs.replace(
        plain, group="group_a", tasks=[BaselineTask(*PASS, (3, 5))], name="main", age_s=60
    )
    assert called(of_group) == "main (group_a, 5 runs, 1 minute old)"


# Properties.


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_exchanging_run_and_baseline_turns_everything_round(both):
    there, back = of_pairs(both), of_pairs([(now, before) for before, now in both])
    assert back.score_delta == -there.score_delta
    assert back.newly_failing == there.newly_passing
    assert back.still_failing == there.still_failing
    if both:
        assert back.pass_change.p_value == there.pass_change.p_value
        assert back.score_change.low == -there.score_change.high


@settings(max_examples=60, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_tasks_does_not_matter_to_the_statistics(both, random):
    there, shuffled = of_pairs(both), of_pairs(random.sample(both, len(both)))
    assert shuffled.pass_change == there.pass_change
    assert shuffled.score_change == there.score_change
    assert shuffled.sentence == there.sentence


@settings(max_examples=60, deadline=None)
@given(pairs, st.lists(results, min_size=1, max_size=10))
def test_tasks_without_a_change_never_turn_the_delta_round(both, same):
    before, after = of_pairs(both), of_pairs([*both, *((one, one) for one in same)])
    assert math.copysign(1, after.score_delta) == math.copysign(1, before.score_delta)
    assert after.newly_failing == before.newly_failing
    assert after.regressed is before.regressed


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_what_is_significant_is_a_regression_and_the_delta_lies_in_its_interval(both):
    report = of_pairs(both)
    assert -1 <= report.score_delta <= 1
    assert report.regressed or not report.verdict.is_worse
    if report.score_change:
        low, high = report.score_change.low, report.score_change.high
        assert low - 1e-12 <= report.score_delta <= high + 1e-12


def test_a_baseline_of_other_tasks_is_not_compared_with():
    with pytest.raises(ValueError, match="zip"):
        change_against_baseline([verdicts_of(a_run([PASS, PASS]))], a_baseline([PASS]))


def test_a_group_is_called_by_its_runs():
    group = replace(a_baseline([PASS]), group="nightly")
    repeated = [BaselineTask(1.0, True, repeats=(count, 3)) for count in (1, 2)]
    assert called(group) == "nightly, 0 runs"
    assert called(replace(group, tasks=repeated)) == "nightly, 3 runs"
    once = [BaselineTask(1.0, True, repeats=(1, 1))]
    assert called(replace(group, tasks=once, name="main", age_s=0)).startswith(
        "main (nightly, 1 run, "
    )
