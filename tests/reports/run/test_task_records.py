"""A run task by task, read from its log."""

import msgspec
import pytest

from builders import (
    AGENT_ID,
    Answer,
    a_log,
    a_rubric_task,
    a_score,
    a_suite,
    a_task,
    a_usage,
    an_error,
    as_document,
    as_log,
    opening,
)
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    Checked,
    Decided,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
)
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import UNTOLD, CheckResult, Verdict
from evalwright.engine.invocation import invocation_id
from evalwright.reports.formats.console import Style
from evalwright.reports.run.task_records import TaskRecord, read_tasks
from evalwright.reports.run.task_tables import failures_first, render_tasks, task_lines, why

NAMES = ["taskId", "passed", "score", "title", "input", "output", "checks"]
NAMES += ["usage", "latencyMs", "findings"]
NAMES.append("coverage")


def records(log: list[Event]) -> list[TaskRecord]:
    return [task.record for task in read_tasks(log, show_secrets=True).tasks]


def a_wide_suite(**fields: object) -> Suite:
    task = Task("task-1", "Where is it?", Expected("checks", checks=[{"contains": "x"}]), **fields)
    return a_suite([task])


def said(output: object, *payloads: Payload, repetition: int = 1) -> list[Payload]:
    name = invocation_id(0, 1, repetition)
    return [
        InvocationStarted(name, AGENT_ID, "run-api"),
        Decided(AGENT_ID, output),
        InvocationCompleted(name, AGENT_ID, "completed", latency_ms=7),
        *payloads,
    ]


def checked(*, passed: bool, repetition: int = 1) -> Checked:
    reason = "" if passed else "“x” is not in the output"
    result = CheckResult("contains", passed, float(passed), "x", "an answer", reason)
    return Checked([result], float(passed), passed, repetition)


def of_one_task(suite: Suite, *payloads: Payload) -> TaskRecord:
    log = as_log(opening(suite) + [("task-1", each) for each in payloads])
    return records(log)[0]


def test_every_line_has_the_same_names_in_the_same_order() -> None:
    log = a_log(a_suite(2), {"task-2": "no"})
    lines = [msgspec.json.decode(line) for line in task_lines(records(log))]
    assert [list(line) for line in lines] == [NAMES, NAMES]
    (check,) = lines[1]["checks"]
    assert list(check) == ["check", "passed", "score", "expected", "actual", "reason"]


def test_a_match_is_told_as_a_check() -> None:
    good, bad = records(a_log(a_suite(2), {"task-2": "no"}))
    assert (good.passed, good.checks[0].passed, good.checks[0].reason) == (True, True, "")
    (check,) = bad.checks
    assert (check.check, check.passed, check.score) == ("exact", False, 0)
    assert (check.expected, check.actual) == ("yes", "no")
    assert "differ" in check.reason


def test_each_criterion_of_a_rubric_is_told_as_a_check_with_the_reason_of_a_judge() -> None:
    suite = a_suite([a_rubric_task(weights=(0.5, 0.5))], modes=["rubric"])
    verdicts = [Verdict("c1", "it greets", True), Verdict("c2", "no carrier", False)]
    judged = Judged("rubric", "judge", 1, "v1", verdicts)
    record = of_one_task(suite, *said("Hello!"), judged, a_score(score=0.5))
    told = [(each.check, each.passed, each.expected, each.reason) for each in record.checks]
    assert told == [
        ("judge", True, "criterion 1", "it greets"),
        ("judge", False, "criterion 2", "no carrier"),
    ]
    assert record.checks[0].weight == 0.5


def test_checks_are_told_as_they_were_recorded() -> None:
    record = of_one_task(
        a_wide_suite(tags=["orders"]), *said("an answer"), checked(passed=False), a_score(score=0)
    )
    (check,) = record.checks
    assert as_document(check) == {
        "check": "contains",
        "passed": False,
        "score": 0.0,
        "expected": "x",
        "actual": "an answer",
        "reason": "“x” is not in the output",
    }
    assert record.tags == ["orders"]


def test_a_repeated_task_shows_the_first_answer_that_came_out_as_the_task_did() -> None:
    repeats = [
        *said("one x"),
        checked(passed=True),
        *said("two", repetition=2),
        checked(passed=False, repetition=2),
    ]
    suite = a_wide_suite(repeat=2)
    failed = of_one_task(suite, *repeats, a_score(score=0.5))
    assert (failed.output, failed.checks[0].passed) == ("two", False)
    assert [each.output for each in failed.repetitions] == ["one x", "two"]
    assert [each.passed for each in failed.repetitions] == [True, False]
    passed = of_one_task(suite, *repeats, a_score(score=0.5, passed=True))
    assert (passed.output, passed.checks[0].passed) == ("one x", True)
    assert "1 of 2 repetitions passed" in why(failed)


def test_repetitions_that_were_all_scored_at_the_end_are_told_one_by_one() -> None:
    answers = [*said("one x"), *said("two", repetition=2)]
    verdicts = [checked(passed=True), checked(passed=False, repetition=2)]
    record = of_one_task(a_wide_suite(repeat=2), *answers, *verdicts, a_score(score=0.5))
    told = [(each.output, each.passed) for each in record.repetitions]
    assert told == [("one x", True), ("two", False)]


def test_an_attempt_that_was_begun_anew_does_not_count() -> None:
    found = Found("signals", [SafetyFinding("leak", "high")])
    record = of_one_task(a_suite(1), *said("first"), found, *said("yes"), a_score())
    assert (record.output, record.findings) == ("yes", [])


def test_an_error_has_no_output_and_no_check() -> None:
    (record,) = records(a_log(a_suite(1), {"task-1": an_error("agent_timeout", "too late")}))
    assert (record.passed, record.output, record.checks) == (False, None, [])
    assert record.error["code"] == "agent_timeout"
    assert why(record) == "error: agent_timeout: too late"


def test_a_finding_that_no_task_passes_with_is_a_failed_check() -> None:
    found = Found("signals", [SafetyFinding("leak", "high")])
    record = of_one_task(a_suite(1), *said("yes"), found, a_score(passed=False))
    assert [each.kind for each in record.findings] == ["leak"]
    assert [(each.check, each.passed) for each in record.checks] == [
        ("exact", True),
        ("no_signals", False),
    ]


def test_usage_is_the_agents_and_not_the_judges() -> None:
    suite = a_suite(1)
    log = a_log(suite, {"task-1": Answer(usages=[a_usage(0.25), a_usage(0.5)])})
    usage = records(log)[0].usage
    assert (usage.calls, usage.input_tokens, usage.total_tokens) == (2, 200, 240)
    assert usage.cost_usd == 0.75
    judged = of_one_task(suite, *said("yes"), a_usage(9.0), a_score())
    assert (judged.usage.calls, judged.usage.cost_usd) == (0, None), "nobody observed it"


def test_a_task_without_a_score_is_neither_passed_nor_failed() -> None:
    suite = a_suite(2)
    log = as_log(opening(suite) + [("task-1", each) for each in said("yes")])
    first, second = records(log)
    assert (first.passed, first.score, first.output) == (None, None, "yes")
    assert (second.passed, second.output, second.checks) == (None, None, [])


def test_a_log_without_a_plan_is_refused() -> None:
    with pytest.raises(DamagedEventLog):
        read_tasks(a_log(a_suite(1))[:1], show_secrets=True)


def test_reasons_that_may_quote_a_part_of_a_secret_are_left_out() -> None:
    secret = "ghp_IhKtJ0RlgLKOmxgJTeKdNnFRIBXuDL7DxtpY"
    reason = f"after “to” comes “…{secret[:30]}…”"
    results = [
        CheckResult("contains", False, 0.0, "to you", f"to {secret}", reason),
        CheckResult("contains", True, 1.0, "to", f"to {secret}"),
        CheckResult("contains", False, 0.0, "a", "b", "“a” is not in the output"),
    ]
    payloads = said(f"to {secret}", Checked(results, 0.0, False))
    log = as_log(opening(a_wide_suite()) + [("task-1", each) for each in payloads])
    for shows in (True, False):
        (task,) = read_tasks(log, show_secrets=shows).tasks
        assert (secret[:30] in msgspec.json.encode(task.record).decode()) is shows
        told = [check.reason for check in task.record.checks]
        assert shows or told[:2] == [UNTOLD, ""]
        assert task.record.checks[-1].reason == "“a” is not in the output"


def test_failures_come_first_then_what_has_no_score() -> None:
    suite = a_suite([a_task(f"task-{n}") for n in (1, 2, 3)])
    log = a_log(suite, {"task-3": "no"}, ending="open")
    open_log = [event for event in log if (event.task_id, event.type) != ("task-2", "eval.scored")]
    ordered = failures_first(records(open_log))
    assert [record.task_id for record in ordered] == ["task-3", "task-2", "task-1"]
    table = render_tasks(ordered, Style(colour=False)).splitlines()
    assert [line[0] for line in table] == [" ", "■", " ", "·", " ", "○"]
    assert "the texts differ" in table[2]
