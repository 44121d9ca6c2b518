"""Exports of spans by hand: an agent that asks a model twice and calls a tool in between."""

import json
from typing import Any

ASKED = {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}
CALL = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": 17}}
ANSWER = {"type": "tool_call_response", "id": "c1", "response": "shipped"}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "It is shipped."}]}


def a_span(
    trace_id: str, span_id: str, parent_id: str | None, start: int, end: int, **said: Any
) -> dict[str, Any]:
    """A span of the GenAI conventions; of `usage__input_tokens`, `__` stands for a point."""
    plain = {f"gen_ai.{key.replace('__', '.')}": value for key, value in said.items()}
    typed = [
        {"key": key, "value": {"intValue": str(value)}}
        if isinstance(value, int)
        else {
            "key": key,
            "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)},
        }
        for key, value in plain.items()
    ]
    return {
        "traceId": trace_id,
        "spanId": span_id,
        **({"parentSpanId": parent_id} if parent_id else {}),
        "name": span_id,
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + start * 1_000_000),
        "endTimeUnixNano": str(1_790_000_000_000_000_000 + end * 1_000_000),
        "attributes": typed,
    }


def an_agent(traceparent: str | None, tool: str = "get_order") -> list[dict[str, Any]]:
    """The spans of an agent in the order of their ends; without a place, in a trace of its own."""
    _, trace_id, parent, _ = (traceparent or f"00-{'9' * 32}--01").split("-")
    call = {**CALL, "name": tool}
    model = {
        "operation__name": "chat",
        "provider__name": "openai",
        "response__model": "gpt-4.1-mini",
        "usage__input_tokens": 12,
        "usage__output_tokens": 3,
    }
    first = {
        "input__messages": [ASKED],
        "output__messages": [{"role": "assistant", "parts": [call]}],
    }
    asked = [ASKED, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [ANSWER]}]
    second = {"input__messages": asked, "output__messages": [SAID]}
    done = {
        "operation__name": "execute_tool",
        "tool__name": tool,
        "tool__call__id": "c1",
        "tool__call__arguments": {"id": 17},
        "tool__call__result": "shipped",
    }
    agent = {"operation__name": "invoke_agent", "agent__name": "desk"}
    root = f"{trace_id[:14]}a0"
    return [
        a_span(trace_id, f"{trace_id[:14]}a1", root, 1, 2, **model, **first),
        a_span(trace_id, f"{trace_id[:14]}a2", root, 3, 4, **done),
        a_span(trace_id, f"{trace_id[:14]}a3", root, 5, 6, **model, **second),
        a_span(trace_id, root, parent or None, 0, 7, **agent),
    ]


def an_export(*spans: dict[str, Any]) -> bytes:
    """An export request with these spans."""
    scope = {"scope": {"name": "by hand"}, "spans": list(spans)}
    return json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}).encode()
