"""`validate`: which contract a file is, and every way in which it breaks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_log, a_suite, a_suite_document, a_summary, a_task, an_error, as_document
from evalwright.contracts.errors import InvalidDocument
from evalwright.engine.suites.validation import check_file
from strategies import mutations

EXAMPLES = Path(__file__).parents[3].parent / "shared" / "openwop" / "examples"

Change = Callable[[list[dict[str, Any]]], object]


def events(change: Change | None = None) -> list[dict[str, Any]]:
    """The log of a run of two tasks as documents, with something in it changed."""
    log = [json.loads(event.to_json()) for event in a_log(a_suite(2), {"task-2": an_error()})]
    if change is not None:
        change(log)
    return log


def jsonl(log: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in log)


def problems(source: bytes, name: str = "run.jsonl") -> list[tuple[str, str]]:
    with pytest.raises(InvalidDocument) as caught:
        check_file(source, name)
    assert caught.value.name == name
    return [(problem.path, problem.message) for problem in caught.value.problems]


def the_problem(change: Change) -> tuple[str, str]:
    [found] = problems(jsonl(events(change)))
    return found


def renumber(log: list[dict[str, Any]]) -> None:
    for sequence, event in enumerate(log):
        event.update(sequence=sequence, eventId=f"e{sequence}")


def place(log: list[dict[str, Any]], event_type: str) -> int:
    return next(index for index, event in enumerate(log) if event["type"] == event_type)


# Which contract.


def test_a_suite_a_summary_and_a_log_are_told_apart():
    assert check_file(json.dumps(a_suite_document()).encode(), "s.json") == "AgentEvalSuite"
    assert check_file(json.dumps(a_suite_document()).encode(), "s.yaml") == "AgentEvalSuite"
    assert check_file(json.dumps(as_document(a_summary())).encode(), "x.json") == "EvalSummary"
    assert check_file(jsonl(events()), "run.jsonl") == "event log"
    assert check_file(jsonl(events()), "RUN.NDJSON") == "event log"
    assert check_file(json.dumps(events()).encode(), "events.json") == "event log"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("suite.json", "AgentEvalSuite"),
        ("eval-summary.json", "EvalSummary"),
        ("events.json", "event log"),
    ],
)
def test_the_shared_examples_are_valid(name, kind):
    path = EXAMPLES / name
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not part of the repository")
    assert check_file(path.read_bytes(), name) == kind


@pytest.mark.parametrize("source", [b"5", b"null", b'"x"', b"{}", b'{"a": 1}'])
def test_what_is_none_of_them_is_refused(source):
    assert problems(source, "x.json")


# Suites and summaries.


def test_a_suite_is_held_to_the_rules_that_its_schema_cannot_say():
    document = a_suite_document([a_task("a"), a_task("a")])
    [(path, _)] = problems(json.dumps(document).encode(), "suite.json")
    assert path == "$.tasks[1].taskId"


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("taskCount", 2, "$.taskCount"),
        ("passedCount", 2, "$.passedCount"),
        ("aggregateScore", 1.5, "$.aggregateScore"),
        ("output", "the answer", "$"),
    ],
)
def test_the_numbers_of_a_summary_must_agree_and_nothing_may_be_added(field, value, path):
    document = as_document(a_summary(a_suite(3))) | {field: value}
    assert [found for found, _ in problems(json.dumps(document).encode(), "x.json")] == [path]


def test_a_task_may_not_stand_twice_in_a_summary():
    document = as_document(a_summary(a_suite(2)))
    document["tasks"][1]["taskId"] = "task-1"
    assert problems(json.dumps(document).encode(), "x.json") == [("$.tasks", "duplicate taskId")]


# Logs.


def test_blank_lines_and_dos_line_ends_do_no_harm():
    assert check_file(jsonl(events()).replace(b"\n", b"\r\n\n"), "run.jsonl") == "event log"


def test_a_run_that_is_in_flight_is_a_valid_log():
    assert check_file(jsonl(events()[:7]), "run.jsonl") == "event log"


def test_types_that_we_do_not_know_are_let_through():
    def change(log):
        log[1].update(type="acme.canvas.published", payload={"anything": ["goes"]})

    assert check_file(jsonl(events(change)), "run.jsonl") == "event log"


def test_an_empty_log_is_refused():
    assert problems(b"\n\n") == [("line 1", "the log is empty")]
    assert problems(b"[]", "events.json") == [("line 1", "the log is empty")]


def test_a_line_that_is_no_json_is_told_with_its_number():
    found = problems(jsonl(events()) + b"{oops\n")
    assert [path for path, _ in found] == [f"line {len(events()) + 1}"]


def test_a_line_that_is_not_utf_8_is_told_with_its_number():
    found = problems(jsonl(events()) + b'{"a": "\xff"}\n')
    assert [path for path, _ in found] == [f"line {len(events()) + 1}"]


def test_an_event_without_its_envelope_is_told_with_line_and_path():
    where, message = the_problem(lambda log: log[-1].pop("timestamp"))
    assert where == f"line {len(events())} $"
    assert "timestamp" in message


def test_in_a_json_array_events_are_counted_instead_of_lines():
    log = events(lambda log: log[2].update(sequence=7))
    assert problems(json.dumps(log).encode(), "events.json")[0][0] == "event 3"


def test_a_gap_is_told_once_where_it_is():
    where, message = the_problem(lambda log: log.pop(4))
    assert (where, message) == ("line 5", "sequence is 5, expected 4")


def test_a_log_begins_at_0():
    assert the_problem(lambda log: log.pop(0))[1] == "sequence is 1, expected 0"


def test_an_event_of_another_run_is_told():
    assert "'run_b'" in the_problem(lambda log: log[3].update(runId="run_b"))[1]


def test_an_event_id_may_not_stand_twice():
    assert "duplicate eventId" in the_problem(lambda log: log[3].update(eventId="run_a:0"))[1]


def test_nothing_may_stand_after_the_end_of_a_run():
    def change(log):
        log.append(log[-1] | {"type": "acme.note"})
        renumber(log)

    assert "comes after run.completed" in the_problem(change)[1]


def test_a_task_is_scored_once():
    def change(log):
        scored = place(log, "eval.scored")
        log.insert(scored, dict(log[scored]))
        renumber(log)

    assert "two eval.scored" in the_problem(change)[1]


def test_an_invocation_is_started_before_it_is_completed():
    def change(log):
        log.pop(place(log, "agent.invocation.started"))
        renumber(log)

    assert "never started" in the_problem(change)[1]


def test_a_completed_run_leaves_no_invocation_open():
    def change(log):
        log.pop(place(log, "agent.invocation.completed"))
        renumber(log)

    where, message = the_problem(change)
    assert where == f"line {place(events(), 'agent.invocation.started') + 1}"
    assert "no agent.invocation.completed" in message


def test_an_eval_event_with_content_is_refused():
    def change(log):
        log[place(log, "eval.scored")]["payload"]["output"] = "the answer"

    where, message = the_problem(change)
    assert where.endswith("$.payload")
    assert "output" in message


@pytest.mark.parametrize("payload", [None, [], "x", {}, {"taskId": "a", "score": 2, "passed": 1}])
def test_a_payload_that_does_not_fit_its_type_is_refused(payload):
    where, _ = the_problem(lambda log: log[place(log, "eval.scored")].update(payload=payload))
    assert where.endswith("$.payload")


def test_all_problems_of_a_log_are_told_at_once():
    def change(log):
        log[2]["runId"] = "run_b"
        log[4]["sequence"] = 9
        del log[6]["type"]

    assert len(problems(jsonl(events(change)))) >= 4


@given(mutations(st.builds(events)))
def test_a_log_that_was_tampered_with_is_accepted_or_refused_and_nothing_else(log):
    assert verdict(jsonl(log), "run.jsonl") in {"event log", "refused"}
    assert verdict(json.dumps(log).encode(), "events.json") == verdict(jsonl(log), "run.jsonl")


@given(mutations(st.builds(lambda: as_document(a_summary()))))
def test_a_summary_that_was_tampered_with_is_accepted_or_refused_and_nothing_else(summary):
    assert verdict(json.dumps(summary).encode(), "x.json") in {"EvalSummary", "refused"}


@given(st.binary(), st.sampled_from(["x.jsonl", "x.json", "x.yaml"]))
def test_no_file_crashes_the_check(source, name):
    assert verdict(source, name) in {"event log", "EvalSummary", "AgentEvalSuite", "refused"}


def verdict(source: bytes, name: str) -> str:
    try:
        return check_file(source, name)
    except InvalidDocument as invalid:
        return "refused" if invalid.problems else "refused without a reason"


def test_an_agent_manifest_and_a_tools_file_are_told_apart_from_suites() -> None:
    manifest = {
        "agentId": "local.shop.clerk",
        "persona": "Clerk",
        "modelClass": "general",
        "systemPrompt": "Be kind.",
    }
    tools = {"tools": [{"name": "shop:find", "description": "Finds parcels."}]}
    assert check_file(json.dumps(manifest).encode(), "agent.json") == "AgentManifest"
    assert check_file(json.dumps(tools).encode(), "tools.json") == "tools file"


def test_a_manifest_without_its_model_class_is_reported_as_a_manifest() -> None:
    manifest = {"agentId": "local.shop.clerk", "persona": "Clerk", "systemPrompt": "Be kind."}
    ((_, message),) = problems(json.dumps(manifest).encode(), "agent.json")
    assert "modelClass" in message
