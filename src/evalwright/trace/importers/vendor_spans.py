"""Spans with attributes of MLflow or Langfuse, and what else these write of the same work."""

from typing import Any

from evalwright.trace.importers.canonical import retrieval
from evalwright.trace.importers.model_io import (
    agent_operation,
    identified,
    model_operation,
    tool_operation,
)
from evalwright.trace.importers.operation import Kind, Operation
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.values import (
    decimal,
    from_text,
    structure_from_text,
    text,
    tool_names,
    usage_of,
)
from evalwright.trace.model import Json

_MLFLOW = "mlflow.spanType"
_LANGFUSE = "langfuse.observation."
_KINDS: dict[str, Kind] = {
    "CHAT_MODEL": "model",
    "LLM": "model",
    "GENERATION": "model",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
}
_IGNORED = ("EMBEDDING", "EVALUATOR", "GUARDRAIL", "EVENT", "RERANKER", "PARSER", "MEMORY")
_COSTS = ("total", "total_cost")


class Work(dict[str, Any]):
    """What a span worked on: `kind`, `input`, `output`, `model`, `tools`, `usage`, `cost`."""


def read_vendor(span: Span) -> Operation | None:
    """What a span says by the attributes of a vendor; None if it has none of them."""
    said = span.attributes
    if _MLFLOW in said:
        # MLflow writes every attribute as JSON text.
        costs = from_text(said.get("mlflow.llm.cost"))
        return read_work(
            span,
            Work(
                kind=from_text(said.get(_MLFLOW)),
                input=from_text(said.get("mlflow.spanInputs")),
                output=from_text(said.get("mlflow.spanOutputs")),
                model=from_text(said.get("mlflow.llm.model")),
                tools=from_text(said.get("mlflow.chat.tools")),
                usage=from_text(said.get("mlflow.chat.tokenUsage")),
                cost=cost_in(costs),
            ),
        )
    if any(key.startswith(_LANGFUSE) for key in said):
        told = {
            key.removeprefix(_LANGFUSE): value
            for key, value in said.items()
            if key.startswith(_LANGFUSE)
        }
        return read_work(
            span,
            Work(
                kind=told.get("type"),
                input=structure_from_text(told.get("input")),
                output=structure_from_text(told.get("output")),
                model=told.get("model.name"),
                usage=from_text(told.get("usage_details")),
                cost=cost_in(from_text(told.get("cost_details"))),
            ),
        )
    return None


def cost_in(details: Json) -> float | None:
    """The cost of a call, from its parts."""
    if not isinstance(details, dict):
        return None
    return next((found for key in _COSTS if (found := decimal(details.get(key))) is not None), None)


def read_work(span: Span, work: Work) -> Operation | None:
    """The operation that a vendor's record of some work tells of.

    Work of no kind of its own tells what the agent was asked and answered, if nothing is around it.
    """
    name = str(work.get("kind")).upper()
    match _KINDS.get(name):
        case "model":
            operation = model_operation(span, work.get("input"), work.get("output"))
            operation.usage = _usage(work) or operation.usage
            operation.tools = operation.tools or tool_names(work.get("tools"))
            named = text(work.get("model"))
            operation.models = [named] if named else operation.models
            return operation
        case "tool":
            call_id = identified(work.get("metadata"), keys=("tool_call_id", "call_id"))
            return tool_operation(span, work.get("input"), work.get("output"), call_id)
        case "retrieval":
            given, found = work.get("input"), work.get("output")
            query = (
                given.get("query", given.get("input", given)) if isinstance(given, dict) else given
            )
            found = found.get("documents", found) if isinstance(found, dict) else found
            documents = found if isinstance(found, list) else [found]
            return Operation(
                span,
                "retrieval",
                result=retrieval(query, [document(each) for each in documents if each is not None]),
            )
    if name in _IGNORED or span.parent_id is not None:
        return None
    operation = agent_operation(span, work.get("input"), work.get("output"))
    operation.usage = _usage(work) or operation.usage
    return operation


def _usage(work: Work) -> dict[str, Json]:
    usage = work.get("usage")
    found = usage_of({"usage": usage}) if isinstance(usage, dict) else {}
    cost = decimal(work.get("cost"))
    return found if cost is None else {**found, "cost_usd": cost}


def document(raw: Json) -> Json:
    """A document that was found, with its id or else where it comes from."""
    if not isinstance(raw, dict):
        return raw
    fields = raw["kwargs"] if isinstance(raw.get("kwargs"), dict) else raw
    known = fields if isinstance(fields.get("id"), str) else {}
    found = identified(known, fields.get("metadata"), keys=("id", "doc_id", "doc_uri", "source"))
    return {**fields, "id": found} if found else fields
