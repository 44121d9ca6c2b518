"""Runs of LangSmith and of LangChain's tracers: flat with parents, or nested in `child_runs`."""

import re
from itertools import takewhile
from typing import Any

from evalwright.trace.importers.model_io import (
    agent_operation,
    identified,
    model_operation,
    tool_operation,
)
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.run_trees import TreeDialect
from evalwright.trace.importers.span_formats import Span, short_error
from evalwright.trace.importers.values import (
    decimal,
    fields_of,
    first_identifier,
    milliseconds,
    objects_in,
    structure_from_text,
    text,
    tool_names,
    whole_number,
    without_none,
)
from evalwright.trace.importers.vendor_spans import retrieval_operation
from evalwright.trace.model import Json

_RUN = "langsmith.run"
_CASE_KEYS = ("case_id",)
_THREAD_KEYS = ("thread_id", "session_id", "conversation_id")
_SPEAKERS = {"System": "system", "Human": "user", "AI": "other", "Tool": "other"}
_SPEAKER = re.compile(r"(?:^|\n)(System|Human|AI|Tool): ")
_BATCHES = ("post", "patch", "runs")


def is_langsmith(value: Json) -> bool:
    """Whether a record is a run, or the runs of one request to LangSmith."""
    return _is_run(value) or (isinstance(value, dict) and any(_batches(value)))


def _is_run(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and (isinstance(value.get("run_type"), str) or "dotted_order" in value)
        and any(key in value for key in ("inputs", "outputs", "child_runs", "dotted_order"))
    )


def _batches(value: dict[str, Any]) -> list[list[Any]]:
    found = [value[key] for key in _BATCHES if isinstance(value.get(key), list)]
    return found if any(_is_run(each) for batch in found for each in batch[:1]) else []


def _trace_id(run: dict[str, Any]) -> str:
    found = first_identifier(run, "trace_id")
    order = text(run.get("dotted_order"))
    if found is None and order is not None:
        found = order.partition(".")[0].partition("Z")[2]
    return found or first_identifier(run, "id") or ""


def _metadata(run: dict[str, Any]) -> Json:
    inner = fields_of(structure_from_text(run.get("extra"))).get("metadata")
    return inner if isinstance(inner, dict) else structure_from_text(run.get("metadata"))


def _with_messages(given: Json) -> Json:
    """A prompt that tracers wrote as one text, with the messages at its beginning apart.

    What follows them is in the runs before this one, with the ids of its calls.
    """
    prompts = given.get("prompts") if isinstance(given, dict) else None
    first = prompts[0] if isinstance(prompts, list) and len(prompts) == 1 else None
    if not isinstance(first, str) or not first.startswith(("System: ", "Human: ")):
        return given
    parts = _SPEAKER.split(first)
    said = [
        {"role": _SPEAKERS[speaker], "content": words}
        for speaker, words in zip(parts[1::2], parts[2::2], strict=True)
    ]
    return {"messages": list(takewhile(lambda each: each["role"] != "other", said))}


class LangSmith(TreeDialect):
    """Runs of LangSmith."""

    known = "inputs and outputs of a model or a tool"

    def nodes(self, value: Json) -> list[dict[str, Any]]:
        """The run and all runs below it; what is below a run belongs to its trace."""
        if not isinstance(value, dict):
            return []
        if not _is_run(value) and _batches(value):
            return [
                node for batch in _batches(value) for each in batch for node in self.nodes(each)
            ]
        found, level = [], [value]
        while level:
            below = []
            for run in level:
                found.append({key: run[key] for key in run if key != "child_runs"})
                above = {"trace_id": _trace_id(run), "parent_run_id": first_identifier(run, "id")}
                below += [above | without_none(each) for each in objects_in(run.get("child_runs"))]
            level = below
        return found

    def span(self, raw: dict[str, Any]) -> Span:
        metadata = _metadata(raw)
        case_id = identified(metadata, keys=_CASE_KEYS)
        error = text(raw.get("error"))
        return Span(
            trace_id=_trace_id(raw),
            span_id=first_identifier(raw, "id") or "",
            parent_id=first_identifier(raw, "parent_run_id"),
            name=text(raw.get("name")) or "",
            start=milliseconds(raw.get("start_time")),
            end=milliseconds(raw.get("end_time")),
            attributes={
                _RUN: raw,
                "case_id": case_id or identified(raw, keys=("reference_example_id",)),
                "session.id": identified(metadata, keys=_THREAD_KEYS),
                "base_case_id": identified(metadata, keys=("base_case_id",)),
            },
            failed=error is not None or raw.get("status") == "error",
            failure=error and short_error(error),
        )

    def read(self, span: Span) -> Operation | None:
        run = span.attributes[_RUN]
        given, returned = map(structure_from_text, (run.get("inputs"), run.get("outputs")))
        match run.get("run_type"):
            case "llm":
                operation = model_operation(span, _with_messages(given), returned)
                extra = fields_of(structure_from_text(run.get("extra")))
                called = fields_of(extra.get("invocation_params"))
                offered = called.get("tools") or called.get("functions")
                operation.tools = operation.tools or tool_names(offered)
                # What LangSmith counted itself; it does not count in runs that a tracer writes.
                counted = {
                    "input_tokens": whole_number(run.get("prompt_tokens")),
                    "output_tokens": whole_number(run.get("completion_tokens")),
                    "cost_usd": decimal(run.get("total_cost")),
                }
                counted = {key: value for key, value in counted.items() if value}
                operation.usage = counted or operation.usage
                keys = ("ls_model_name", "model", "model_name")
                named = identified(_metadata(run), called, keys=keys)
                operation.models = operation.models or ([named] if named else [])
                return operation
            case "tool":
                call_id = identified(run, given, _metadata(run), keys=("tool_call_id",))
                return tool_operation(span, given, returned, call_id)
            case "retriever":
                return retrieval_operation(span, given, returned)
            case "chain" if span.parent_id is None:
                return agent_operation(span, given, returned)
        return None

    def is_whole(self, value: Json) -> bool:
        return _is_run(value) and bool(value.get("child_runs")) and not value.get("parent_run_id")
