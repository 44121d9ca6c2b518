"""Regression: a run beside its baseline, and all that is said of the change agrees."""

from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.errors import BadInput
from evalwright.contracts.planning import Group
from evalwright.engine.replay import replay_run
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
    (reason,) = outcome.reasons
    assert "1 newly failing" in reason
    assert "within noise" in reason


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


def test_a_run_of_another_version_is_no_baseline(workshop: Workshop) -> None:
    other = workshop.run(a_suite(4, version="1.1.0", modes=["golden", "regression"]), right)
    with pytest.raises(BadInput, match=r"refunds@1\.1\.0, not of acme\.shop\.evals\.refunds@1\.0"):
        workshop.run(SUITE, right, baseline=other.run_id)


def test_a_suite_that_changed_without_a_new_version_is_refused_by_the_task(
    workshop: Workshop,
) -> None:
    baseline = workshop.run(SUITE, right)
    changed = a_suite(
        [*SUITE.tasks[:3], a_task("task-4", value="perhaps")], modes=["golden", "regression"]
    )
    with pytest.raises(BadInput, match=r"has changed since \(task task-4\)"):
        workshop.run(changed, right, baseline=baseline.run_id)


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


def test_a_changed_bar_for_rubrics_is_a_changed_suite(workshop: Workshop) -> None:
    def suite(bar: float) -> Any:
        modes = ["rubric", "regression"]
        return a_suite([a_rubric_task("task-1")], modes=modes, pass_score=bar)

    judged = {"means": a_judge(c1=True).panel(), "judges": (JUDGE,)}
    baseline = workshop.run(suite(0.5), right, **judged)
    with pytest.raises(BadInput, match="passScore, which decides on rubric tasks"):
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
