"""Annotations: ratings, corrections, labels and flags on a run, stored beside its log."""

import asyncio
import secrets
from collections.abc import Sequence
from weakref import WeakValueDictionary

import msgspec

from evalwright.contracts.annotation import (
    ANNOTATION_KIND,
    MOST_PER_RUN,
    Actor,
    Annotation,
    AnnotationTarget,
    Signal,
)
from evalwright.contracts.errors import Problem
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.times import iso_time
from evalwright.engine.clock import Clock
from evalwright.host.async_store import read_soon
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.runs.handle import RunHandle
from evalwright.signals.masking.credentials import mask_strictly
from evalwright.store.records import RecordChange, Records


class AnnotationStore:
    """The annotations of all runs, looked up by the run and its partition."""

    def __init__(self, records: Records, clock: Clock, redactor: Redactor) -> None:
        self._records = records
        self._clock = clock
        self._redactor = redactor
        self._adding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by run

    def new(
        self, target: AnnotationTarget, signal: Signal, principal: str, note: str | None = None
    ) -> Annotation:
        """An annotation with its id, without the secrets in its texts; it is not stored yet."""
        at_us = self._clock.now_us()
        return Annotation(
            annotation_id=f"ann_{at_us:016x}{secrets.token_hex(8)}",  # later ones sort later
            target=target,
            signal=msgspec.structs.replace(
                signal, label=self._masked(signal.label), correction=self._masked(signal.correction)
            ),
            actor=Actor(principal),
            created_at=iso_time(at_us),
            note=self._masked(note),
        )

    async def add(
        self, run: RunHandle, said: Sequence[Annotation], changes: Sequence[RecordChange] = ()
    ) -> None:
        """Store annotations together with changes; raises `RunNotFound` and `ApiError`."""
        for each in said:
            await asyncio.to_thread(_check, run, each.target)
        prefix = f"{run.run_id}/"
        kept = [
            RecordChange(
                ANNOTATION_KIND,
                run.partition,
                f"{prefix}{each.annotation_id}",
                msgspec.json.encode(each),
                expected=None,
            )
            for each in said
        ]
        async with self._adding.setdefault(run.run_id, asyncio.Lock()):  # one gets the last place
            known = await read_soon(
                self._records,
                run.tenant,
                lambda: self._records.keys(
                    ANNOTATION_KIND, run.partition, prefix, limit=MOST_PER_RUN
                ),
            )
            if len(known) + len(said) > MOST_PER_RUN:
                message = f"the run already has {len(known)} annotations"
                message += f", and {MOST_PER_RUN} are the limit"
                raise ApiError(409, "conflict", message, {"limit": MOST_PER_RUN})
            await asyncio.wrap_future(self._records.write([*kept, *changes]))

    def of_run(self, run: RunHandle) -> list[msgspec.Raw]:
        """The annotations of a run as JSON, oldest first; raises `RunNotFound`."""
        run.edges()
        return [msgspec.Raw(body) for body in self._bodies(run.partition, run.run_id)]

    def read(self, partition: str, run_id: str) -> list[Annotation]:
        bodies = self._bodies(partition, run_id)
        return [msgspec.json.decode(body, type=Annotation) for body in bodies]

    def _bodies(self, partition: str, run_id: str) -> list[bytes]:
        found = self._records.list(ANNOTATION_KIND, partition, f"{run_id}/", limit=MOST_PER_RUN)
        return [record.body for record in found]

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else mask_strictly(self._redactor.redact_text(text))


def _check(run: RunHandle, target: AnnotationTarget) -> None:
    """Refuse a target that the run does not have."""
    run.edges()
    log, node_id = run.log, target.node_id
    if target.event_id is not None:
        run_id, _, sequence = target.event_id.rpartition(":")
        is_number = sequence.isascii() and sequence.isdigit() and len(sequence) <= 18
        if run_id == target.run_id and is_number:
            found = next(log.read(run_id, (), int(sequence) - 1, 1), None)
            if found is not None and f"{run_id}:{found.sequence}" == target.event_id:
                if node_id in (None, found.task_id):
                    return
                raise invalid([Problem("$.target.nodeId", "the event belongs to another node")])
        raise invalid([Problem("$.target.eventId", "the run has no such event")])
    if node_id is not None and all(event.task_id != node_id for event in log.read(target.run_id)):
        raise invalid([Problem("$.target.nodeId", "no event of the run belongs to this node")])
