"""Traces of the OpenAI Agents SDK as its processors export them: `trace` and `trace.span`."""

from typing import Any

from evalwright.trace.importers.model_io import identified, model_operation, tool_operation
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.run_trees import TreeDialect
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.values import (
    fields_of,
    first_identifier,
    milliseconds,
    objects_in,
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


class AgentsSdk(TreeDialect):
    """Traces of the SDK, and their spans."""

    known = "what a model, a tool or an agent did"

    def nodes(self, value: Json) -> list[dict[str, Any]]:
        spans = objects_in(value.get("spans"))
        return [value, *({"trace_id": value.get("id"), **each} for each in spans)]

    def span(self, raw: dict[str, Any]) -> Span:
        data = fields_of(structure_from_text(raw.get("span_data")))
        is_trace = raw.get("object") == "trace"
        metadata = raw.get("metadata") if is_trace else None
        span_id = first_identifier(raw, "id") or ""
        error = structure_from_text(raw.get("error"))
        failure = text(error)
        if isinstance(error, dict):
            said = error.get("message"), fields_of(error.get("data")).get("error")
            failure = ": ".join(filter(None, map(text, said))) or text_of(error)
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
            failed=error is not None,
            failure=failure,
        )

    def read(self, span: Span) -> Operation | None:
        data = span.attributes[_DATA]
        match data.get("type"):
            case "generation" | "response" as kind:
                response = data.get("response") if kind == "response" else None
                answered = data.get("output") if response is None else response
                operation = model_operation(span, data.get("input"), answered)
                operation.usage = usage_of(data) or operation.usage
                if named := text(data.get("model")):
                    operation.models = [named]
                return operation
            case "function":
                return tool_operation(span, data.get("input"), data.get("output"))
            case "agent":
                return Operation(span, "agent", tools=tool_names(data.get("tools")))
        return None

    def is_whole(self, value: Json) -> bool:
        return "spans" in value
