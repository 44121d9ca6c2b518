"""The difference of two runs: a pure function of their logs that sees behaviour, not chance."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    AGENT_ID,
    Answer,
    a_log,
    a_suite,
    a_summary,
    a_task,
    an_error,
    an_event,
    as_document,
    as_log,
    closing,
    opening,
    task_events,
)
from evalwright.comparison import diff as compare_diff
from evalwright.comparison.diff import RunDiff, diff_runs
from evalwright.contracts.events import CapBreached, Event, RunStarted, ToolReturned
from evalwright.contracts.jsonvalue import canonical
from strategies import json_values

SCHEMA = Path(__file__).parents[2].parent / "shared/openwop/schemas/run-diff-response.schema.json"
SUITE = a_suite(3)
IDS = [task.task_id for task in SUITE.tasks]

outputs = st.sampled_from(["yes", "no", {"a": 1}])
answers = st.fixed_dictionaries({}, optional=dict.fromkeys(IDS, outputs))
orders = st.permutations(IDS)
logs = st.builds(
    a_log,
    st.just(SUITE),
    answers,
    order=orders,
    ending=st.sampled_from(["completed", "failed", "open"]),
)


def diff(a: list[Event], b: list[Event]) -> RunDiff:
    return diff_runs("run_a", a, "run_b", b)


def ops(found: RunDiff) -> list[tuple[str, str | None, str]]:
    """What differs: how, in which task, which event."""
    seen = []
    for one in found.event_diffs:
        event = one.a_event or one.b_event or {}
        seen.append((one.op, event.get("nodeId"), event["type"]))
    return seen


def side_by_side(answers: dict[str, Any], run_id: str = "run_a") -> list[Event]:
    """A log in which every task takes a step in turn."""
    tasks = [task_events(SUITE, task_id, Answer(answers.get(task_id, "yes"))) for task_id in IDS]
    steps = [step for turn in zip(*tasks, strict=True) for step in turn]
    return as_log([*opening(SUITE), *steps], run_id)


def nested(levels: int, innermost: str) -> Any:
    value: Any = innermost
    for _ in range(levels):
        value = [value]
    return value


# The same.


@given(logs)
def test_a_run_does_not_differ_from_itself(log):
    found = diff(log, log)
    assert found.diverged_at_seq is None
    assert found.event_diffs == []
    assert found.state_diff == {}


@given(answers, orders, orders)
def test_the_order_in_which_tasks_end_makes_no_difference(given_answers, one, other):
    a = a_log(SUITE, given_answers, order=one)
    b = a_log(SUITE, given_answers, order=other, run_id="run_b")
    assert diff(a, b).event_diffs == []


@given(answers)
def test_tasks_side_by_side_do_the_same_as_tasks_one_after_the_other(given_answers):
    a = side_by_side(given_answers)
    b = a_log(SUITE, given_answers, ending="open", run_id="run_b")
    assert diff(a, b).event_diffs == []


def test_time_ids_and_durations_make_no_difference():
    a = a_log(SUITE, {"task-1": Answer(latency_ms=5)})
    b = [
        msgspec.structs.replace(event, at_us=event.at_us + 10**9)
        for event in a_log(SUITE, {"task-1": Answer(latency_ms=5000)}, run_id="run_b")
    ]
    assert diff(a, b).event_diffs == []


def test_the_engine_version_tags_and_metadata_of_a_run_make_no_difference():
    a = [an_event(RunStarted("s", engine_version="1", tags=["ci"], metadata={"x": 1}))]
    b = [an_event(RunStarted("s", engine_version="2"))]
    assert diff(a, b).event_diffs == []


def test_how_json_is_written_makes_no_difference():
    [a] = [an_event(RunStarted("s", inputs={"a": 1, "b": 2}))]
    b = msgspec.structs.replace(a, body=b'{"inputs": {"b": 2.0, "a": 1}, "workflowId": "s"}')
    assert diff([a], [b]).event_diffs == []


# Not the same.


def test_another_answer_changes_the_decision_the_score_and_what_follows():
    a, b = a_log(SUITE), a_log(SUITE, {"task-2": "no"}, run_id="run_b")
    found = diff(a, b)
    assert ops(found) == [
        ("changed", "task-2", "agent.decided"),
        ("changed", "task-2", "eval.scored"),
        ("changed", None, "eval.completed"),
        ("changed", None, "run.completed"),
    ]
    first = found.event_diffs[0]
    assert first.a_event["payload"]["decision"] == "yes"
    assert first.b_event["payload"]["decision"] == "no"
    assert (first.a_event["runId"], first.b_event["runId"]) == ("run_a", "run_b")
    assert found.state_diff["passedCount"] == {"a": 3, "b": 2}


@pytest.mark.parametrize("name", ["tags", "metadata", "latencyMs", "durationMs", "engineVersion"])
def test_what_an_agent_says_counts_even_under_the_name_of_a_run_scoped_field(name):
    a = a_log(SUITE, {"task-1": {name: 1}})
    b = a_log(SUITE, {"task-1": {name: 2}})
    assert ops(diff(a, b)) == [("changed", "task-1", "agent.decided")]


def test_the_duration_of_a_tool_does_not_count_but_its_outcome_does():
    def returned(outcome: Any, duration_ms: int) -> list[Event]:
        payload = ToolReturned(AGENT_ID, "t", "c1", outcome=outcome, duration_ms=duration_ms)
        return [an_event(payload, "task-1")]

    assert diff(returned({"durationMs": 1}, 5), returned({"durationMs": 1}, 6)).event_diffs == []
    assert diff(returned({"durationMs": 1}, 5), returned({"durationMs": 2}, 5)).event_diffs


@given(json_values, json_values)
def test_two_answers_are_the_same_only_if_their_canonical_text_is(left, right):
    found = diff(a_log(a_suite(1), {"task-1": [left]}), a_log(a_suite(1), {"task-1": [right]}))
    assert (found.event_diffs == []) is (canonical(left) == canonical(right))


def test_true_is_not_1():
    a, b = a_log(a_suite(1), {"task-1": {"a": True}}), a_log(a_suite(1), {"task-1": {"a": 1}})
    assert ops(diff(a, b)) == [("changed", "task-1", "agent.decided")]


def test_events_that_only_one_run_has_are_added_or_removed():
    short, long = a_log(SUITE, order=IDS[:2], ending="open"), a_log(SUITE, ending="open")
    assert {op for op, _, _ in ops(diff(short, long))} == {"added"}
    assert {op for op, _, _ in ops(diff(long, short))} == {"removed"}
    [*_, added] = diff(short, long).event_diffs
    assert added.a_event is None
    assert added.seq == long[-1].sequence


def test_events_of_different_types_are_not_taken_for_each_other():
    a = a_log(SUITE)
    b = a_log(SUITE, ending="failed")
    found = ops(diff(a, b))
    assert ("removed", None, "eval.completed") in found
    assert ("added", None, "run.failed") in found
    assert diff(a, b).state_diff == {
        "aggregateScore": {"a": 1.0, "b": None},
        "passed": {"a": True, "b": None},
        "passedCount": {"a": 3, "b": None},
        "status": {"a": "completed", "b": "failed"},
        "taskCount": {"a": 3, "b": None},
    }


def test_an_event_beside_the_frame_does_not_move_the_end_out_of_place():
    breached = (None, CapBreached("run-duration", 10, 11))
    frame, end = opening(SUITE), closing(a_summary(SUITE))
    found = diff(as_log([*frame, breached, *end]), as_log([*frame, *end]))
    assert ops(found) == [("removed", None, "cap.breached")]


def test_an_error_in_place_of_an_answer_is_a_difference():
    found = diff(a_log(SUITE), a_log(SUITE, {"task-3": an_error()}))
    assert ("changed", "task-3", "agent.invocation.completed") in ops(found)


def test_another_suite_is_a_difference_from_the_start():
    found = diff(a_log(a_suite(1)), a_log(a_suite([a_task("task-1", value="yes!")])))
    assert found.diverged_at_seq == 2
    assert ops(found)[0] == ("changed", None, "evalwright.planned")


def test_input_and_answers_that_are_nested_deeply_can_be_compared():
    suite = a_suite([a_task(input=nested(500, "x"))])
    a = a_log(suite, {"task-1": nested(200, "x")})
    b = a_log(suite, {"task-1": nested(200, "y")})
    assert diff(a, a).event_diffs == []
    assert ops(diff(a, b)) == [("changed", "task-1", "agent.decided")]


# Where.


@given(logs, logs)
def test_differences_come_in_order_and_the_first_is_where_the_runs_diverged(a, b):
    found = diff(a, b)
    places = [one.seq for one in found.event_diffs]
    assert places == sorted(places)
    assert found.diverged_at_seq == (places[0] if places else None)


def test_of_tasks_side_by_side_the_earliest_difference_comes_first():
    a = side_by_side({})
    b = side_by_side({"task-1": "no", "task-3": {"a": 1}})
    found = diff(a, b)
    assert [task for _, task, _ in ops(found)] == ["task-1", "task-3", "task-1", "task-3"]
    assert found.diverged_at_seq == 6


@given(logs, logs)
def test_every_difference_names_an_event_at_its_sequence(a, b):
    for one in diff(a, b).event_diffs:
        shown = one.b_event if one.op == "added" else one.a_event
        assert shown["sequence"] == one.seq
        assert (one.a_event is None) is (one.op == "added")
        assert (one.b_event is None) is (one.op == "removed")


@given(logs, logs)
def test_seen_from_the_other_side_added_and_removed_change_places(a, b):
    def counted(found: RunDiff) -> dict[str, int]:
        named = [one.op for one in found.event_diffs]
        return {op: named.count(op) for op in ("added", "removed", "changed")}

    there, back = counted(diff(a, b)), counted(diff(b, a))
    assert (there["added"], there["removed"]) == (back["removed"], back["added"])
    assert there["changed"] == back["changed"]


@given(logs, logs)
def test_the_same_logs_always_give_the_same_bytes(a, b):
    again = diff(iter(list(a)), iter(list(b)))
    assert msgspec.json.encode(again) == msgspec.json.encode(diff(a, b))


# In flight, and on the wire.


@pytest.mark.parametrize(
    ("a", "b", "truncated"),
    [
        ("completed", "completed", False),
        ("completed", "failed", False),
        ("completed", "open", True),
        ("open", "completed", True),
        ("open", "open", True),
    ],
)
def test_a_run_in_flight_makes_the_comparison_a_truncated_one(a, b, truncated):
    found = diff(a_log(SUITE, ending=a), a_log(SUITE, ending=b))
    assert as_document(found).get("truncated", False) is truncated


@given(logs, logs)
def test_any_difference_is_valid_by_the_protocol(a, b):
    if not SCHEMA.is_file():
        pytest.skip(f"needs {SCHEMA}, which is not part of the repository")
    validator = jsonschema_rs.Draft202012Validator(json.loads(SCHEMA.read_text()))
    document = as_document(diff(a, b))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert "divergedAtSeq" in document


def test_the_frame_of_a_run_is_compared_too():
    a, b = as_log(opening(SUITE)), as_log(opening(a_suite(3, version="2.0.0")))
    assert [op for op, _, _ in ops(diff(a, b))] == ["changed"] * 3


def test_one_more_tool_call_is_one_difference_and_not_one_in_all_that_follows():
    once, twice = a_log(SUITE), a_log(SUITE)
    place = next(n for n, event in enumerate(twice) if event.type == "agent.decided")
    decided = twice[place]
    call = b'{"agentId":"local.desk.answer","toolName":"a:b","callId":"inv-0001:c1"}'
    more = msgspec.structs.replace(decided, type="agent.toolCalled", body=call)
    longer = [*twice[:place], more, *twice[place:]]
    longer = [msgspec.structs.replace(e, sequence=n) for n, e in enumerate(longer)]
    assert ops(diff(once, longer)) == [("added", decided.task_id, "agent.toolCalled")]


def test_two_agents_that_say_the_same_differ_only_in_who_they_are():
    a = a_log(SUITE)
    b = [
        msgspec.structs.replace(e, body=e.body.replace(b'"agentId":"', b'"agentId":"other.'))
        for e in a
    ]
    assert {kind for _, _, kind in ops(diff(a, b))} <= {"run.started", "evalwright.planned"}


def test_a_task_with_very_many_events_is_compared_by_place(monkeypatch):
    monkeypatch.setattr(compare_diff, "MOST_ALIGNED", 0)
    assert diff(a_log(SUITE), a_log(SUITE)).event_diffs == []
    a, b = a_log(SUITE), a_log(SUITE, ending="failed")
    assert ("removed", None, "eval.completed") in ops(diff(a, b))
