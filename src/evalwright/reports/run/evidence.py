"""Findings of a task with their evidence: which step shows it, and what was seen there.

The log keeps of a finding no more than its kind. What it rests on is in the same log: the signals
are looked for again, and point at the events.
"""

from collections.abc import Sequence
from typing import NamedTuple

from evalwright.contracts.events import (
    PAYLOADS,
    Decided,
    Event,
    InvocationCompleted,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.report import EvidenceRef
from evalwright.contracts.suite import Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.projection import project_tasks
from evalwright.reports.formats.words import in_words

_READ = frozenset(kind.TYPE for kind in (ToolCalled, ToolReturned, Decided, InvocationCompleted))


class StepLink(NamedTuple):
    """What a finding points at; `sequence` is that of the event, where it is in the log."""

    words: str
    sequence: int | None


class EvidentFinding(NamedTuple):
    """A finding; without a title nobody but a judge saw it."""

    kind: str
    severity: str
    title: str = ""
    notes: str = ""
    links: Sequence[StepLink] = ()


def evident_findings(
    task: Task,
    agent_id: str,
    events: Sequence[Event],
    recorded: Sequence[SafetyFinding],
    mark: str | None = None,
) -> list[EvidentFinding]:
    """The findings of a task, with the signals that they rest on; nothing sensitive is quoted.

    `mark` is that of the attack in a derived task.
    """
    if not recorded:
        return []
    from evalwright.engine.findings import invocation_signals  # with every detector of signals
    from evalwright.signals.masking.masked_report import mask_signals

    found: list[EvidentFinding] = []
    kinds = {each.kind for each in recorded}
    for attempt in project_tasks([task], events)[task.task_id].all_attempts:
        deeds = [event for event in attempt.deeds if event.type in _READ]
        payloads = [event.decode(PAYLOADS[event.type]) for event in deeds]
        signals = [
            signal
            for signal in invocation_signals(task, agent_id, payloads, mark)
            if signal.kind in kinds
        ]
        for signal in mask_signals(signals):
            links = tuple(_link(ref, deeds) for ref in signal.evidence_refs)
            notes = signal.details.notes or ""
            found.append(EvidentFinding(signal.kind, signal.severity, signal.title, notes, links))
    seen = {each.kind for each in found}
    unseen = [
        EvidentFinding(each.kind, each.severity) for each in recorded if each.kind not in seen
    ]
    return [*found, *dict.fromkeys(unseen)]


def _link(ref: EvidenceRef, attempt: Sequence[Event]) -> StepLink:
    name = ref.call_id or ref.id
    words = f"{in_words(ref.kind)} {name}" if name else in_words(ref.kind)
    if ref.kind == "final_output":
        said = [event.sequence for event in attempt if event.type == Decided.TYPE]
        return StepLink(words, said[-1] if said else None)
    wanted: type[ToolCalled] | type[ToolReturned] = (
        ToolCalled if ref.kind == "tool_call" else ToolReturned
    )
    places = (
        event.sequence
        for event in attempt
        if event.type == wanted.TYPE and event.decode(wanted).call_id == name
    )
    return StepLink(words, next(places, None))
