"""Rubric tasks in a run: judged, recorded, and never asked about twice."""

from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from evalwright.engine.judges import Panel
from evalwright.engine.replay import replay_run
from evalwright.engine.task_work import RunResources
from subjects.judges import JUDGE, Judge, a_judge
from subjects.runs import Recording, Workshop

THREE_TO_ONE = a_suite([a_rubric_task("task-1", [0.75, 0.25])], modes=["rubric"])


def kind(task: Any) -> str:
    return f"Dear customer, about {task.id}: of course."


def judged_run(workshop: Workshop, judge: Judge, suite: Any = THREE_TO_ONE) -> Recording:
    return workshop.run(suite, kind, resources=judge.panel(), judges=(JUDGE,))


@pytest.mark.parametrize(
    ("met", "score", "passed"),
    [
        ({"c1": True, "c2": True}, 1.0, True),
        ({"c1": True}, 0.75, True),
        ({"c2": True}, 0.25, False),
        ({}, 0.0, False),
    ],
)
def test_the_score_is_the_weight_of_the_criteria_that_are_met(
    workshop: Workshop, met: dict[str, bool], score: float, passed: Any
) -> None:
    scored = judged_run(workshop, a_judge(**met)).score("task-1")
    assert (scored["score"], scored["passed"]) == (score, passed)


def test_a_rubric_task_passes_at_the_pass_score_of_its_suite(workshop: Workshop) -> None:
    strict = a_suite([a_rubric_task("task-1", [0.75, 0.25])], modes=["rubric"], pass_score=0.8)
    scored = judged_run(workshop, a_judge(c1=True), strict).score("task-1")
    assert (scored["score"], scored["passed"]) == (0.75, False)


def test_verdicts_and_usage_are_recorded_after_the_answer_and_before_the_score(
    workshop: Workshop,
) -> None:
    recording = judged_run(workshop, a_judge(c1=True))
    types = [event["type"] for event in recording.events if event.get("nodeId") == "task-1"]
    assert types == [
        "agent.invocation.started",
        "agent.decided",
        "agent.invocation.completed",
        "provider.usage",
        "evalwright.judged",
        "eval.scored",
    ]
    (judged,) = recording.of("evalwright.judged")
    assert judged["judge"] == JUDGE
    assert judged["subject"] == "rubric"
    assert judged["verdicts"][0] == {"question": "c1", "reason": "because of c1", "met": True}


def test_the_summary_says_nothing_of_judges_and_reasons(workshop: Workshop) -> None:
    recording = judged_run(workshop, a_judge(c1=True))
    (completed,) = recording.of("run.completed")
    text = str(completed["outputs"]["evalSummary"])
    assert "judge" not in text
    assert "because" not in text


def test_an_agent_that_fails_is_not_judged_and_scores_nothing(workshop: Workshop) -> None:
    judge = a_judge(c1=True, c2=True)

    def half(task: Any) -> str:
        if task.id == "task-2":
            raise ValueError("no")
        return "yes"

    tasks = [a_rubric_task("task-1"), a_rubric_task("task-2")]
    suite = a_suite(tasks, modes=["rubric"])
    recording = workshop.run(suite, half, resources=judge.panel(), judges=(JUDGE,))
    assert judge.asked == 1
    assert recording.score("task-2")["score"] == 0
    assert recording.score("task-2")["passed"] is False


def test_a_judge_that_fails_leaves_its_task_unscored_and_the_others_go_on(
    workshop: Workshop,
) -> None:
    judge = Judge(lambda name, shown: _complain_of("task-2", shown))
    suite = a_suite([a_rubric_task(f"task-{n}") for n in (1, 2, 3)], modes=["rubric"])
    recording = workshop.run(suite, kind, resources=judge.panel(), judges=(JUDGE,))
    assert recording.failure is not None
    assert recording.failure.code == "judge_failed"
    assert {scored["taskId"] for scored in recording.of("eval.scored")} == {"task-1", "task-3"}
    assert "1 of 3 tasks have no verdict" in str(recording.failure)
    assert not recording.of("eval.completed")


def _complain_of(task_id: str, shown: str) -> bool:
    if f"about {task_id}" in shown:
        from evalwright.models.protocol import ModelError

        raise ModelError("timeout", "too slow")
    return True


def test_a_resumed_run_asks_judges_only_about_what_has_no_verdict_and_no_agent_at_all(
    workshop: Workshop,
) -> None:
    judge = Judge(lambda name, shown: _complain_of("task-2", shown))
    suite = a_suite([a_rubric_task(f"task-{n}") for n in (1, 2, 3)], modes=["rubric"])
    failed = workshop.run(suite, kind, resources=judge.panel(), judges=(JUDGE,))

    def gone(task: Any) -> str:
        raise AssertionError("the agent has answered already")

    again = a_judge(c1=True)
    resumed = workshop.resume(failed.run_id, gone, again.panel())
    assert resumed.summary.passed_count == 3
    assert again.asked == 1
    assert resumed.of("run.started")[0]["metadata"] == {"resumedFrom": failed.run_id}
    assert len(resumed.of("evalwright.judged")) == 3


def test_replaying_asks_nobody(workshop: Workshop) -> None:
    judge = a_judge(c1=True)
    recording = judged_run(workshop, judge)
    asked = judge.asked
    assert replay_run(workshop.log, recording.run_id).summary == recording.summary
    assert judge.asked == asked


def test_the_majority_of_several_judges_decides_and_a_failed_one_is_asked_alone_again(
    workshop: Workshop,
) -> None:
    judges = [Judge(lambda *_: True, f"scripted:{name}") for name in "abc"]
    judges[2].broken = True
    resources = RunResources(panel=Panel([judge.model() for judge in judges]))
    names = tuple(judge.name for judge in judges)
    failed = workshop.run(THREE_TO_ONE, kind, resources=resources, judges=names)
    assert failed.failure is not None
    assert len(failed.of("evalwright.judged")) == 2
    judges[2].broken = False
    resumed = workshop.resume(failed.run_id, kind, resources)
    assert [judge.asked for judge in judges] == [1, 1, 2]
    assert resumed.score("task-1")["score"] == 1


def test_golden_tasks_of_the_same_suite_are_not_judged(workshop: Workshop) -> None:
    judge = a_judge(c1=True)
    suite = a_suite([a_task("task-1"), a_rubric_task("task-2")], modes=["golden", "rubric"])
    recording = workshop.run(suite, lambda task: "yes", resources=judge.panel(), judges=(JUDGE,))
    assert judge.asked == 1
    assert recording.summary.passed_count == 2


def test_the_cost_of_judges_is_part_of_the_cost_of_a_task(workshop: Workshop) -> None:
    recording = judged_run(workshop, a_judge(c1=True))
    assert recording.summary.total_cost_usd is None  # a scripted judge has no known price
    assert "costUsd" not in recording.score("task-1")


def test_the_latency_of_an_answer_outlives_every_resume(workshop: Workshop) -> None:
    judge = a_judge(c1=True)
    judge.broken = True
    failed = judged_run(workshop, judge)
    for _ in range(2):
        failed = workshop.resume(failed.run_id, kind, judge.panel())
        assert failed.failure is not None
    judge.broken = False
    resumed = workshop.resume(failed.run_id, kind, judge.panel())
    (completed,) = resumed.of("agent.invocation.completed")
    assert resumed.score("task-1")["latencyMs"] == completed["latencyMs"]
