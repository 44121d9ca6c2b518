"""One run as a file: its events and annotations as JSON lines, the same bytes in and out.

The first line says what the file is, the last one holds a digest of all lines before it.
"""

import hashlib
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, zip_longest
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from evalwright.contracts.annotation import ANNOTATION_KIND, MOST_PER_RUN, Annotation
from evalwright.contracts.errors import (
    BadInput,
    DamagedEventLog,
    InvalidDocument,
    Problem,
    RunBusy,
    RunNotFound,
)
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    EvalScored,
    Event,
    Planned,
    RunCompleted,
    RunStarted,
)
from evalwright.contracts.jsonvalue import repeated_key
from evalwright.contracts.run_plan import Owner
from evalwright.contracts.times import iso_time, microseconds
from evalwright.engine.history import history_of
from evalwright.engine.replay import rebuilt
from evalwright.engine.runs import event_in
from evalwright.engine.suites.validation import LogChecker
from evalwright.host.access.keys import NAME, Principal
from evalwright.store.outbox import undelivered
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

FORMAT_VERSION = 1
LAPSE_SECONDS = 15.0  # after which nobody holds a run any more whose process was killed
MOST_PROBLEMS = 20  # after which a file is not read any further

_ANNOTATION_ID = re.compile("[A-Za-z0-9_-]{1,64}")  # it becomes part of a key


class TransferHeader(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """The first line: which run follows, whose it is, and how many lines there are of each kind."""

    format: Literal["evalwright-run"] = "evalwright-run"
    version: Annotated[int, Meta(ge=1)] = FORMAT_VERSION
    run_id: Annotated[str, Meta(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z")]
    partition: Annotated[str, Meta(pattern=rf"^{NAME}(/{NAME})?(~test)?\Z")]
    events: Annotated[int, Meta(ge=1)]
    annotations: Annotated[int, Meta(ge=0, le=MOST_PER_RUN)] = 0


class _AnnotationLine(msgspec.Struct, forbid_unknown_fields=True):
    annotation: msgspec.Raw


class LastLine(msgspec.Struct, forbid_unknown_fields=True):
    """The digest of all lines before it."""

    sha256: str


class Transfer(NamedTuple):
    """A run on its way from one log to another."""

    header: TransferHeader
    events: list[Event]
    annotations: dict[str, bytes]  # by id


def transfer_lines(
    header: TransferHeader, events: Iterable[Event], annotations: Iterable[bytes]
) -> Iterator[bytes]:
    """The lines of the file of a run."""
    notes = (msgspec.json.encode(_AnnotationLine(msgspec.Raw(each))) for each in annotations)
    yield from sealed(
        line + b"\n"
        for line in chain([msgspec.json.encode(header)], (e.to_json() for e in events), notes)
    )


def sealed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, and a last one with the digest of all."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
        yield line
    yield msgspec.json.encode(LastLine(digest.hexdigest())) + b"\n"


def parse_transfer(source: bytes, name: str) -> Transfer:
    """The run in a file; raises `InvalidDocument` for anything that no export has written."""
    reader = _TransferReader(source.split(b"\n"))
    transfer = reader.read(source)
    if reader.problems or transfer is None:
        raise InvalidDocument(name, reader.problems[:MOST_PROBLEMS])
    problem = _contradiction(transfer, name)
    if problem is not None:
        raise InvalidDocument(name, [problem])
    return transfer


class _TransferReader:
    """Reads the lines of a file, and gathers what is wrong with them."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self.problems: list[Problem] = []

    def read(self, source: bytes) -> Transfer | None:
        """The run, unless there are problems."""
        header = self._header()
        if header is None or not self._is_whole(header, source):
            return None
        first_annotation = 1 + header.events
        events = self._events(header, range(1, first_annotation))
        last = first_annotation + header.annotations
        annotations: dict[str, bytes] = {}
        for index in range(first_annotation, last):
            try:
                body = bytes(
                    msgspec.json.decode(self._lines[index], type=_AnnotationLine).annotation
                )
                annotation = msgspec.json.decode(body, type=Annotation)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                self._add(index, f"not an annotation: {error}")
                continue
            reason = _bad_annotation(annotation, body, header)
            if reason is None and annotation.annotation_id in annotations:
                reason = f"a second annotation {annotation.annotation_id!r}"
            if reason is not None:
                self._add(index, reason)
            annotations[annotation.annotation_id] = body
        return Transfer(header, events, annotations)

    def _add(self, index: int, message: str, remedy: str = "") -> None:
        self.problems.append(Problem(f"line {index + 1}", message, remedy))

    def _header(self) -> TransferHeader | None:
        try:
            header = msgspec.json.decode(self._lines[0], type=TransferHeader)
        except (msgspec.DecodeError, UnicodeError) as error:
            remedy = "give a file that `evalwright db export` wrote"
            self._add(0, f"not the first line of an exported run: {error}", remedy)
            return None
        if header.version != FORMAT_VERSION:
            message = f"version {header.version} of the format; this Evalwright reads version 1"
            self._add(0, message, "update Evalwright")
            return None
        return header

    def _is_whole(self, header: TransferHeader, source: bytes) -> bool:
        """Whether the file has as many lines as it says, and the content that its digest says."""
        expected = 1 + header.events + header.annotations + 1
        found = len(self._lines) - 1  # the last one ends with a newline
        if self._lines[-1] or found != expected:
            message = f"the file has {found} whole lines, but its first line announces {expected}"
            self._add(max(0, found - 1), message, "export the run again")
            return False
        try:
            digest = msgspec.json.decode(self._lines[-2], type=LastLine).sha256
        except (msgspec.DecodeError, UnicodeError) as error:
            self._add(expected - 1, f"not the last line of an exported run: {error}")
            return False
        body = memoryview(source)[: len(source) - len(self._lines[-2]) - 1]
        if hashlib.sha256(body).hexdigest() != digest:
            message = "the lines before it do not have this sha256: the file was changed"
            self._add(expected - 1, message, "export the run again")
            return False
        return True

    def _events(self, header: TransferHeader, places: range) -> list[Event]:
        checker, events = LogChecker(), []
        for index in places:
            if len(checker.problems) + len(self.problems) >= MOST_PROBLEMS:
                break
            line = self._lines[index]
            before = len(checker.problems)
            checker.add(line, f"line {index + 1}")
            if len(checker.problems) == before:
                event = self._event(line, index, header)
                events += [] if event is None else [event]
        self.problems += checker.finish()
        return events

    def _event(self, line: bytes, index: int, header: TransferHeader) -> Event | None:
        event = event_in(line)
        if event.run_id != header.run_id:
            self._add(index, f"an event of run {event.run_id!r}, not of {header.run_id!r}")
            return None
        reason = _unlike_an_export(event, line) or _misplaced(event, index == header.events)
        if reason is not None:
            self._add(index, reason)
        return event


def _unlike_an_export(event: Event, line: bytes) -> str | None:
    if repeated_key(line) is not None:
        return f"duplicate key {repeated_key(line)!r}"
    if event.to_json() != line:
        return "the event is not written as `evalwright db export` writes it"
    return None


def _misplaced(event: Event, is_last: bool) -> str | None:  # noqa: FBT001
    if (event.sequence == 0) != (event.type == RunStarted.TYPE):
        return f"{event.type}: a run begins with one {RunStarted.TYPE}"
    if is_last and event.type not in TERMINAL_TYPES:
        return f"{event.type}: the last event must end the run"
    if event.type == EvalScored.TYPE and event.decode(EvalScored).task_id != event.task_id:
        return f"nodeId is {event.task_id!r}, but the score is of another task"
    return None


def _bad_annotation(annotation: Annotation, body: bytes, header: TransferHeader) -> str | None:
    if msgspec.json.encode(annotation) != body:
        return "the annotation is not written as `evalwright db export` writes it"
    if not _ANNOTATION_ID.fullmatch(annotation.annotation_id):
        return f"annotationId {annotation.annotation_id[:64]!r}: no annotation has such an id"
    if iso_time(microseconds(annotation.created_at)) != annotation.created_at:
        return f"createdAt {annotation.created_at[:64]!r}: not a time of an annotation"
    if annotation.signal.rating not in (None, 1, 2, 3, 4, 5):
        return f"rating {annotation.signal.rating}: a rating is 1 to 5"
    if annotation.target.run_id != header.run_id:
        return f"an annotation of run {annotation.target.run_id!r}, not of {header.run_id!r}"
    event_id = annotation.target.event_id
    if event_id is not None and not _is_event_of(event_id, header):
        return f"an annotation of event {event_id!r}, which the run does not have"
    return None


def _is_event_of(event_id: str, header: TransferHeader) -> bool:
    run_id, _, sequence = event_id.rpartition(":")
    is_number = sequence.isascii() and sequence.isdigit() and len(sequence) <= 18
    return (
        run_id == header.run_id
        and is_number
        and str(int(sequence)) == sequence
        and (int(sequence) < header.events)
    )


def _contradiction(transfer: Transfer, name: str) -> Problem | None:
    """What sound lines say that cannot be true together: another owner, another summary."""
    owner = transfer.events[0].decode(RunStarted).owner
    if owner is not None and transfer.header.partition not in _partitions(owner):
        message = f"partition {transfer.header.partition!r} is not of the run's owner"
        return Problem("line 1", message)
    is_evaluation = any(event.type == Planned.TYPE for event in transfer.events)
    if not is_evaluation or transfer.events[-1].type != RunCompleted.TYPE:
        return None
    try:
        rebuilt(history_of(transfer.header.run_id, transfer.events, name), name)
    except DamagedEventLog as error:
        return Problem(f"line {transfer.header.events + 1}", str(error).removeprefix(f"{name}: "))
    return None


def _partitions(owner: Owner) -> set[str]:
    """The partitions of the log that a run of this owner may be in."""
    both = (False, True)
    return {
        Principal("", owner.tenant, owner.workspace, frozenset(), "", is_test).partition
        for is_test in both
    }


def export_run(log: EventLog, run_id: str) -> Iterator[bytes]:
    """The lines of the file of a run that has ended; raises `BadInput` for any other."""
    last = log.edges(run_id)[-1]
    if last.type not in TERMINAL_TYPES:
        raise BadInput(
            f"run {run_id} has not ended, and only an ended run can be exported; "
            f"finish it with: evalwright run --resume {run_id}"
        )
    partition = log.facts(run_id).tenant
    found = log.records.list(ANNOTATION_KIND, partition, f"{run_id}/", limit=MOST_PER_RUN)
    header = TransferHeader(
        run_id=run_id,
        partition=partition,
        events=last.sequence + 1,
        annotations=len(found),
    )
    return transfer_lines(header, log.read(run_id), (record.body for record in found))


def import_run(log: EventLog, transfer: Transfer, name: str) -> dict[str, Any]:
    """Add a run to a log, whole or not at all; raises `BadInput` if another run has its id."""
    header = transfer.header
    run_id, own = header.run_id, log.for_tenant(header.partition)
    owners = [each.tenant for each in log.upkeep.tombstones(run_id) if each.run_id == run_id]
    with suppress(RunNotFound):
        owners.append(log.facts(run_id).tenant)
    for owner in owners:
        if owner != header.partition:
            message = f"the log has a run {run_id} of another tenant, {owner}"
            raise InvalidDocument(name, [Problem("line 1", message)])
    own.upkeep.restore(run_id)
    with _held(own, run_id):
        is_new = not own.edges(run_id)
        if not is_new:
            _refuse_another(own, transfer, name)
        missing = _missing_annotations(log, transfer, name)
        changes = [
            RecordChange(ANNOTATION_KIND, header.partition, key, body, None)
            for key, body in missing
        ]
        if is_new:
            events = [
                NewEvent(each.type, each.task_id, each.at_us, each.body) for each in transfer.events
            ]
            # Webhooks are for what happens from now on.
            quiet: Any = [*changes, undelivered(run_id, range(len(events)))]
            own.append(run_id, events, quiet)
            own.flush(run_id).result()
        elif changes:
            log.records.write(changes).result()
    return {"added": is_new, "annotationsAdded": len(changes)}


@contextmanager
def _held(log: EventLog, run_id: str) -> Iterator[None]:
    """Hold a run, unless it has ended: what an import held that was killed is free again soon."""
    deadline = time.monotonic() + LAPSE_SECONDS
    with ExitStack() as stack:
        while True:
            with suppress(RunNotFound):
                if log.facts(run_id).ended_us is not None:
                    break
            try:
                stack.enter_context(log.claim(run_id))
                break
            except RunBusy:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)
        yield


def _refuse_another(log: EventLog, transfer: Transfer, name: str) -> None:
    pairs = zip_longest(log.read(transfer.header.run_id), transfer.events)
    for index, (known, event) in enumerate(pairs):
        if known != event:
            message = (
                f"the log has another run {transfer.header.run_id}, which differs from here on"
            )
            remedy = "import the file into another log"
            raise InvalidDocument(name, [Problem(f"line {index + 2}", message, remedy)])


def _missing_annotations(
    log: EventLog, transfer: Transfer, name: str
) -> Iterator[tuple[str, bytes]]:
    header = transfer.header
    for index, (annotation_id, body) in enumerate(transfer.annotations.items()):
        key = f"{header.run_id}/{annotation_id}"
        known = log.records.get(ANNOTATION_KIND, header.partition, key)
        if known is None:
            yield key, body
        elif known != body:
            message = f"the log has another annotation {annotation_id}"
            raise InvalidDocument(name, [Problem(f"line {header.events + index + 2}", message)])
