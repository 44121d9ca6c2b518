"""Regression: a run beside its baseline, and all that is said of the change agrees."""

from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import Group, LeftOut
from evalwright.contracts.suite import Suite, World, WorldTool
from evalwright.engine.replay import replay_run
from evalwright.engine.runs import list_results
from evalwright.scoring.regression import compare_to_baseline
from subjects.judges import JUDGE, a_judge
from subjects.runs import Recording, Workshop

SUITE = a_suite(4, modes=["golden", "regression"])


def right(task: Any) -> str:
    return "yes"


def wrong_on(*task_ids: str) -> Any:
    return lambda task: "no" if task.id in task_ids else "yes"


def compared(workshop: Workshop, before: Any, after: Any, **options: Any) -> Recording:
    baseline = workshop.run(SUITE, before)
    return workshop.run(SUITE, after, baseline=baseline.run_id, **options)


def test_delta_event_and_summary_agree_and_point_at_the_diff(workshop: Workshop) -> None:
    recording = compared(workshop, right, wrong_on("task-2"))
    (started,), (completed,) = recording.of("eval.started"), recording.of("eval.completed")
    regression = recording.summary.regression
    assert regression is not None
    assert started["modes"] == ["golden", "regression"]
    assert started["baselineRunId"] == regression.baseline_run_id
    assert completed["regressionVsBaseline"] == regression.score_delta == -0.25
    assert regression.diff_ref == (
        f"/v1/runs/{recording.run_id}:diff?against={regression.baseline_run_id}"
    )


def test_a_task_that_fails_anew_is_a_reason_not_to_ship(workshop: Workshop) -> None:
    outcome = compared(workshop, right, wrong_on("task-2")).outcome
    assert outcome is not None
    bar, change = outcome.reasons
    assert bar.endswith("every task must pass (default)")
    assert "1 newly failing" in change
    assert "within chance" in change


def test_a_change_within_noise_does_not_fail_the_significant_gate(workshop: Workshop) -> None:
    outcome = compared(
        workshop, right, wrong_on("task-2"), fail_on=("significant-regression",)
    ).outcome
    assert outcome is not None
    assert outcome.reasons == []


def test_a_change_beyond_noise_fails_the_significant_gate(workshop: Workshop) -> None:
    suite = a_suite(12, modes=["golden", "regression"])
    baseline = workshop.run(suite, right)
    worse = wrong_on(*(f"task-{n}" for n in range(1, 9)))
    recording = workshop.run(
        suite, worse, baseline=baseline.run_id, fail_on=("significant-regression",)
    )
    assert recording.outcome is not None
    assert "beyond chance" in recording.outcome.reasons[0]


def test_an_improvement_is_no_reason(workshop: Workshop) -> None:
    outcome = compared(workshop, wrong_on("task-1"), right).outcome
    assert outcome is not None
    assert outcome.reasons == []
    assert outcome.summary.regression is not None
    assert outcome.summary.regression.score_delta == 0.25


def test_the_comparison_comes_back_from_the_log_of_the_new_run_alone(workshop: Workshop) -> None:
    recording = compared(workshop, right, wrong_on("task-2"))
    replayed = replay_run(workshop.log, recording.run_id)
    assert replayed.summary == recording.summary
    assert replayed.plan.baseline is not None
    assert [task.passed for task in replayed.plan.baseline.tasks] == [True] * 4


def test_a_run_of_another_suite_is_no_baseline(workshop: Workshop) -> None:
    other = workshop.run(
        a_suite(4, suite_id="acme.shop.evals.orders", modes=["golden", "regression"]), right
    )
    with pytest.raises(BadInput, match=r"evals\.orders@1\.0\.0, not of acme\.shop\.evals\.refunds"):
        workshop.run(SUITE, right, baseline=other.run_id)


def test_a_suite_that_changed_is_compared_by_the_tasks_that_did_not(workshop: Workshop) -> None:
    baseline = workshop.run(SUITE, right)
    tasks = [*SUITE.tasks[1:3], a_task("task-4", value="perhaps"), a_task("task-5")]
    changed = a_suite(tasks, modes=["golden", "regression"])
    recording = workshop.run(changed, wrong_on("task-2"), baseline=baseline.run_id)
    assert recording.outcome is not None
    plan = recording.outcome.plan.baseline
    assert plan is not None
    assert plan.left_out == LeftOut(changed=["task-4"], new=["task-5"], removed=["task-1"])
    report = compare_to_baseline(recording.summary, plan)
    assert [task.task_id for task in report.tasks] == ["task-2", "task-3"]
    assert report.newly_failing == ("task-2",)
    assert (report.baseline_score, report.score) == (1.0, 0.5)


def test_the_mode_of_the_protocol_compares_only_the_same_version(workshop: Workshop) -> None:
    other = workshop.run(a_suite(4, version="1.1.0", modes=["golden", "regression"]), right)
    recording = workshop.run(SUITE, wrong_on("task-2"), baseline=other.run_id)
    (started,), (completed,) = recording.of("eval.started"), recording.of("eval.completed")
    assert started["modes"] == ["golden"]
    assert "baselineRunId" not in started
    assert "regressionVsBaseline" not in completed
    assert recording.summary.regression is None
    assert recording.outcome is not None
    assert any("1 newly failing" in reason for reason in recording.outcome.reasons)
    with pytest.raises(BadInput, match="the same suite and version"):
        workshop.run(SUITE, right, baseline=other.run_id, modes=("golden", "regression"))


def test_a_run_without_an_end_is_no_baseline(workshop: Workshop) -> None:
    def broken(task: Any) -> str:
        raise ValueError("gone")

    failed = workshop.run(SUITE, broken)
    with pytest.raises(BadInput, match=r"not complete \(failed\)"):
        workshop.run(SUITE, right, baseline=failed.run_id)


def test_a_suite_without_the_mode_takes_no_baseline(workshop: Workshop) -> None:
    suite = a_suite(4)
    baseline = workshop.run(suite, right)
    with pytest.raises(BadInput, match=r"'regression' is not declared"):
        workshop.run(suite, right, baseline=baseline.run_id)


def test_tasks_of_a_world_that_changed_are_not_compared(workshop: Workshop) -> None:
    def suite(days: int) -> Suite:
        world = World({"orders": [{"id": "A-17", "days": days}]}, {"get": WorldTool(get="orders")})
        tasks = [a_task("in-it"), a_task("outside")]
        tasks[0] = msgspec.structs.replace(tasks[0], world="shop")
        modes = ["golden", "regression"]
        return msgspec.structs.replace(a_suite(tasks, modes=modes), worlds={"shop": world})

    before = workshop.run(suite(3), lambda _task: "yes")
    same = workshop.run(suite(3), lambda _task: "yes", baseline=before.run_id)
    other = workshop.run(suite(4), lambda _task: "yes", baseline=before.run_id)
    assert same.of("evalwright.planned")[0]["baseline"].get("leftOut") is None
    assert other.of("evalwright.planned")[0]["baseline"]["leftOut"] == {"changed": ["in-it"]}


def test_a_changed_bar_for_rubrics_is_a_changed_suite(workshop: Workshop) -> None:
    def suite(bar: float) -> Any:
        modes = ["rubric", "regression"]
        return a_suite([a_rubric_task("task-1")], modes=modes, pass_score=bar)

    judged = {"resources": a_judge(c1=True).panel(), "judges": (JUDGE,)}
    baseline = workshop.run(suite(0.5), right, **judged)
    with pytest.raises(BadInput, match="no task in common"):
        workshop.run(suite(0.9), right, baseline=baseline.run_id, **judged)


def test_many_repeats_must_show_more_for_one_to_be_called_worse(workshop: Workshop) -> None:
    suite = a_suite(12, modes=["golden", "regression"])
    baseline = workshop.run(suite, right)
    worse = wrong_on(*(f"task-{n}" for n in range(1, 7)))  # p = 0.03
    gate = {"baseline": baseline.run_id, "fail_on": ("significant-regression",)}
    alone = workshop.run(suite, worse, **gate)
    one_of_ten = workshop.run(suite, worse, group=Group("group_a", 1, 10), **gate)
    assert alone.outcome is not None
    assert one_of_ten.outcome is not None
    assert alone.outcome.reasons
    assert not one_of_ten.outcome.reasons


@pytest.mark.parametrize("fail_on", [(), ("threshold",), ("significant-regression",), ("none",)])
@pytest.mark.parametrize("failing", [0, 1, 12])
def test_lists_say_of_a_run_what_its_exit_code_says(
    workshop: Workshop, fail_on: Any, failing: int
) -> None:
    suite = a_suite(12, modes=["golden", "regression"], pass_score=0)
    baseline = workshop.run(suite, right)
    worse = wrong_on(*(f"task-{n}" for n in range(1, failing + 1)))
    run = workshop.run(suite, worse, baseline=baseline.run_id, fail_on=fail_on)
    assert run.outcome is not None
    _, newest = list_results(workshop.log)[0]
    within = f" {12 - failing} of 12 tasks, " if failing else ""
    words = "failed" if run.outcome.reasons else f"passed{within}"
    assert newest.startswith(words)
    assert newest == words or "bar 0 (passScore)" in newest
