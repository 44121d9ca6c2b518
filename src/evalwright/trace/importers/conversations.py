"""Which requests are one conversation, where each of them has a trace of its own or none."""

from collections import deque

from evalwright.trace.importers.canonical import CanonicalEvent
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.span_formats import SpanEvent, Stretches
from evalwright.trace.importers.span_timeline import event_key


def first_requests(bare: dict[str, list[Operation]]) -> dict[str, str]:
    """Of each trace the one in which its conversation began."""
    found: dict[str, str] = {}
    open_ends: dict[int, deque[str]] = {}
    called: dict[str | None, str] = {}
    has_nameless = False  # some record the ids of calls only where they are repeated
    for trace_id in sorted(bare, key=lambda each: began(bare[each])):
        told = [each for each in bare[trace_id] if each.history]
        answered = [each for each in bare[trace_id] if each.output]
        begun = _digests(told[0].history if told else [])
        begun += _digests(_nameless(told[0].history)) if told and has_nameless else []
        known = (open_ends.get(each) for each in reversed(begun))
        before = next((each for each in known if each), None)
        resumed = None
        if told and told[0].is_cut:  # the last call it repeats tells what it goes on with
            last = next(filter(None, map(_call_id, reversed(told[0].history))), "")
            resumed = called.get(last)
        found[trace_id] = before.popleft() if before else resumed or trace_id
        if answered:
            said = answered[-1].history + answered[-1].output
            called |= {_call_id(each): found[trace_id] for each in answered[-1].output}
            is_nameless = any(
                each["type"] == "tool_call" and not each["call_id"] for each in answered[-1].output
            )
            has_nameless = has_nameless or is_nameless
            digests = _digests(_nameless(said) if is_nameless else said)
            open_ends.setdefault(digests[-1], deque()).append(found[trace_id])
    return found


def retold(bare: dict[str, list[Operation]]) -> set[str]:
    """Requests without a message that failed while one with messages did: a layer of its client."""
    failed = [(key, each) for key, found in bare.items() for each in found if each.span.failed]
    told = Stretches(each.span for _, each in failed if each.history)
    silent = [(key, each.span) for key, each in failed if not each.history and not each.output]
    return {key for key, span in silent if told.hold(span)}


def _nameless(events: list[CanonicalEvent]) -> list[CanonicalEvent]:
    return [{**each, "call_id": None} if each["type"] == "tool_call" else each for each in events]


def _call_id(event: CanonicalEvent) -> str | None:
    return event.get("call_id")


def began(operations: list[Operation] | None) -> float:
    """When the first of some operations began."""
    return (operations[0].span.start or 0.0) if operations else 0.0


def _digests(events: list[CanonicalEvent]) -> list[int]:
    """A number for each beginning of a conversation; what a request may leave out is left out."""
    found = [0]
    for event in events:
        if "reasoning" not in event and event.get("content") != "":
            found.append(hash((found[-1], event_key(event))))
    return found[1:] or [0]


def requests(events: list[SpanEvent]) -> list[list[SpanEvent]]:
    """Events that name no span, request by request: each ends with the answer to it."""
    found: list[list[SpanEvent]] = []
    has_ended = True
    for event in events:
        is_answer = event.name == "gen_ai.choice"
        if has_ended and not is_answer:
            found.append([])
        has_ended = is_answer
        found = found or [[]]
        found[-1].append(event)
    return found
