"""Rescoring: new checks over recorded answers, nothing invoked, in a run that names its source."""

import asyncio
from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from engine.test_asking_checks_in_runs import GREETS
from engine.test_checked_runs import A_17, SHIPPED, a_checked_task, of_checks, says
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.replay import replay_run
from evalwright.engine.rescore import plan_rescore
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.engine.task_work import RunResources
from subjects.judges import JUDGE, a_judge
from subjects.runs import Recording, Workshop


def rescored(
    workshop: Workshop,
    run_id: str,
    suite: Suite | None = None,
    resources: RunResources | None = None,
    **options: Any,
) -> tuple[Recording, list[str]]:
    subject = SuiteSubject(suite, None) if suite else None
    log = workshop.log
    planned = plan_rescore(log, run_id, subject, "changed.yaml", RunOptions(**options))
    outcome = asyncio.run(planned.run(log, resources=resources))
    return Recording(log, outcome, None), planned.notices


def test_new_checks_are_run_over_recorded_answers(workshop: Workshop) -> None:
    before = workshop.run(of_checks(a_checked_task("task-1", A_17)), says("It is shipped."))
    assert before.summary.passed_count == 0
    changed = of_checks(a_checked_task("task-1", SHIPPED, {"max": {"latency_ms": 60_000}}))
    after, notices = rescored(workshop, before.run_id, changed)
    assert after.summary.passed_count == 1
    assert notices == []
    assert after.run_id != before.run_id
    assert after.of("run.started")[0]["metadata"] == {"rescoredFrom": before.run_id}
    assert after.decision("task-1") == "It is shipped."
    assert after.score("task-1")["latencyMs"] == before.score("task-1")["latencyMs"]
    assert replay_run(workshop.log, after.run_id).summary == after.summary


def test_without_another_suite_the_same_checks_are_run_again(workshop: Workshop) -> None:
    before = workshop.run(of_checks(a_checked_task("task-1", SHIPPED)), says("It is shipped."))
    after, _ = rescored(workshop, before.run_id)
    assert after.summary == before.summary


def test_portable_suites_can_be_rescored_too(workshop: Workshop) -> None:
    before = workshop.run(a_suite([a_task("task-1", value="no")]), says("yes"))
    after, _ = rescored(workshop, before.run_id, a_suite([a_task("task-1", value="yes")]))
    assert (before.summary.passed_count, after.summary.passed_count) == (0, 1)


def test_calls_and_usage_come_from_the_record(workshop: Workshop) -> None:
    def busy(task: Any) -> str:
        task.report_usage(model="m", input_tokens=10, output_tokens=5, cost_usd=0.5)
        try:
            task.call_tool("shop:orders.get", {"id": "A-17"})
        except Exception:  # noqa: BLE001 - there is no fixture for it
            return "shipped"
        return ""

    before = workshop.run(of_checks(a_checked_task("task-1", SHIPPED)), busy)
    changed = of_checks(
        a_checked_task(
            "task-1",
            {"calls": {"tool": "shop:orders.get", "args": {"id": "A-17"}}},
            {"max": {"cost_usd": 0.5, "tokens": 15}},
        )
    )
    after, _ = rescored(workshop, before.run_id, changed)
    assert after.summary.passed_count == 1, after.of("evalwright.checked")
    assert after.summary.total_cost_usd == before.summary.total_cost_usd == 0.5


def test_an_error_stays_one(workshop: Workshop) -> None:
    def half(task: Any) -> str:
        if task.id == "broken":
            raise ValueError("no")
        return "shipped"

    suite = of_checks(a_checked_task("broken", SHIPPED), a_checked_task("works", SHIPPED))
    before = workshop.run(suite, half)
    after, _ = rescored(workshop, before.run_id)
    assert after.summary == before.summary


def test_repetitions_are_rescored_as_often_as_they_were_made(workshop: Workshop) -> None:
    task = a_checked_task("task-1", SHIPPED, repeat=3)
    before = workshop.run(of_checks(task), says("A-17", "shipped", "A-17 is shipped"))
    changed = of_checks(a_checked_task("task-1", A_17, repeat=5, pass_rate=0.6))
    after, _ = rescored(workshop, before.run_id, changed)
    assert [each["passed"] for each in after.of("evalwright.checked")] == [True, False, True]
    assert after.score("task-1")["passed"] is True


def test_a_task_that_was_not_repeated_as_often_as_it_was_to_be_has_no_answer(
    workshop: Workshop,
) -> None:
    whole, part = (a_checked_task(each, SHIPPED, repeat=2) for each in ("task-1", "task-2"))

    def answer(task: Any) -> str:
        task.report_usage(
            provider="openai", model="gpt", inputTokens=1, outputTokens=1, costEstimateUsd=1.0
        )
        return "shipped"

    before = workshop.run(of_checks(whole, part), answer, max_cost_usd=3.5)
    assert [event["type"] for event in before.events][-1] == "run.failed"
    planned = plan_rescore(workshop.log, before.run_id, None, "suite.yaml", RunOptions())
    assert [task.task_id for task in planned.plan.suite.tasks] == ["task-1"]
    assert planned.missing == ("task-2",)


def test_tasks_that_have_no_answer_are_named_and_left_out(workshop: Workshop) -> None:
    suite = of_checks(*(a_checked_task(each, SHIPPED) for each in ("stays", "goes", "changes")))
    before = workshop.run(suite, says("shipped"))
    changed = of_checks(
        a_checked_task("stays", SHIPPED),
        a_checked_task("comes", SHIPPED),
        a_checked_task("changes", SHIPPED, input="Another question"),
    )
    after, notices = rescored(workshop, before.run_id, changed)
    assert [task.task_id for task in after.summary.tasks] == ["stays"]
    assert "left out, as new: comes" in notices
    assert "left out, as removed: goes" in notices
    assert "left out, as asked otherwise: changes" in notices
    assert after.of("run.started")[0]["tags"] == ["rescored", "partial"]


def test_a_suite_without_any_of_the_tasks_is_refused(workshop: Workshop) -> None:
    before = workshop.run(of_checks(a_checked_task("task-1", SHIPPED)), says("shipped"))
    with pytest.raises(BadInput, match=r"no task of changed\.yaml has an answer"):
        rescored(workshop, before.run_id, of_checks(a_checked_task("other", SHIPPED)))


def test_judges_are_asked_only_what_they_have_not_been_asked(workshop: Workshop) -> None:
    judge = a_judge(c1=True, c2=True)
    suite = of_checks(a_checked_task("task-1", GREETS))
    before = workshop.run(suite, says("Hello!"), resources=judge.panel(), judges=(JUDGE,))
    other = {"judge": ["is short"]}
    changed = of_checks(a_checked_task("task-1", GREETS, other))
    after, _ = rescored(workshop, before.run_id, changed, judge.panel())
    assert after.summary.passed_count == 1
    assert judge.asked == 2
    again, _ = rescored(workshop, after.run_id, None, judge.panel())
    assert again.summary == after.summary
    assert judge.asked == 2


def test_a_changed_rubric_is_judged_anew_and_an_unchanged_one_is_not(workshop: Workshop) -> None:
    judge = a_judge(c1=True, c2=True)
    suite = a_suite([a_rubric_task("task-1", [1.0])], modes=["rubric"])
    before = workshop.run(suite, says("Hello!"), resources=judge.panel(), judges=(JUDGE,))
    same, _ = rescored(workshop, before.run_id, suite, judge.panel())
    assert same.summary == before.summary
    assert judge.asked == 1
    changed = a_suite([a_rubric_task("task-1", [1.0, 2.0])], modes=["rubric"])
    rescored(workshop, before.run_id, changed, judge.panel())
    assert judge.asked == 2


def test_a_rescore_that_was_stopped_goes_on_without_invoking_anybody(workshop: Workshop) -> None:
    judge = a_judge(c1=True, c2=True)
    before = workshop.run(
        of_checks(*(a_checked_task(f"task-{n}", A_17, repeat=2) for n in (1, 2))), says("Hello!")
    )
    judge.broken = True
    changed = of_checks(*(a_checked_task(f"task-{n}", GREETS, repeat=2) for n in (1, 2)))
    with pytest.raises(Exception, match="judge_failed"):
        rescored(workshop, before.run_id, changed, judge.panel(), judges=(JUDGE,))
    judge.broken = False

    def gone(task: Any) -> str:
        raise AssertionError("nobody may be invoked")

    resumed = workshop.resume(workshop.log.run_ids()[0], gone, judge.panel())
    assert resumed.summary.passed_count == 2
    assert judge.asked == 3
