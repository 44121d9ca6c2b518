"""What of a trace is understood: what is not was not looked at, so it is never clean."""

from collections.abc import Sequence

from evalwright.trace.model import (
    Event,
    FinalOutput,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
)

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
