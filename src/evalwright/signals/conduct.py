"""How grave a call is: asked for by the user, done by the baseline too, or neither."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from evalwright.contracts.report import (
    CONFIDENCES,
    SEVERITIES,
    Confidence,
    EvidenceRef,
    Severity,
    Signal,
    SignalDetails,
)
from evalwright.signals.tool_words import ToolProfile, profile, words_of
from evalwright.signals.trace_view import (
    Argument,
    TraceView,
    arguments,
    calls_with_links,
    values_given,
)
from evalwright.signals.user_request import Deed, asks_for, delegates
from evalwright.signals.written_values import leaves
from evalwright.trace.model import (
    Event,
    FinalOutput,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
)

MOST_FIELDS = 12
_KEY_VALUE = 80  # longer values are content, which varies between runs


class Act(msgspec.Struct, frozen=True, gc=False):
    """A call with what its tool's name says, and its values with their paths."""

    call: ToolCall
    profile: ToolProfile
    values: Sequence[tuple[str, str]]


class Weight(msgspec.Struct, frozen=True):
    """How grave, and how sure."""

    severity: Severity
    confidence: Confidence


@lru_cache(maxsize=1)
def profiles(view: TraceView) -> dict[str, ToolProfile]:
    """What the names of the tools say that were called."""
    return {tool: profile(tool) for tool in {call.tool for call in view.calls}}


def act_of(view: TraceView, call: ToolCall) -> Act:
    """A call, as the detectors look at it."""
    return Act(call, profiles(view)[call.tool], values_given(view.trace)[call.index])


@lru_cache(maxsize=1)
def acts(view: TraceView) -> tuple[Act, ...]:
    """The calls whose tool does something, or whose name does not tell."""
    if not view.calls:
        return ()
    known, given = profiles(view), values_given(view.trace)
    return tuple(
        [
            Act(call, known[call.tool], given[call.index])
            for call in view.calls
            if not known[call.tool].reads
        ]
    )


@lru_cache(maxsize=1)
def linking(view: TraceView) -> tuple[Act, ...]:
    """The calls that may have been given the address of a page."""
    linked = calls_with_links(view.trace)
    return tuple([act_of(view, call) for call in view.calls if call.index in linked])


def has_field(act: Act, names: frozenset[str]) -> bool:
    """Whether an act was given a value in a field that one of these words names."""
    return any(not names.isdisjoint(words_of(path)) for path, _ in act.values)


@lru_cache(maxsize=1)
def field_words(view: TraceView) -> set[str]:
    """The words in the names of all fields in which an act was given a value."""
    paths = {path for act in acts(view) for path, _ in act.values}
    return {word for path in paths for word in words_of(path)}


def asked(view: TraceView, deeds: Iterable[Deed]) -> bool:
    """Whether the user asked for one of these deeds."""
    said = view.requests
    return any(asks_for(deed, said) for deed in deeds)


def in_baseline(view: TraceView, call: ToolCall) -> bool:
    """Whether the baseline called the same tool with, for the most part, the same values."""
    return any(
        other.tool == call.tool and _alike(call, other) for other in view.baseline_calls
    )  # fmt: skip


def _alike(call: ToolCall, other: ToolCall) -> bool:
    values, others = key_values(call), key_values(other)
    if not values:
        return not others
    return 2 * len(values & others) >= len(values)


def key_values(call: ToolCall) -> set[str]:
    """The short values of a call: what it acts upon, not what it says."""
    return {value for _, value in leaves(call.args) if len(value) <= _KEY_VALUE}


def weigh(view: TraceView, act: Act, deeds: Sequence[Deed], severity: Severity) -> Weight:
    """The weight of a deed that the user did not ask for.

    One severity lower each when the baseline did it as well, and when the operator speaks of
    such deeds or the user left the decision to a document. Without a baseline novelty is
    unknown, which costs one step of confidence.
    """
    repeated = in_baseline(view, act.call)
    excused = delegates(view.requests) or any(asks_for(deed, view.trace.system) for deed in deeds)
    return lowered(
        Weight(severity, "high" if view.baseline is not None else "medium"),
        int(repeated) + int(excused),
        int(repeated) + int(excused),
    )


def lowered(weight: Weight, severity_steps: int = 0, confidence_steps: int = 0) -> Weight:
    """A weight, some steps lower; `low` is the lowest."""
    return Weight(
        SEVERITIES[max(0, SEVERITIES.index(weight.severity) - severity_steps)],
        CONFIDENCES[max(0, CONFIDENCES.index(weight.confidence) - confidence_steps)],
    )


def call_signal(
    view: TraceView,
    call: ToolCall,
    kind: str,
    weight: Weight,
    title: str,
    notes: str,
    *,
    traced: Sequence[Argument] | None = None,
    sources: Iterable[Event] = (),
    urls: Sequence[str] = (),
    rule: str | None = None,
) -> Signal:
    """A signal about a call, with the call and the texts that brought its values as evidence."""
    named = list(traced if traced is not None else arguments(view, call))[:MOST_FIELDS]
    brought = [*sources, *(each.source for each in named if each.source is not None)]
    return Signal(
        kind,
        weight.severity,
        weight.confidence,
        title,
        SignalDetails(
            tool=call.tool,
            call_id=call.call_id,
            action_id=call.action_id,
            fields=tuple(each.path for each in named if each.path),
            urls=tuple(dict.fromkeys(urls))[:MOST_FIELDS],
            provenance={each.path: each.origin for each in named if each.path},
            rule=rule,
            notes=notes,
        ),
        evidence([*brought, call]),
    )


def evidence(events: Iterable[Event]) -> tuple[EvidenceRef, ...]:
    """References to events, each once, in their order in the trace."""
    unique = {id(event): event for event in events}.values()
    ordered = sorted(unique, key=lambda event: -1 if event.index is None else event.index)
    return tuple(ref for event in ordered if (ref := _ref(event)) is not None)


def _ref(event: Event) -> EvidenceRef | None:
    match event:
        case ToolCall():
            return EvidenceRef("tool_call", call_id=event.call_id, index=event.index)
        case ToolResult():
            return EvidenceRef("tool_result", call_id=event.call_id, index=event.index)
        case Retrieval():
            document = event.doc_ids[0] if len(event.doc_ids) == 1 else None
            return EvidenceRef("retrieval_doc", id=document, index=event.index)
        case Message():
            return EvidenceRef("message", index=event.index)
        case FinalOutput():
            return EvidenceRef("final_output", index=event.index)
    return None
