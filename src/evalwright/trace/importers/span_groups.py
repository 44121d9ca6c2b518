"""Spans grouped by trace: one case each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from evalwright.trace.importers.dialogue import Dialogue, final_output
from evalwright.trace.importers.genai import read_genai
from evalwright.trace.importers.openinference import read_openinference
from evalwright.trace.importers.operation import Operation, result_status
from evalwright.trace.importers.records import Imported, ImportRecord, faulty
from evalwright.trace.importers.spans import LogRecord, Span, SpanEvent, span_of_logs, spans_of
from evalwright.trace.importers.timeline import Timeline
from evalwright.trace.importers.values import identifier, sum_usage
from evalwright.trace.importers.vendor_spans import read_vendor
from evalwright.trace.model import Json, text_of

CASE_ATTRIBUTES = ("evalwright.case_id", "case_id", "test.case.id")
CONVERSATION_ATTRIBUTES = ("session.id", "gen_ai.conversation.id")


def _by_conventions(span: Span) -> Operation | None:
    return read_openinference(span) or read_genai(span) or read_vendor(span)


class SpanGroups:
    """Collects the spans of a file, then gives its cases.

    `read` says what a span did, and `known` by what; `turns` counts those of each conversation.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Span], Operation | None] = _by_conventions,
        known: str = "GenAI or OpenInference attributes, nor those of MLflow or Langfuse",
        turns: Counter[str] | None = None,
    ) -> None:
        self._name = name
        self._read = read
        self._known = known
        self._turns: Counter[str] = Counter() if turns is None else turns
        self._traces: dict[str, list[Span]] = {}
        self._logged: dict[tuple[str, str | None], list[SpanEvent]] = {}
        self._spans = 0
        self._taken = False

    def take(self, record: ImportRecord) -> Iterable[Imported]:
        """Take the spans and log records of one record of the file."""
        self._taken = True
        for found in spans_of(record.value):
            if isinstance(found, LogRecord):
                self._logged.setdefault((found.trace_id, found.span_id), []).append(found.event)
            else:
                self.add(found)
        return ()

    def add(self, span: Span) -> None:
        """Take one span."""
        self._taken = True
        self._spans += 1
        self._traces.setdefault(span.trace_id, []).append(span)

    def pause(self) -> Iterable[Imported]:
        """No trace is complete before the end of the file."""
        return ()

    def rest(self) -> Iterator[Imported]:
        """One case for each trace in which an agent or a model did something."""
        any_known = False
        self._join_logs()
        for trace_id, spans in self._traces.items():
            operations = self._operations(spans)
            if operations:
                any_known = True
                yield _imported(trace_id, spans, operations, self._turns)
        if self._taken and not any_known:
            yield faulty(1, self._nothing_known())

    def _join_logs(self) -> None:
        """Give log records to their spans; those of a span that is not here make one."""
        known = {
            (span.trace_id, span.span_id): span for each in self._traces.values() for span in each
        }
        for (trace_id, span_id), events in self._logged.items():
            span = known.get((trace_id, span_id or ""))
            if span is not None:
                span.events.extend(events)
            elif any(event.name.startswith("gen_ai.") for event in events):
                made = span_of_logs(trace_id, span_id, events)
                self._traces.setdefault(trace_id, []).append(made)

    def _nothing_known(self) -> str:
        return (
            f"{self._name}: none of {self._spans} spans in {len(self._traces)} traces has "
            f"{self._known}; export the spans of the agent's instrumentation"
        )

    def _operations(self, spans: list[Span]) -> list[Operation]:
        ordered = sorted(spans, key=lambda each: each.start or 0.0)
        found = map(self._read, ordered)
        return [operation for operation in found if operation is not None]


def _imported(
    trace_id: str, spans: list[Span], operations: list[Operation], turns: Counter[str]
) -> Imported:
    timeline = Timeline(operations, {span.span_id: span.parent_id for span in spans})
    dialogue = timeline.dialogue()
    _add_prompts(dialogue, timeline, operations)
    case_id = _case_id(trace_id, spans, turns)
    response = dialogue.response(case_id, _extras(timeline, operations))
    _add_outcome(response, timeline, operations)
    return Imported(case_id, response, _named(spans, ("base_case_id",)), trace_id or None)


def _case_id(trace_id: str, spans: list[Span], turns: Counter[str]) -> str:
    """The case that a trace belongs to; later traces of one conversation are numbered."""
    case_id = _named(spans, CASE_ATTRIBUTES)
    if case_id:
        return case_id
    conversation = _named(spans, CONVERSATION_ATTRIBUTES) or trace_id or "trace"
    turns[conversation] += 1
    turn = turns[conversation]
    return conversation if turn == 1 else f"{conversation}#{turn}"


def _named(spans: list[Span], keys: tuple[str, ...]) -> str | None:
    """The first of some attributes that a span has, or that the resource of one has."""
    for key in keys:
        for span in spans:
            found = identifier(span.attributes.get(key)) or identifier(span.resource.get(key))
            if found:
                return found
    return None


def _add_prompts(dialogue: Dialogue, timeline: Timeline, operations: list[Operation]) -> None:
    for operation in operations:
        if operation.instructions and not timeline.is_within_tool(operation):
            for instruction in operation.instructions:
                dialogue.instruct(instruction)
    asked = [each.asked for each in operations if each.asked not in (None, "")]
    if asked and not dialogue.has_prompt:
        dialogue.ask(text_of(asked[0]))


def _extras(timeline: Timeline, operations: list[Operation]) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if names := list(dict.fromkeys(name for each in operations for name in each.tools)):
        extras["tools_offered"] = names
    if models := list(dict.fromkeys(name for each in operations for name in each.models)):
        extras["models"] = models
    if usage := {**_duration(operations), **_spent(timeline, operations)}:
        extras["usage"] = usage
    return extras


def _spent(timeline: Timeline, operations: list[Operation]) -> dict[str, Json]:
    models = [each for each in operations if each.kind == "model"]
    inner = sum_usage(each.usage for each in models if not timeline.has_inner_model(each))
    around = (each.usage for each in operations if each.usage)
    return inner or next(around, {})


def _duration(operations: list[Operation]) -> dict[str, Json]:
    starts = [each.span.start for each in operations if each.span.start is not None]
    ends = [each.span.end for each in operations if each.span.end is not None]
    if not starts or not ends:
        return {}
    return {"duration_ms": max(0.0, round(max(ends) - min(starts), 3))}


def _add_outcome(response: dict[str, Any], timeline: Timeline, operations: list[Operation]) -> None:
    """The answer, or the failure, that the outermost span tells where no model gave an answer."""
    if "final_output" in response:
        return
    speaking = [each for each in operations if each.kind in ("agent", "model")]
    outermost = [each for each in speaking if not any(timeline.ancestors(each))]
    answered = [each.answered for each in outermost if each.answered not in (None, "")]
    models = [each for each in operations if each.kind == "model"]
    failed = [each.span for each in outermost + models[-1:] if each.span.failed]
    if answered and not failed:
        response["final_output"] = final_output(answered[-1])
    elif failed:
        response["runner_failure"] = _failure(failed[-1])


def _failure(span: Span) -> dict[str, Any]:
    status = identifier(span.attributes.get("http.response.status_code"))
    failure: dict[str, Any] = {"class": "http_error" if status else "agent_error"}
    if result_status(span) == "timeout":
        failure["class"] = "timeout"
    if status and status.isdigit():
        failure["status"] = int(status)
    error = {"error_name": span.error_type(), "error_message": span.error_text()}
    return {**failure, **{key: value for key, value in error.items() if value}}
