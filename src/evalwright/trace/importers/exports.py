"""Traces as MLflow and Langfuse export them: through their APIs, as files, as ingestion batches."""

from typing import Any

import msgspec

from evalwright.trace.importers.model_io import identified
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.run_trees import TreeDialect
from evalwright.trace.importers.span_formats import Span, is_span, spans_of
from evalwright.trace.importers.values import (
    fields_of,
    first_identifier,
    from_text,
    milliseconds,
    objects_in,
    structure_from_text,
    text,
    usage_and_cost,
)
from evalwright.trace.importers.vendor_spans import Work, cost_in, read_vendor, read_work
from evalwright.trace.model import Json

_INFO = "mlflow.info"
_OBSERVATION = "langfuse.observation"
_TRACE = "TRACE"
_OBSERVED = (
    "GENERATION",
    "SPAN",
    "EVENT",
    "AGENT",
    "TOOL",
    "CHAIN",
    "RETRIEVER",
    "EMBEDDING",
    "EVALUATOR",
    "GUARDRAIL",
)
_OF_A_TRACE = ("projectId", "public", "bookmarked", "htmlPath", "scores", "observations")


def is_mlflow(value: Json) -> bool:
    """Whether a record is a trace of MLflow: its info and its spans, or a row of a search."""
    return isinstance(value, dict) and bool(_spans_in(value))


def _spans_in(value: dict[str, Any]) -> list[dict[str, Any]]:
    data = structure_from_text(value.get("data", value.get("trace_data")))
    holders = (data, value) if _info(value) or "request_id" in value else ()
    trace = structure_from_text(value.get("trace"))
    if isinstance(trace, dict):
        return _spans_in({"info": trace.get("trace_info"), **trace})
    for holder in holders:
        spans = structure_from_text(holder.get("spans")) if isinstance(holder, dict) else None
        if (
            isinstance(spans, list)
            and spans
            and all(isinstance(each, dict) and is_span(each) for each in spans)
        ):
            return spans
    return []


def _info(value: dict[str, Any]) -> dict[str, Any]:
    found = structure_from_text(value.get("info", value.get("trace_info")))
    if isinstance(found, dict):
        return found
    trace = structure_from_text(value.get("trace"))
    if isinstance(trace, dict):
        return _info({**trace, "trace": None})
    return value if "trace_metadata" in value or "request_metadata" in value else {}


class Mlflow(TreeDialect):
    """Traces of MLflow."""

    known = "inputs and outputs of MLflow"

    def nodes(self, value: Json) -> list[dict[str, Any]]:
        info = _info(value)
        return [{**each, _INFO: info} for each in _spans_in(value)]

    def span(self, raw: dict[str, Any]) -> Span:
        if isinstance(raw.get("status_code"), str):  # before version 3
            status = {"code": raw["status_code"], "message": raw.get("status_message")}
            raw = {**raw, "status": status}
        (span,) = [each for each in spans_of(raw) if isinstance(each, Span)]
        info = raw[_INFO]
        told: dict[str, Json] = {}
        for key in ("tags", "request_metadata", "trace_metadata"):
            told |= fields_of(info.get(key))
        attributes = {
            **span.attributes,
            _INFO: told,
            "case_id": identified(told, info, keys=("case_id", "client_request_id")),
            "base_case_id": identified(told, keys=("base_case_id",)),
            "session.id": identified(told, keys=("mlflow.trace.session",)),
        }
        trace_id = first_identifier(info, "trace_id", "request_id") or span.trace_id
        return msgspec.structs.replace(span, trace_id=trace_id, attributes=attributes)

    def read(self, span: Span) -> Operation | None:
        known = {**span.attributes}
        known.setdefault("mlflow.spanType", "UNKNOWN")
        operation = read_vendor(msgspec.structs.replace(span, attributes=known))
        if operation is not None and operation.kind == "agent" and not operation.usage:
            told = span.attributes[_INFO]
            cost = cost_in(from_text(told.get("mlflow.trace.cost")))
            operation.usage = usage_and_cost(from_text(told.get("mlflow.trace.tokenUsage")), cost)
        return operation

    def is_whole(self, value: Json) -> bool:
        return is_mlflow(value)


def is_langfuse(value: Json) -> bool:
    """Whether a record is a trace or an observation of Langfuse, or an event that makes one."""
    if not isinstance(value, dict):
        return False
    is_observation = _either(value, "traceId") is not None and _is_observed(value)
    return is_observation or _is_trace(value) or _is_event(value)


def _is_observed(value: Json) -> bool:
    if not isinstance(value, dict) or _either(value, "startTime") is None:
        return False
    is_nested = "parentObservationId" in value or "parent_observation_id" in value
    return is_nested or str(value.get("type")).upper() in _OBSERVED


def _is_trace(value: dict[str, Any]) -> bool:
    observed = structure_from_text(value.get("observations"))
    if isinstance(observed, list) and any(map(_is_observed, observed)):
        return True
    return (
        "timestamp" in value
        and any(key in value for key in ("input", "output"))
        and any(_either(value, key) is not None for key in _OF_A_TRACE)
        and first_identifier(value, "id") is not None
    )


def _is_event(value: dict[str, Any]) -> bool:
    return isinstance(value.get("body"), dict) and str(value.get("type")).endswith(
        ("-create", "-update", "-log")
    )


def _either(raw: dict[str, Any], key: str) -> Json:
    found = raw.get(key)
    snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in key)
    return raw.get(snake) if found is None else found


class Langfuse(TreeDialect):
    """Traces and observations of Langfuse."""

    known = "input and output of a generation or a tool"

    def nodes(self, value: Json) -> list[dict[str, Any]]:
        if _is_event(value):
            kind = value["type"].rpartition("-")[0].upper()
            known = {} if kind == "OBSERVATION" else {"type": kind}
            return [] if kind in ("SDK", "SCORE") else [{**value["body"], **known}]
        if not _is_trace(value):
            return [value]
        trace = {**value, "type": _TRACE, "observations": None}
        below = objects_in(structure_from_text(value.get("observations")))
        trace_id = first_identifier(value, "id")
        return [trace, *({"traceId": trace_id, "trace_node": trace_id, **each} for each in below)]

    def span(self, raw: dict[str, Any]) -> Span:
        is_trace = raw.get("type") == _TRACE
        own_id = first_identifier(raw, "id") or ""
        parent = None if is_trace else _either(raw, "parentObservationId") or raw.get("trace_node")
        metadata = structure_from_text(raw.get("metadata"))
        return Span(
            trace_id=own_id if is_trace else str(_either(raw, "traceId") or ""),
            span_id=own_id,
            parent_id=text(parent),
            name=text(raw.get("name")) or "",
            start=milliseconds(_either(raw, "startTime") or raw.get("timestamp")),
            end=milliseconds(_either(raw, "endTime")),
            attributes={
                _OBSERVATION: raw,
                "case_id": identified(metadata, keys=("case_id",)),
                "base_case_id": identified(metadata, keys=("base_case_id",)),
                "session.id": text(_either(raw, "sessionId")),
            },
            failed=raw.get("level") == "ERROR",
            failure=text(_either(raw, "statusMessage")),
        )

    def read(self, span: Span) -> Operation | None:
        raw = span.attributes[_OBSERVATION]
        metadata = structure_from_text(raw.get("metadata"))
        usage = structure_from_text(_either(raw, "usageDetails")) or raw.get("usage")
        counts = {"input": raw.get("promptTokens"), "output": raw.get("completionTokens")}
        costs = cost_in(structure_from_text(_either(raw, "costDetails")))
        totals = [costs, _either(raw, "calculatedTotalCost"), _either(raw, "totalCost")]
        work = Work(
            kind=raw.get("type") or identified(metadata, keys=("langfuse.observation.type",)),
            input=structure_from_text(raw.get("input")),
            output=structure_from_text(raw.get("output")),
            model=raw.get("model") or _either(raw, "providedModelName"),
            usage=usage if isinstance(usage, dict) and usage else counts,
            cost=next((each for each in totals if each), None),
            metadata=metadata,
        )
        return read_work(span, work)

    def is_whole(self, value: Json) -> bool:
        return bool(_is_trace(value) and value.get("observations"))
