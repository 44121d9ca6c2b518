"""Annotations: what people say of a run. They lie beside its log, which stays as it is."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Literal
from weakref import WeakValueDictionary

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.events import iso_time
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.host.errors import ApiError, invalid
from evalwright.host.status import edges_of
from evalwright.signals.masking.credentials import mask_strictly
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordChange, Records

KIND = "annotation"
MOST_PER_RUN = 500


class AnnotationPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of the parts of an annotation."""


class AnnotationTarget(AnnotationPart, frozen=True):
    """What is annotated: a run, or an event or a node of it."""

    run_id: str
    event_id: str | None = None
    node_id: str | None = None


class Signal(AnnotationPart, frozen=True):
    """What is said: a rating, a correction, a label, or only that somebody should look."""

    kind: Literal["rating", "correction", "label", "flag"]
    rating: int | None = None
    label: str | None = None
    correction: str | None = None


class Actor(AnnotationPart, frozen=True):
    """Who says it, by an id that tells no more."""

    principal_ref: str


class Annotation(AnnotationPart, frozen=True):
    """An annotation as it is kept.

    A correction of an `eval.scored` event overrules that score for those who read it; the score
    itself, and the summary, are recorded facts and stay.
    """

    annotation_id: str
    target: AnnotationTarget
    signal: Signal
    actor: Actor
    created_at: str
    note: str | None = None


class Said(msgspec.Struct, frozen=True):
    """What a caller wants to have kept."""

    target: AnnotationTarget
    signal: Signal
    principal: str
    note: str | None = None


Changes = Callable[[Annotation], Sequence[RecordChange]]  # that go with an annotation


class AnnotationStore:
    """The annotations of all runs; those of a run are found only with whose it is."""

    def __init__(self, records: Records, clock: Clock, redactor: Redactor) -> None:
        self._records = records
        self._clock = clock
        self._redactor = redactor
        self._adding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by run

    async def add(
        self, log: EventLog, partition: str, said: Said, changes: Changes = lambda _: ()
    ) -> Annotation:
        """Keep an annotation, without the secrets it holds; raises `RunNotFound`, `ApiError`."""
        await asyncio.to_thread(_check, log, said.target)
        run_id = said.target.run_id
        async with self._adding.setdefault(run_id, asyncio.Lock()):  # the last place is given once
            self._refuse_more(partition, run_id)
            annotation = self._annotation(said)
            key = f"{run_id}/{annotation.annotation_id}"
            change = RecordChange(KIND, partition, key, msgspec.json.encode(annotation), None)
            await asyncio.wrap_future(self._records.write([change, *changes(annotation)]))
        return annotation

    def of_run(self, log: EventLog, partition: str, run_id: str) -> list[msgspec.Raw]:
        """The annotations of a run as JSON, oldest first; raises `RunNotFound`."""
        edges_of(log, run_id)
        found = self._records.list(KIND, partition, f"{run_id}/", limit=MOST_PER_RUN)
        return [msgspec.Raw(record.body) for record in found]

    def _refuse_more(self, partition: str, run_id: str) -> None:
        kept = self._records.keys(KIND, partition, f"{run_id}/", limit=MOST_PER_RUN)
        if len(kept) >= MOST_PER_RUN:
            message = f"the run has {MOST_PER_RUN} annotations, and can have no more"
            raise ApiError(409, "conflict", message, {"limit": MOST_PER_RUN})

    def _annotation(self, said: Said) -> Annotation:
        at_us = self._clock.now_us()
        return Annotation(
            annotation_id=f"ann_{at_us:016x}{secrets.token_hex(8)}",  # later ones sort later
            target=said.target,
            signal=self._masked_signal(said.signal),
            actor=Actor(said.principal),
            created_at=iso_time(at_us),
            note=self._masked(said.note),
        )

    def _masked_signal(self, signal: Signal) -> Signal:
        return msgspec.structs.replace(
            signal, label=self._masked(signal.label), correction=self._masked(signal.correction)
        )

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else mask_strictly(self._redactor.redact_text(text))


def _check(log: EventLog, target: AnnotationTarget) -> None:
    edges_of(log, target.run_id)
    _check_event(log, target)
    _check_node(log, target)


def _check_event(log: EventLog, target: AnnotationTarget) -> None:
    if target.event_id is None:
        return
    run_id, _, sequence = target.event_id.rpartition(":")
    is_number = sequence.isascii() and sequence.isdigit() and len(sequence) <= 18
    if run_id == target.run_id and is_number:
        found = next(log.read(run_id, (), int(sequence) - 1, 1), None)
        if found is not None and f"{run_id}:{found.sequence}" == target.event_id:
            if target.node_id in (None, found.task_id):
                return
            raise invalid([Problem("$.target.nodeId", "the event belongs to another node")])
    raise invalid([Problem("$.target.eventId", "the run has no such event")])


def _check_node(log: EventLog, target: AnnotationTarget) -> None:
    if target.node_id is None or target.event_id is not None:
        return
    if not any(event.task_id == target.node_id for event in log.read(target.run_id)):
        raise invalid([Problem("$.target.nodeId", "no event of the run belongs to such a node")])
