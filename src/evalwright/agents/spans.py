"""Spans of instrumented libraries: what they tell of one invocation, by any convention we know.

Whoever has all the spans of an invocation, in any order and from any number of instrumentations,
hands them over once, when the agent has answered, and after what the answer itself tells:

    record_spans(invocation, spans_of(document))   # OTLP, decoded from its JSON form
    record_spans(invocation, spans, lost)          # or spans, and log records among them

The spans may be of several traces, as one of a client alone is of each request. `lost` says why
there must be others that did not arrive: then the calls are observed only if something else has
told of them. Spans that tell nothing of a model, a tool or an agent leave all as it is.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from evalwright.agents.account import Account, Deed, ToldCall, ToldReturn
from evalwright.agents.answers import deeds_in
from evalwright.agents.usage import UNSPECIFIED
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.jsonvalue import json_equal
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.canonical import CanonicalEvent, is_message
from evalwright.trace.importers.operation import Operation, cached_tokens, provider_of
from evalwright.trace.importers.span_formats import LogRecord, Span
from evalwright.trace.importers.span_groups import SpanGroups, operations_of
from evalwright.trace.importers.span_timeline import Timeline, event_key
from evalwright.trace.importers.values import structure_from_text
from evalwright.trace.model import text_of

if TYPE_CHECKING:
    from evalwright.agents.protocol import Invocation

SPANS = "spans"  # how that was observed which spans tell
_FINAL_RESULT = "final_result"  # what pydantic-ai names such "tools", where nobody says otherwise
_CUT = (
    "what a span tells is cut off or damaged: raise OTEL_ATTRIBUTE_COUNT_LIMIT or "
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT of OpenTelemetry"
)


class SeenAt(NamedTuple):
    """When a call was seen in another way, in ms since the epoch, and within which span."""

    at: float
    span_id: str


def record_spans(
    invocation: "Invocation",
    found: Iterable[Span | LogRecord],
    lost: str | None = None,
    seen: Sequence[SeenAt] = (),
) -> None:
    """Record what the spans of an invocation tell, beside what was recorded of it.

    A tool of a library may call another by `task`, which was `seen`.
    """
    account = account_of(found, lost, seen, invocation.output)
    if account.lost is not None and invocation.is_observed("calls"):
        account = msgspec.structs.replace(account, lost=None)
    invocation.record_account(account)


def account_of(
    found: Iterable[Span | LogRecord],
    lost: str | None = None,
    seen: Sequence[SeenAt] = (),
    output: Any = None,
) -> Account:
    """What the spans of one invocation with this output tell; their order does not matter."""
    groups = SpanGroups(SPANS)
    for each in found:
        groups.add_found(each)
    spans = groups.joined()
    operations = operations_of(spans)
    for made in operations:
        if made.kind == "tool" and made.span.end is None:  # it goes on, and has no result
            made.result = None
    if any(map(_is_cut, operations)) or _has_lost_all([x for x in spans if x.dropped], operations):
        lost = lost or _CUT
    if not operations:
        return Account(SPANS, lost=lost)
    _nest_twins(operations)
    parents = {span.span_id: span.parent_id for span in spans}
    timeline = Timeline(operations, parents)
    requests = _Requests(operations, timeline)
    requests.let_one_layer_speak()
    dialogue = timeline.dialogue()
    response = dialogue.response(SPANS)
    # What stood in the first request already: it was said and done before, or is an example.
    first = next((each for each in operations if each.kind == "model" and each.history), None)
    given = Counter() if first is None else Counter(map(event_key, first.history))
    kept = []
    for event in response["events"]:
        key = event_key(event)
        if given[key] > 0:
            given[key] -= 1
        else:
            kept.append(event)
    events = kept
    response["events"] = _without_data(events, operations, output)
    deeds, unknown = deeds_in(decode_trace(response, SPANS))
    usages, has_all_usages = requests.usages()
    has_all_usages = has_all_usages and lost is None  # a span that is missing may have had some
    models = [each for each in operations if each.kind == "model"]
    speaks = any(each.output for each in models)
    silent = [each for each in requests.innermost() if not requests.answer_of(each)]
    if unknown is not None:
        lost = lost or f"{unknown!r} in a span is not understood"
    if lost is None and any(map(_asked_for_tools, silent)) and not _has_calls(deeds):
        lost = "a model asked for tools, and the spans do not hold which: record their content"
    return Account(
        SPANS,
        _as_told(deeds) if speaks or _has_calls(deeds) else None,
        usages,
        has_all_usages=has_all_usages,
        has_messages=speaks,
        has_all_calls=speaks and not silent,
        lost=lost,
        inside=_tools_around(operations, parents, seen) if seen else frozenset(),
        asked=next((next(iter(each.models), UNSPECIFIED) for each in models), None),
    )


def _is_cut(operation: Operation) -> bool:
    """Whether a limit may have cut off what a model answered.

    SDKs drop the oldest attributes first, so where something of the request is left, the answer is.
    """
    span = operation.span
    if operation.kind != "model":
        return False
    if span.dropped and not operation.history:
        return True
    said = (each["content"] for each in operation.output if is_message(each))
    broken = {each for each in said if isinstance(each, str) and _is_broken_json(each)}
    return bool(broken) and any(
        isinstance(value, str) and value in broken and not key.endswith("content")
        for key, value in span.attributes.items()
    )


def _has_lost_all(cut: Sequence[Span], operations: Sequence[Operation]) -> bool:
    """Whether one of the spans that a limit cut says nothing any more that we know."""
    known = {each.span.span_id for each in operations} if cut else set()
    return any(each.span_id not in known for each in cut)


def _is_broken_json(text: str) -> bool:
    return text[:1] in ("{", "[") and isinstance(structure_from_text(text), str)


def _tools_around(
    operations: Sequence[Operation], parents: dict[str, str | None], seen: Sequence[SeenAt]
) -> frozenset[str]:
    """The tools whose every run led to a call that was seen, by its span or else by its time."""
    runs = [each for each in operations if each.kind == "tool"]
    led: set[int] = set()
    for call in seen:
        around = [each for each in runs if _is_within(each.span.span_id, call.span_id, parents)]
        if not around:  # not all libraries make their spans known to the code within
            during = [each for each in runs if _went_on_during(each.span, call.at, call.at)]
            around = during if len(during) == 1 else []
        led |= {id(each) for each in around}
    return frozenset(_tool_of(each) for each in runs if id(each) in led) - {
        _tool_of(each) for each in runs if id(each) not in led
    }


def _tool_of(run: Operation) -> str:
    return str(run.call["tool"]) if run.call else ""


class _Requests:
    """The requests to models, each of which several layers of clients may tell of."""

    def __init__(self, operations: Sequence[Operation], timeline: Timeline) -> None:
        self._operations = operations
        self._timeline = timeline
        self._outermost: list[Operation] = []
        self._within: dict[str, list[Operation]] = defaultdict(list)  # by the id of the span around
        self._around: dict[int, Operation] = {}
        for each in operations:
            if each.kind != "model":
                continue
            around = (outer for outer in timeline.ancestors(each) if outer.kind == "model")
            outer = next(around, None)
            if outer is None:
                self._outermost.append(each)
            else:
                self._within[outer.span.span_id].append(each)
                self._around[id(each)] = outer

    def innermost(self) -> list[Operation]:
        models = (each for each in self._operations if each.kind == "model")
        return [each for each in models if each.span.span_id not in self._within]

    def answer_of(self, request: Operation) -> bool:
        layer: Operation | None = request
        while layer is not None:
            if layer.output or layer.span.failed:
                return True
            layer = self._around.get(id(layer))
        return False

    def let_one_layer_speak(self) -> None:
        for each in reversed(self._operations):  # what is within others, first
            inner = self._within.get(each.span.span_id, ()) if each.kind == "model" else ()
            if not inner or not each.output:
                continue
            calls = Counter(_call_key(event) for event in each.output if _is_call(event))
            theirs = [event for one in inner for event in one.output if _is_call(event)]
            if calls == Counter(map(_call_key, theirs)):
                for one in inner:
                    one.history, one.output = [], []

    def usages(self) -> tuple[list[ProviderUsage] | None, bool]:
        found: list[ProviderUsage] = []
        is_whole = bool(self._outermost)
        for each in self._outermost:
            usages, is_told = self._usages_of(each)
            found += usages
            is_whole = is_whole and is_told
        if not is_whole:  # an agent's span may have their sum
            agents = [each for each in self._operations if each.kind == "agent"]
            outer = [each for each in agents if not any(self._timeline.ancestors(each))]
            sums = [usage for each in outer if (usage := _usage(each)) is not None]
            if sums and len(sums) == len(outer):
                return sums, True
        return found or None, is_whole

    def _usages_of(self, request: Operation) -> tuple[list[ProviderUsage], bool]:
        """Those that the inner layers tell, else the one that this layer tells."""
        inner = [self._usages_of(each) for each in self._within.get(request.span.span_id, ())]
        usages = [usage for each, _ in inner for usage in each]
        if inner and all(is_told for _, is_told in inner) and usages:
            return usages, True
        own = _usage(request)
        if own is not None:
            return [own], True
        return usages, request.span.failed


def _usage(operation: Operation) -> ProviderUsage | None:
    span, told = operation.span, operation.usage
    sent, answered, cost = (told.get(key) for key in ("input_tokens", "output_tokens", "cost_usd"))
    if (sent is None and answered is None) or min(sent or 0, answered or 0) < 0:
        return None
    read, written = cached_tokens(span)
    return ProviderUsage(
        provider_of(span) or UNSPECIFIED,
        operation.models[0] if operation.models else UNSPECIFIED,
        sent or 0,
        answered or 0,
        cost_estimate_usd=cost if cost is not None and 0 <= cost < math.inf else None,
        cache_read_tokens=read or None,
        cache_write_tokens=written or None,
    )


def _nest_twins(operations: list[Operation]) -> None:
    """Put what two instrumentations tell of one request or call one into the other.

    They do so themselves where they share a context. Else they are known by this: one went on all
    the time that the other did, of the same tool with the same arguments, or the same tokens.
    """
    if len({each.span.scope for each in operations}) < 2:
        return
    alike: dict[tuple[str, ...], list[Operation]] = defaultdict(list)
    for each in operations:
        if each.kind == "tool" and each.call is not None:
            alike["tool", each.call["tool"], text_of(each.call["args"])].append(each)
        elif each.kind == "model" and each.usage:
            tokens = each.usage.get("input_tokens"), each.usage.get("output_tokens")
            alike["model", *map(str, tokens)].append(each)
    known = {each.span.span_id: each.span.parent_id for each in operations}
    for twins in alike.values():  # in the order of time, what lasted longer first
        taken: set[tuple[str, str]] = set()  # one of a scope has one twin in another
        for place, inner in enumerate(twins):
            for outer in twins[:place]:
                pair = outer.span.span_id, inner.span.scope
                if (
                    outer.span.scope != inner.span.scope
                    and pair not in taken
                    and _went_on_during(outer.span, inner.span.start, inner.span.end)
                    and not _is_within(outer.span.span_id, inner.span.parent_id, known)
                    and not _is_within(inner.span.span_id, outer.span.parent_id, known)
                ):
                    taken.add(pair)
                    known[inner.span.span_id] = outer.span.span_id
                    inner.span = msgspec.structs.replace(inner.span, parent_id=outer.span.span_id)
                    break


def _went_on_during(span: Span, start: float | None, end: float | None) -> bool:
    if span.start is None or span.end is None or start is None or end is None:
        return False
    return span.start <= start and end <= span.end


def _is_within(span_id: str, parent_id: str | None, parents: dict[str, str | None]) -> bool:
    seen = set()
    while parent_id and parent_id not in seen:
        if parent_id == span_id:
            return True
        seen.add(parent_id)
        parent_id = parents.get(parent_id)
    return False


def _without_data(
    events: list[CanonicalEvent], operations: Sequence[Operation], output: Any
) -> list[CanonicalEvent]:
    """All but a "call" by which a model gave the answer as data: nobody ran it.

    It is the last thing that was done, has no result, and its arguments are the answer.
    """
    answers = [each for each in [structure_from_text(output)] if isinstance(each, dict) and each]
    finals = answers + [x.answered for x in operations if isinstance(x.answered, dict)]
    if not finals:
        return events
    returned = {each["call_id"] for each in events if each["type"] == "tool_result"}
    kept, goes_on = [], False
    for event in reversed(events):
        if _is_call(event) and not goes_on and event["call_id"] not in returned:
            args, is_final = event["args"], text_of(event["tool"]).startswith(_FINAL_RESULT)
            if any(json_equal(args, each) for each in answers):
                continue
            if is_final and any(_contains(each, args) for each in finals):  # with defaults
                continue
        goes_on = goes_on or _is_call(event) or is_message(event, "assistant")
        kept.append(event)
    return kept[::-1]


def _contains(whole: dict[str, Any], part: Any) -> bool:
    return isinstance(part, dict) and all(
        key in whole and json_equal(whole[key], value) for key, value in part.items()
    )


def _asked_for_tools(request: Operation) -> bool:
    said = request.span.attributes
    reasons = (said.get("gen_ai.response.finish_reasons"), said.get("llm.finish_reason"))
    return any("tool" in text_of(each) or "function" in text_of(each) for each in reasons)


def _is_call(event: CanonicalEvent) -> bool:
    return bool(event["type"] == "tool_call")


def _call_key(event: CanonicalEvent) -> tuple[str, str]:
    return event["tool"], text_of(event["args"])


def _has_calls(deeds: Iterable[Deed]) -> bool:
    return any(isinstance(each, ToldCall) for each in deeds)


def _as_told(deeds: list[Deed]) -> list[Deed]:
    """The deeds; arguments and results that a span does not hold are not told."""
    return [
        msgspec.structs.replace(each, args=UNSET)
        if isinstance(each, ToldCall) and each.args is None
        else msgspec.structs.replace(each, result=UNSET)
        if isinstance(each, ToldReturn) and each.result is None
        else each
        for each in deeds
    ]
