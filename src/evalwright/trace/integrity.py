"""Can the chain be proved? The issue codes of a trace, and the status that follows from them."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from evalwright.trace.cached import kept
from evalwright.trace.model import (
    Event,
    EvidenceTarget,
    FinalOutput,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
)
from evalwright.trace.paired_calls import are_paired_by_id, pair_results

NOTHING = "holds no trace that is understood"
_TO_THE_AGENT = frozenset({"user", "system", "developer"})
_MOST_KINDS = 5
_MOST_PLACES = 3
_LONGEST = 40


def why_nothing(trace: Trace) -> str | None:
    """Why a trace tells nothing that an agent did; None if it tells something."""
    told = trace.failure is not None or trace.output is not None or bool(trace.actions)
    if told or any(_is_of_an_agent(event) for event in trace.events):
        return None
    if trace.unknown:
        return f"{_passed_over(trace.unknown, trace.events)}, and nothing else is in it"
    if trace.events_not_array:
        return "its events are not a list"
    if trace.prompt or trace.messages:
        return "it has what an agent was told, and nothing that one did or said"
    return "it has nothing that an agent did or said"


def passed_over(trace: Trace) -> str | None:
    """How many events of a trace are not understood, of which types and where; None if all are."""
    return _passed_over(trace.unknown, trace.events) if trace.unknown else None


def _is_of_an_agent(event: Event) -> bool:
    match event:
        case ToolCall():
            return bool(event.tool or event.args)
        case ToolResult():
            return bool(event.call_id or event.status) or event.payload is not None
        case Retrieval():
            return bool(event.query or event.doc_ids or event.content)
        case Message():
            return event.role not in _TO_THE_AGENT and event.content is not None
        case FinalOutput():
            return event.content is not None
    return False


def _passed_over(unknown: Sequence[Unknown], events: Sequence[Event]) -> str:
    places: dict[str, list[str]] = {}
    for event in unknown:
        places.setdefault(event.type, []).append(f"events[{event.index}]")
    kinds = []
    for kind, found in list(places.items())[: _MOST_KINDS + 1]:
        cut = "…" if len(kind) > _LONGEST else ""
        quoted = f"type {kind[:_LONGEST]!r}{cut}" if kind else "without a type"
        kinds.append(f"{quoted} at {_some(found, _MOST_PLACES)}")
    verb = "is" if len(unknown) == 1 else "are"
    return (
        f"{len(unknown):,} of {len(events):,} events {verb} not understood: "
        f"{_some(kinds, _MOST_KINDS)}"
    )


def _some(texts: list[str], most: int) -> str:
    return ", ".join(texts[:most]) + (", …" if len(texts) > most else "")


Status: TypeAlias = Literal["ok", "partial", "broken"]

ISSUES = (
    "events_not_array",
    "no_events",
    "missing_timestamps",
    "non_monotonic_timestamps",
    "missing_call_id",
    "duplicate_call_id",
    "tool_result_without_call",
    "tool_call_without_result",
    "retrieval_required_missing",
    "evidence_ref_missing_target",
    "unknown_event_type",
)


class TraceIntegrity(msgspec.Struct, frozen=True):
    """The status, and every issue once, in the order of `ISSUES`."""

    status: Status
    issues: tuple[str, ...] = ()


_SOUND = TraceIntegrity("ok")


def check_integrity(trace: Trace, required_docs: Iterable[str] = ()) -> TraceIntegrity:
    """What cannot be proved of a trace, given the documents that its case requires."""
    found = _event_issues(trace)
    if (trace.calls or trace.results) and not are_paired_by_id(trace):
        for events in (trace.calls, trace.results):
            ids = [event.call_id for event in events if event.call_id is not None]
            if len(ids) < len(events):
                found.add("missing_call_id")
            if len(set(ids)) < len(ids):
                found.add("duplicate_call_id")
        paired = len(pair_results(trace))
        if len(trace.results) > paired:
            found.add("tool_result_without_call")
        if len(trace.calls) > paired:
            found.add("tool_call_without_result")
    if set(required_docs) and not trace.retrievals:
        found.add("retrieval_required_missing")
    named = [ref for action in trace.actions for ref in action.evidence]
    if named and not evidence_targets(trace).issuperset(named):
        found.add("evidence_ref_missing_target")
    if not found:
        return _SOUND
    unexplained = "no_events" in found and trace.failure is None
    is_broken = unexplained or found & {"events_not_array", "tool_result_without_call"}
    issues = tuple(code for code in ISSUES if code in found)
    return TraceIntegrity("broken" if is_broken else "partial", issues)


def retrieved_docs(trace: Trace) -> set[str]:
    """The ids of all documents that the trace retrieved."""
    return {doc for event in trace.retrievals for doc in event.doc_ids}


@kept
def evidence_targets(trace: Trace) -> frozenset[EvidenceTarget]:
    """Everything in a trace that a reference to evidence can point at."""
    results = {
        EvidenceTarget("tool_result", event.call_id)
        for event in trace.results
        if event.call_id is not None
    }
    documents = {EvidenceTarget("retrieval_doc", doc) for doc in retrieved_docs(trace)}
    return frozenset(results | documents)


def _event_issues(trace: Trace) -> set[str]:
    if trace.events_not_array:
        return {"events_not_array"}
    if not trace.events:
        return {"no_events"}
    issues = {"unknown_event_type"} if trace.unknown else set()
    times = [time for time in trace.times if time is not None]
    if len(times) < len(trace.events):
        issues.add("missing_timestamps")
    if times != sorted(times):
        issues.add("non_monotonic_timestamps")
    return issues
