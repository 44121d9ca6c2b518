"""From a response to a trace: nothing is dropped, and nothing that JSON can say makes it raise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import T0, a_trace, call, result

from evalwright.trace.decode import decode_trace
from evalwright.trace.model import (
    FinalOutput,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Unknown,
    text_of,
)
from strategies import json_of, json_scalars, json_values

KEYS = [
    "type",
    "ts",
    "call_id",
    "tool",
    "args",
    "status",
    "payload",
    "payload_summary",
    "query",
    "doc_ids",
    "documents",
    "role",
    "content",
    "content_type",
    "events",
    "final_output",
    "proposed_actions",
    "runner_failure",
    "usage",
    "user_prompt",
    "class",
    "evidence_refs",
    "kind",
    "id",
    "risk_level",
    "tools_offered",
    "latency_ms",
    "input_tokens",
]
TYPES = ["tool_call", "tool_result", "retrieval", "message", "final_output", "made_up"]

keys = st.sampled_from(KEYS) | st.text(max_size=4)
near_json = json_of(json_scalars | st.sampled_from(TYPES), keys)
near_events = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)}, optional=dict.fromkeys(KEYS[1:12], near_json)
)


def test_every_kind_of_event_is_read_with_its_place():
    trace = a_trace(
        call("c1", tool="find_order", args={"id": 7}),
        result("c1", tool="find_order", payload={"total": 12}, latency_ms=4),
        {"type": "retrieval", "ts": T0, "query": "returns", "doc_ids": ["d1"], "documents": ["…"]},
        {"type": "message", "ts": T0, "role": "assistant", "content": "One moment."},
        {"type": "final_output", "ts": T0, "content_type": "text", "content": "12 EUR"},
    )
    assert trace.events == (
        ToolCall(0, T0, "c1", "find_order", {"id": 7}),
        ToolResult(1, T0 + 1, "c1", "find_order", "ok", {"total": 12}, None, 4),
        Retrieval(2, T0, "returns", ("d1",), ["…"]),
        Message(3, T0, "assistant", "One moment."),
        FinalOutput(4, T0, "text", "12 EUR"),
    )
    assert trace.output == FinalOutput(4, T0, "text", "12 EUR")


@pytest.mark.parametrize("event", [None, 3, "text", [], {}, {"type": 4}, {"type": "made_up"}])
def test_what_is_no_event_is_kept_as_unknown(event: Any):
    trace = a_trace(call(), event, result())
    assert isinstance(trace.events[1], Unknown)
    assert trace.events[1].raw == event
    assert trace.events[1].index == 1


def test_payload_summary_stands_before_payload():
    trace = a_trace(result(payload={"a": 1}, payload_summary={"b": 2}))
    assert trace.events[0].payload == {"b": 2}


def test_an_absent_or_made_up_risk_level_is_medium():
    actions = [{"action_type": "refund"}, {"risk_level": "huge"}, {"risk_level": "high"}]
    trace = a_trace(proposed_actions=actions)
    assert [action.risk_level for action in trace.actions] == ["medium", "medium", "high"]


def test_a_failed_call_keeps_what_was_captured_of_it():
    failure = {"class": "http_error", "status": 503, "attempt": 2, "error_message": "busy"}
    trace = a_trace(runner_failure=failure | {"full_body_saved_to": "_runner_failures/a.txt"})
    assert trace.failure is not None
    assert (trace.failure.kind, trace.failure.status, trace.failure.attempt) == (
        "http_error",
        503,
        2,
    )
    assert trace.failure.message == "busy"
    assert trace.failure.body_path == "_runner_failures/a.txt"


def test_what_importers_add_is_read():
    trace = a_trace(
        user_prompt="Refund me",
        system_prompt="Be kind.",
        tools_offered=["refund", 3],
        usage={"duration_ms": 20, "input_tokens": 4, "output_tokens": 5, "cost_usd": 0.25},
    )
    assert (trace.prompt, trace.system, trace.tools_offered) == (
        "Refund me",
        "Be kind.",
        ("refund",),
    )
    assert (trace.usage.duration_ms, trace.usage.cost_usd) == (20, 0.25)


def test_a_value_nested_without_end_is_text_all_the_same():
    deep: Any = "the bottom"
    for _ in range(50_000):
        deep = [deep]
    assert text_of(deep) == "the bottom"
    assert a_trace({"type": "retrieval", "query": deep}).events[0].query == "the bottom"


def test_text_with_a_lone_surrogate_is_text_all_the_same():
    assert text_of({"said": "a\ud800b"}) == "said\na\ud800b"


@given(json_values | near_json)
def test_no_json_value_makes_decoding_raise(response: Any):
    trace = decode_trace(response, "case-1")
    assert trace.case_id == "case-1"


@given(st.lists(near_events | json_values, max_size=8))
def test_every_event_is_kept_at_its_index(events: list[Any]):
    trace = decode_trace({"events": events}, "case-1")
    assert [event.index for event in trace.events] == list(range(len(events)))
    for event, raw in zip(trace.events, events, strict=True):
        if isinstance(event, Unknown):
            assert event.raw == raw


@given(near_json)
def test_events_that_are_no_list_are_said_to_be_none(events: Any):
    trace = decode_trace({"events": events}, "case-1")
    assert trace.events_not_array is not isinstance(events, list)


FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        [
            "call_id", "tool", "action_id", "status", "error_message", "latency_ms", "ts",
            "payload", "payload_summary", "args",
        ],
        json_scalars,
    ),
)  # fmt: skip


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else _text(value) or None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -1e18 < value < 1e18 else None


@given(FIELDS)
def test_a_call_and_a_result_take_what_is_of_the_right_type_and_leave_the_rest(raw: dict[str, Any]):
    events = [{"type": "tool_call"} | raw, {"type": "tool_result"} | raw]
    made, answer = a_trace(*events).events
    ts, name, tool = _number(raw.get("ts")), _name(raw.get("call_id")), _text(raw.get("tool"))
    assert made == ToolCall(0, ts, name, tool or "", raw.get("args"), _name(raw.get("action_id")))
    assert answer == ToolResult(
        1,
        ts,
        name,
        tool,
        _text(raw.get("status")) or "",
        raw["payload_summary"] if "payload_summary" in raw else raw.get("payload"),
        _text(raw.get("error_message")),
        _number(raw.get("latency_ms")),
    )
