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
    usage_and_cost,
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

        return read_work(
            span,
            Work(
                kind=from_text(said.get(_MLFLOW)),
                input=from_text(said.get("mlflow.spanInputs")),
                output=from_text(said.get("mlflow.spanOutputs")),
                model=from_text(said.get("mlflow.llm.model")),
                tools=from_text(said.get("mlflow.chat.tools")),
                usage=from_text(said.get("mlflow.chat.tokenUsage")),
                cost=cost_in(from_text(said.get("mlflow.llm.cost"))),
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
    spent = usage_and_cost(work.get("usage"), work.get("cost"))
    match _KINDS.get(name):
        case "model":
            operation = model_operation(span, work.get("input"), work.get("output"))
            operation.usage = spent or operation.usage
            operation.tools = operation.tools or tool_names(work.get("tools"))
            if named := text(work.get("model")):
                operation.models = [named]
            return operation
        case "tool":
            call_id = identified(work.get("metadata"), keys=("tool_call_id", "call_id"))
            return tool_operation(span, work.get("input"), work.get("output"), call_id)
        case "retrieval":
            return retrieval_operation(span, work.get("input"), work.get("output"))
    if name in _IGNORED or span.parent_id is not None:
        return None
    operation = agent_operation(span, work.get("input"), work.get("output"))
    operation.usage = spent or operation.usage
    return operation


def retrieval_operation(span: Span, given: Json, found: Json) -> Operation:
    """Documents that were found for a query."""
    query = given.get("query", given.get("input", given)) if isinstance(given, dict) else given
    found = found.get("documents", found) if isinstance(found, dict) else found
    documents = []
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, dict):  # with its id or else where it comes from
            fields = each["kwargs"] if isinstance(each.get("kwargs"), dict) else each
            known = fields if isinstance(fields.get("id"), str) else {}
            keys = ("id", "doc_id", "doc_uri", "source")
            doc_id = identified(known, fields.get("metadata"), keys=keys)
            documents.append({**fields, "id": doc_id} if doc_id else fields)
        elif each is not None:
            documents.append(each)
    return Operation(span, "retrieval", result=retrieval(query, documents))
