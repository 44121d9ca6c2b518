"""Traces of the OpenAI Agents SDK as its processors export them: `trace` and `trace.span`."""

from typing import Any

from evalwright.trace.importers.model_io import identified, model_operation, tool_operation
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.run_trees import TreeDialect
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.values import (
    first_identifier,
    milliseconds,
    structure_from_text,
    text,
    tool_names,
    usage_of,
)
from evalwright.trace.model import Json, text_of

_DATA = "agents.span_data"


def is_agents_sdk(value: Json) -> bool:
    """Whether a record is a trace or a span of the SDK."""
    if not isinstance(value, dict):
        return False
    known = value.get("object") in ("trace", "trace.span")
    return known and ("span_data" in value or "workflow_name" in value)


def _nodes(value: Json) -> list[dict[str, Any]]:
    nested = value.get("spans")
    spans = [each for each in nested if isinstance(each, dict)] if isinstance(nested, list) else []
    return [value, *({"trace_id": value.get("id"), **each} for each in spans)]


def _span(raw: dict[str, Any]) -> Span:
    data = structure_from_text(raw.get("span_data"))
    data = data if isinstance(data, dict) else {}
    error = structure_from_text(raw.get("error"))
    is_trace = raw.get("object") == "trace"
    metadata = raw.get("metadata") if is_trace else None
    span_id = first_identifier(raw, "id") or ""
    return Span(
        trace_id=span_id if is_trace else first_identifier(raw, "trace_id") or "",
        span_id=span_id,
        parent_id=first_identifier(raw, "parent_id"),
        name=text(data.get("name")) or "",
        start=milliseconds(raw.get("started_at")),
        end=milliseconds(raw.get("ended_at")),
        attributes={
            _DATA: data,
            "case_id": identified(metadata, keys=("case_id",)),
            "base_case_id": identified(metadata, keys=("base_case_id",)),
            "session.id": first_identifier(raw, "group_id") if is_trace else None,
        },
        resource={},
        events=[],
        failed=error is not None,
        failure=_error(error),
    )


def _error(error: Json) -> str | None:
    if not isinstance(error, dict):
        return text(error)
    data = error.get("data")
    inner = data.get("error") if isinstance(data, dict) else None
    return ": ".join(filter(None, (text(error.get("message")), text(inner)))) or text_of(error)


def _read(span: Span) -> Operation | None:
    data = span.attributes[_DATA]
    match data.get("type"):
        case "generation":
            return _model(span, data, data.get("input"), data.get("output"))
        case "response":
            response = data.get("response")
            answered = response if response is not None else data.get("output")
            return _model(span, data, data.get("input"), answered)
        case "function":
            return tool_operation(span, data.get("input"), data.get("output"))
        case "agent":
            return Operation(span, "agent", tools=tool_names(data.get("tools")))
    return None


def _model(span: Span, data: dict[str, Any], given: Json, answered: Json) -> Operation:
    operation = model_operation(span, given, answered)
    operation.usage = usage_of(data) or operation.usage
    named = text(data.get("model"))
    operation.models = [named] if named else operation.models
    return operation


AGENTS_SDK = TreeDialect(
    "what a model, a tool or an agent did", _nodes, _span, _read, lambda value: "spans" in value
)
