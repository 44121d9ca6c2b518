"""Can the chain be proved? The issue codes of a trace, and the status that follows from them."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from evalwright.trace.cached import kept
from evalwright.trace.model import EvidenceTarget, Trace
from evalwright.trace.paired_calls import are_paired_by_id, pair_results

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
