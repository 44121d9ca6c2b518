"""Builders for traces: responses, OTLP documents and their spans, with as little said as needed."""

import json
from collections.abc import Iterable
from typing import Any

from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_responses
from evalwright.trace.importers.records import Imported
from evalwright.trace.model import Trace

T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z in ms
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def call(
    call_id: Any = "c1", ts: Any = T0, tool: str = "find_order", args: Any = None
) -> dict[str, Any]:
    return {"type": "tool_call", "ts": ts, "call_id": call_id, "tool": tool, "args": args or {}}


def result(
    call_id: Any = "c1", ts: Any = T0 + 1, status: str = "ok", **more: Any
) -> dict[str, Any]:
    event = {"type": "tool_result", "ts": ts, "call_id": call_id, "status": status, "payload": {}}
    return event | more


def a_trace(*events: Any, **fields: Any) -> Trace:
    return decode_trace({"events": list(events)} | fields, "case-1")


def imported(document: Any, name: str = "traces.json") -> list[Imported]:
    """What is read from one document."""
    return list(import_responses([json.dumps(document).encode()], name))


def imported_lines(lines: Iterable[Any], name: str = "traces.jsonl") -> list[Imported]:
    """What is read from a file with one record per line; bytes stand as they are."""
    texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines]
    return list(import_responses([text + b"\n" for text in texts], name))


def one(document: Any) -> dict[str, Any]:
    """The response of the one case in a document, which has no fault."""
    (found,) = imported(document)
    assert found.fault is None
    return found.response


def steps(response: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The events of a response in short."""
    return [_short(event) for event in response["events"]]


def _short(event: dict[str, Any]) -> tuple[Any, ...]:
    match event["type"]:
        case "tool_call":
            return "call", event["call_id"], event["tool"], event["args"]
        case "tool_result":
            return "result", event["call_id"], event.get("status"), event["payload"]
        case "message":
            return event["role"], event["content"]
        case "final_output":
            return "final", event["content"]
        case "retrieval":
            return "retrieval", event["query"], event["doc_ids"]
    return (event["type"],)


# Spans.


def typed(value: Any) -> dict[str, Any]:
    """A value as OTLP types it."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [typed(each) for each in value]}}
        case dict():
            pairs = [{"key": key, "value": typed(each)} for key, each in value.items()]
            return {"kvlistValue": {"values": pairs}}
    return {"stringValue": value}


def attributes(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": typed(value)} for key, value in said.items()]


def a_span(
    span_id: str,
    said: dict[str, Any],
    at: tuple[int, int] = (0, 1),
    parent: str | None = None,
    trace_id: str = TRACE_ID,
    **fields: Any,
) -> dict[str, Any]:
    """A span that lasts from one ms to another, counted from `T0`."""
    return {
        "traceId": trace_id,
        "spanId": span_id,
        **({"parentSpanId": parent} if parent else {}),
        "name": fields.pop("name", span_id),
        "kind": 1,
        "startTimeUnixNano": str((T0 + at[0]) * 1_000_000),
        "endTimeUnixNano": str((T0 + at[1]) * 1_000_000),
        "attributes": attributes(said),
        "status": {},
        **fields,
    }


def an_export(*spans: dict[str, Any], **resource: Any) -> dict[str, Any]:
    """An export request with these spans."""
    told = {"attributes": attributes({"service.name": "shop", **resource})}
    return {"resourceSpans": [{"resource": told, "scopeSpans": [{"spans": list(spans)}]}]}


def failed(message: str = "") -> dict[str, Any]:
    return {"code": "STATUS_CODE_ERROR", **({"message": message} if message else {})}
