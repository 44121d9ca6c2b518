"""Spans grouped by trace: one case each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from evalwright.trace.importers.conversations import began, first_requests, requests, retold
from evalwright.trace.importers.dialogue import final_output
from evalwright.trace.importers.genai import read_genai
from evalwright.trace.importers.openinference import read_openinference
from evalwright.trace.importers.operation import Operation, result_status
from evalwright.trace.importers.records import (
    Imported,
    Importer,
    ImportRecord,
    PassedOver,
    digest_of,
    faulty,
    words_of_user,
)
from evalwright.trace.importers.span_formats import (
    LogRecord,
    Span,
    SpanEvent,
    span_of_logs,
    spans_of,
)
from evalwright.trace.importers.span_timeline import Timeline
from evalwright.trace.importers.values import identifier, sum_usage
from evalwright.trace.importers.vendor_spans import read_vendor
from evalwright.trace.model import Json, text_of

CASE_ATTRIBUTES = ("evalwright.case_id", "case_id", "test.case.id")
CONVERSATION_ATTRIBUTES = ("session.id", "gen_ai.conversation.id")
_IDLE = "only that an agent was created or invoked"
_REMEDY = "export the spans of the agent's instrumentation"
_SILENT = "calls of a model without a message"
_UNANSWERED = "calls of a model whose answers were not recorded, so they were not looked at"
_CUT = (
    "lack attributes or events that a limit of the SDK cut off; "
    "record them with a higher OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT or OTEL_SPAN_EVENT_COUNT_LIMIT"
)
_MOST_OF_A_REQUEST = 4  # spans of a trace that may be one request alone: layers of its client


def read_by_conventions(span: Span) -> Operation | None:
    """What a span says the agent did, by any convention that we know."""
    found = read_openinference(span) or read_genai(span)
    if found is not None and (found.history or found.output or found.result):
        return found
    # Vendors may keep what was said in attributes of their own, and the rest in common ones.
    kept = read_vendor(span)
    if found is None or kept is None:
        return found or kept
    kept.usage, kept.models = found.usage or kept.usage, found.models or kept.models
    kept.tools, kept.instructions = found.tools or kept.tools, found.instructions
    return kept


def operations_of(
    spans: Iterable[Span], read: Callable[[Span], Operation | None] = read_by_conventions
) -> list[Operation]:
    """What spans say was done, by the time of its start, whichever of them came first."""
    found = (operation for each in spans if (operation := read(each)) is not None)
    return sorted(found, key=_began)


def _began(operation: Operation) -> tuple[float, float, str]:
    """When something began; of what began at once, that which lasted longer is around the other."""
    span = operation.span
    start = span.start or 0.0
    return start, -(start if span.end is None else span.end), span.span_id


class SpanGroups(Importer):
    """Collects the spans of a file, then gives its cases.

    `read` says what a span did, and `known` by what; `turns` counts those of each conversation.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Span], Operation | None] = read_by_conventions,
        known: str = "GenAI or OpenInference attributes, nor those of MLflow or Langfuse",
        turns: Counter[str] | None = None,
    ) -> None:
        super().__init__(name)
        self._read = read
        self._known = known
        self._turns: Counter[str] = Counter() if turns is None else turns
        self._traces: dict[str, list[Span]] = {}
        self._logged: dict[tuple[str, str | None], list[SpanEvent]] = {}
        self._said: dict[str, str] = {}
        self._retold: set[str] = set()
        self._spans = 0
        self._cut = 0
        self._taken = False

    def read(self, record: ImportRecord) -> Iterable[Imported]:
        self._taken = True
        for found in spans_of(record.value):
            self.add_found(found)
        return ()

    def add_found(self, found: Span | LogRecord) -> None:
        """Take one span or log record."""
        if isinstance(found, LogRecord):
            self._logged.setdefault((found.trace_id, found.span_id), []).append(found.event)
        else:
            self.add(found)

    def add(self, span: Span) -> None:
        """Take one span."""
        self._taken = True
        self._spans += 1
        self._traces.setdefault(span.trace_id, []).append(span)

    def joined(self) -> list[Span]:
        """All spans, each with the events that log records tell of it."""
        self._join_logs()
        return [span for spans in self._traces.values() for span in spans]

    def is_idle(self) -> bool:
        return not self._taken

    def rest(self) -> Iterator[Imported | PassedOver]:
        """One case for each trace in which an agent or a model did something."""
        self._join_logs()
        passed: dict[str, list[str]] = {}
        found = None
        for found in self._cases(passed):
            yield found
        if found is None:  # else it is a layer that tells less than another
            for trace_id in passed.pop(_SILENT, ()):
                spans = self._traces[trace_id]
                found = self._imported(trace_id, spans, operations_of(spans, self._read))
                yield found
        if self._taken and found is None:
            count = f"{self._spans} spans in {len(self._traces)} traces"
            fault = f"none of {count} has {self._known}; {_REMEDY}"
            if _IDLE in passed:
                fault = f"its {count} tell {_IDLE}, not what it did"
            yield faulty(1, f"{self._name}: {fault}")
        else:
            for reason, ids in passed.items():
                yield PassedOver(f"{_traces(ids)} {reason}")
            if self._cut:
                yield PassedOver(f"{self._cut} model calls {_CUT}")

    def _cases(self, passed: dict[str, list[str]]) -> Iterator[Imported]:
        """Those traces that are cases; the others are put aside, by the reason."""
        for trace_id, joined in self._conversations().items():
            spans = [span for each in joined for span in self._traces[each]]
            operations = operations_of(spans, self._read)
            self._cut += sum(each.is_cut or each.span.dropped > 0 for each in operations)
            if _has_content(operations) and trace_id not in self._retold:
                found = self._imported(trace_id, spans, operations)
                # Whether models were called, and nothing tells what any of them answered.
                models = [each for each in operations if each.kind == "model"]
                is_told = "final_output" in found.response or "runner_failure" in found.response
                if bool(models) and not is_told and not any(each.output for each in models):
                    passed.setdefault(_UNANSWERED, []).append(trace_id)
                yield found
                continue
            reason = _IDLE if all(each.kind == "agent" for each in operations) else _SILENT
            reason = reason if operations else f"no {self._known}"
            passed.setdefault(reason, []).append(trace_id)

    def _conversations(self) -> dict[str, list[str]]:
        """The traces of each conversation, by the first of them, in the order of the file.

        A client that is instrumented alone starts a trace with every request. Such traces belong
        together if one repeats what was said in the other.
        """
        bare: dict[str, list[Operation]] = {}  # those with model calls, nothing else and no name
        for trace_id, spans in self._traces.items():
            if len(spans) <= _MOST_OF_A_REQUEST:
                operations = operations_of(spans, self._read)
                named = _named(spans, CASE_ATTRIBUTES + CONVERSATION_ATTRIBUTES)
                if operations and not named and all(each.kind == "model" for each in operations):
                    bare[trace_id] = operations
        self._retold = retold(bare)
        first = {trace_id: trace_id for trace_id in self._traces}
        first |= first_requests(bare)
        found: dict[str, list[str]] = {}
        for trace_id in sorted(self._traces, key=lambda each: began(bare.get(each))):
            found.setdefault(first[trace_id], []).append(trace_id)
        return {trace_id: found[trace_id] for trace_id in self._traces if trace_id in found}

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
                for number, request in enumerate(requests(events) if not span_id else [events]):
                    named = f"{trace_id or 'trace'}#{number + 1}" if number else trace_id
                    made = span_of_logs(named, span_id, request)
                    self._traces.setdefault(named, []).append(made)

    def _imported(self, trace_id: str, spans: list[Span], operations: list[Operation]) -> Imported:
        timeline = Timeline(operations, {span.span_id: span.parent_id for span in spans})
        dialogue = timeline.dialogue()
        for operation in operations:
            if operation.instructions and not timeline.is_within_tool(operation):
                for instruction in operation.instructions:
                    dialogue.instruct(instruction)
        asked = [each.asked for each in operations if each.asked not in (None, "")]
        if asked and not dialogue.has_prompt:
            dialogue.ask(text_of(asked[0]))
        told = _named(spans, CASE_ATTRIBUTES)
        conversation = _named(spans, CONVERSATION_ATTRIBUTES)
        case_id = told or conversation or trace_id or "trace"
        if not told:  # from its second trace on, a conversation numbers them
            self._turns[case_id] += 1
            turn = self._turns[case_id]
            case_id = case_id if turn == 1 else f"{case_id}#{turn}"
        extras: dict[str, Any] = {}
        if names := list(dict.fromkeys(name for each in operations for name in each.tools)):
            extras["tools_offered"] = names
        if models := list(dict.fromkeys(name for each in operations for name in each.models)):
            extras["models"] = models
        usage: dict[str, Json] = {}
        starts = [each.span.start for each in operations if each.span.start is not None]
        ends = [each.span.end for each in operations if each.span.end is not None]
        if starts and ends:
            usage["duration_ms"] = max(0.0, round(max(ends) - min(starts), 3))
        if usage := usage | _spent(timeline, operations):
            extras["usage"] = usage
        response = dialogue.response(case_id, extras)
        _add_outcome(response, timeline, operations)
        # What the user has said in a conversation so far; a later trace may not repeat it.
        words = words_of_user(response)
        if conversation is not None:
            before = self._said.get(conversation, "")
            words = words if words.startswith(before) else f"{before} {words}"
            self._said[conversation] = words
        return Imported(
            case_id,
            response,
            _named(spans, ("base_case_id",)),
            trace_id or None,
            named_by="case_id" if told else "conversation" if conversation else "trace",
            asked=digest_of(words),
        )


def _traces(ids: list[str]) -> str:
    """How many traces there are and where, as the beginning of a sentence on what they hold."""
    shown = ", ".join([*ids[:3], *(["…"] if len(ids) > 3 else [])])
    return f"{len(ids)} traces ({shown}) hold" if len(ids) > 1 else f"1 trace ({shown}) holds"


def _has_content(operations: list[Operation]) -> bool:
    """Whether spans tell anything that an agent or a model was told or did."""
    return any(
        each.kind not in ("agent", "model")
        or each.history
        or each.output
        or each.asked not in (None, "")
        or each.answered not in (None, "")
        or each.span.failed
        for each in operations
    )


def _named(spans: list[Span], keys: tuple[str, ...]) -> str | None:
    """The first of some attributes that a span has, or that the resource of one has."""
    for key in keys:
        for span in spans:
            found = identifier(span.attributes.get(key)) or identifier(span.resource.get(key))
            if found:
                return found
    return None


def _spent(timeline: Timeline, operations: list[Operation]) -> dict[str, Json]:
    """What the innermost spans say that was spent; what these leave out, those around them."""
    layers: list[list[dict[str, Json]]] = [[], [], []]
    for each in operations:
        if each.kind == "model":
            layers[timeline.has_inner_model(each)].append(each.usage)
        elif not any(around.usage for around in timeline.ancestors(each)):
            layers[2].append(each.usage)
    spent: dict[str, Json] = {}
    for layer in reversed(layers):
        spent |= sum_usage(layer)
    return spent


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
        span = failed[-1]
        status = identifier(span.attributes.get("http.response.status_code"))
        failure: dict[str, Any] = {"class": "http_error" if status else "agent_error"}
        if result_status(span) == "timeout":
            failure["class"] = "timeout"
        if status and status.isdigit():
            failure["status"] = int(status)
        error = {"error_name": span.error_type(), "error_message": span.error_text()}
        response["runner_failure"] = failure | {key: error[key] for key in error if error[key]}
