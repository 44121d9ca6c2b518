"""Tasks with checks in a run: checked, recorded, repeated, weighed, and never invoked twice."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_rubric_task, a_suite, a_task, golden_score
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.events import Judged
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.contracts.verdicts import Verdict
from evalwright.engine.examination import checks_of
from evalwright.engine.replay import replay_run
from evalwright.scoring.checks.base import Examined, run_checks, verdict_of
from evalwright.scoring.golden import STRATEGIES
from strategies import json_values
from subjects.runs import Recording, Workshop


def a_checked_task(task_id: str = "task-1", *checks: Any, **fields: Any) -> Task:
    threshold = fields.pop("threshold", None)
    expected = Expected("checks", checks=list(checks), threshold=threshold)
    return Task(task_id, fields.pop("input", "Where is order A-17?"), expected, **fields)


def of_checks(*tasks: Task, modes: Sequence[str] = ("golden", "rubric", "adversarial")) -> Suite:
    return a_suite(list(tasks), modes=modes)


SHIPPED = {"contains": "shipped"}
A_17 = {"contains": "A-17"}


def says(*texts: str) -> Any:
    """An agent that gives these answers in turn, and the last one from then on."""
    left = list(texts)
    return lambda _task: left.pop(0) if len(left) > 1 else left[0]


def test_a_task_passes_when_all_its_checks_do(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("both", SHIPPED, A_17), a_checked_task("one", SHIPPED))
    recording = workshop.run(suite, says("It is shipped."))
    assert (recording.score("one")["score"], recording.score("one")["passed"]) == (1, True)
    assert (recording.score("both")["score"], recording.score("both")["passed"]) == (0, False)
    assert [each.get("checkScore") for each in recording.of("evalwright.checked")] == [0.5, None]


def test_with_a_threshold_the_weighted_mean_decides(workshop: Workshop) -> None:
    checks = [{**SHIPPED, "weight": 3}, A_17]
    suite = of_checks(a_checked_task("task-1", *checks, threshold=0.7))
    scored = workshop.run(suite, says("It is shipped.")).score("task-1")
    assert (scored["score"], scored["passed"]) == (0.75, True)


def test_what_checks_saw_is_recorded_beside_the_score_and_not_in_it(workshop: Workshop) -> None:
    recording = workshop.run(of_checks(a_checked_task("task-1", A_17)), says("No idea."))
    (checked,) = recording.of("evalwright.checked")
    (result,) = checked["checks"]
    assert (checked["score"], checked["passed"]) == (0, False)
    assert (result["check"], result["passed"]) == ("contains", False)
    assert (result["expected"], result["actual"]) == ("A-17", "No idea.")
    assert "idea" not in str(recording.score("task-1"))
    types = [event["type"] for event in recording.events if event.get("nodeId") == "task-1"]
    assert types[-2:] == ["evalwright.checked", "eval.scored"]


def test_an_agent_that_fails_is_not_checked_and_scores_nothing(workshop: Workshop) -> None:
    def half(task: Any) -> str:
        if task.id == "broken":
            raise ValueError("shipped")
        return "shipped"

    suite = of_checks(a_checked_task("broken", SHIPPED), a_checked_task("works", SHIPPED))
    recording = workshop.run(suite, half)
    assert recording.of("evalwright.checked", "broken") == [
        {"checks": [], "score": 0.0, "passed": False}
    ]
    assert recording.score("broken")["passed"] is False


def test_checks_that_cannot_be_used_are_refused_before_anything_runs(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("task-1", SHIPPED, {"contans": "x"}))
    with pytest.raises(InvalidDocument) as refused:
        workshop.run(suite, says("x"))
    (problem,) = refused.value.problems
    assert problem.path.startswith("$.tasks[0].checks[1]")
    assert "'task-1'" in problem.message


def test_the_score_of_a_run_weighs_its_tasks(workshop: Workshop) -> None:
    heavy, light = a_checked_task("heavy", SHIPPED, weight=3), a_checked_task("light", A_17)
    recording = workshop.run(of_checks(heavy, light), says("It is shipped."))
    assert recording.summary.aggregate_score == 0.75
    assert recording.of("eval.completed")[0]["aggregateScore"] == 0.75
    assert replay_run(workshop.log, recording.run_id).summary == recording.summary


# Repetitions.


def repeated(*answers: str, repeat: int = 5, pass_rate: float = 1.0) -> tuple[Suite, Any]:
    task = a_checked_task("task-1", SHIPPED, repeat=repeat, pass_rate=pass_rate)
    return of_checks(task), says(*answers)


@pytest.mark.parametrize(("rate", "passes"), [(0.8, True), (0.81, False), (1.0, False)])
def test_a_repeated_task_passes_by_the_share_of_repetitions_that_do(
    workshop: Workshop, rate: float, passes: Any
) -> None:
    suite, agent = repeated("no", "shipped", pass_rate=rate)
    recording = workshop.run(suite, agent)
    scored = recording.score("task-1")
    assert (scored["score"], scored["passed"]) == (0.8, passes)
    checked = recording.of("evalwright.checked")
    assert [each.get("repetition", 1) for each in checked] == [1, 2, 3, 4, 5]
    assert [each["passed"] for each in checked] == [False, True, True, True, True]
    ids = [each["invocationId"] for each in recording.of("agent.invocation.started")]
    assert ids == ["inv-0001", "inv-0001-r2", "inv-0001-r3", "inv-0001-r4", "inv-0001-r5"]


def test_the_cost_of_a_repeated_task_is_that_of_all_its_repetitions(workshop: Workshop) -> None:
    def pays(task: Any) -> str:
        task.report_usage(model="m", input_tokens=1, output_tokens=1, cost_usd=0.25)
        return "shipped"

    recording = workshop.run(repeated("", repeat=3)[0], pays)
    assert recording.score("task-1")["costUsd"] == 0.75
    assert recording.summary.total_cost_usd == 0.75


def test_an_error_counts_as_a_repetition_that_failed(workshop: Workshop) -> None:
    left = [ValueError("no"), "shipped", "shipped"]

    def sometimes(_task: Any) -> str:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    recording = workshop.run(repeated("", repeat=3, pass_rate=0.6)[0], sometimes)
    assert [each["passed"] for each in recording.of("evalwright.checked")] == [False, True, True]
    assert recording.score("task-1")["passed"] is True


def test_a_task_of_which_no_repetition_passed_does_not_pass_at_a_rate_of_0(
    workshop: Workshop,
) -> None:
    def broken(_task: Any) -> str:
        raise RuntimeError("broken")

    works = a_checked_task("task-2", SHIPPED, input="good")
    never = repeated("", repeat=3, pass_rate=0.0)[0].tasks[0]
    suite = of_checks(never, works)
    recording = workshop.run(
        suite, lambda task: "shipped" if task.input == "good" else broken(task)
    )
    assert recording.score("task-1")["passed"] is False
    assert recording.summary.passed is False


def test_a_budget_ends_a_run_between_repetitions_and_the_rest_is_made_later(
    workshop: Workshop,
) -> None:
    def pays(task: Any) -> str:
        task.report_usage(model="m", input_tokens=1, output_tokens=1, cost_usd=0.25)
        return "shipped"

    suite = repeated("", repeat=4)[0]
    stopped = workshop.run(suite, pays, max_cost_usd=0.5)
    assert stopped.failure is not None
    assert stopped.failure.code == "budget_exhausted"
    assert len(stopped.of("evalwright.checked")) == 2
    calls: list[str] = []
    resumed = workshop.resume(
        stopped.run_id, lambda task: calls.append(task.id) or pays(task), max_cost_usd=2
    )
    assert len(calls) == 2
    assert resumed.score("task-1")["costUsd"] == 1.0
    assert [each.get("repetition", 1) for each in resumed.of("evalwright.checked")] == [1, 2, 3, 4]


def test_a_run_of_which_every_invocation_fails_has_no_scores(workshop: Workshop) -> None:
    def gone(_task: Any) -> str:
        raise OSError("nobody there")

    failed = workshop.run(repeated("", repeat=2)[0], gone)
    assert failed.failure is not None
    assert failed.failure.code == "agent_unavailable"
    assert not failed.of("evalwright.checked")
    resumed: Recording = workshop.resume(failed.run_id, says("shipped"))
    assert resumed.summary.passed_count == 1


# Tasks of OpenWOP suites.


@given(strategy=st.sampled_from(sorted(STRATEGIES)), value=json_values, output=json_values)
def test_a_golden_task_is_a_check_with_the_verdict_of_its_strategy(strategy, value, output):
    expected = a_task(strategy=strategy, value=value).expected
    checks, problems = checks_of(expected, 0.7)
    score, passed = verdict_of(run_checks(checks, Examined(output=output)), None)
    assert problems == []
    assert (score, passed) == (golden_score(output, expected.match), score == 1)


@given(met=st.lists(st.booleans(), min_size=1, max_size=4), bar=st.sampled_from([0, 0.5, 0.7, 1]))
def test_a_rubric_is_a_check_that_passes_at_the_bar_of_its_suite(met, bar):
    expected = a_rubric_task(weights=(1.0,) * len(met)).expected
    said = [Verdict(f"c{n}", "so it is", each) for n, each in enumerate(met, 1)]
    (check,), _ = checks_of(expected, bar)
    told = {check.asks[0]: [Judged("rubric", "judge", 1, "1", said)]}
    found = check.evaluate(Examined(told=told))
    assert (found.score, found.passed) == (sum(met) / len(met), sum(met) / len(met) >= bar)
