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
    lines = source.split(b"\n")
    header = _header_of_whole(lines, source, name)
    problems, checker, events = list[Problem](), LogChecker(), list[Event]()
    first_annotation = 1 + header.events
    for number, line in enumerate(lines[1:first_annotation], 2):
        known = len(checker.problems)
        if known + len(problems) >= MOST_PROBLEMS:
            break
        checker.add(line, f"line {number}")
        if len(checker.problems) == known:
            events.append(event_in(line))
            reason = _bad_event(events[-1], line, header, is_last=number == first_annotation)
            if reason is not None:
                problems.append(Problem(f"line {number}", reason))
    problems += checker.finish()
    annotations: dict[str, bytes] = {}
    for number, line in enumerate(lines[first_annotation:-2], first_annotation + 1):
        try:
            body = bytes(msgspec.json.decode(line, type=_AnnotationLine).annotation)
            annotation = msgspec.json.decode(body, type=Annotation)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            problems.append(Problem(f"line {number}", f"not an annotation: {error}"))
            continue
        reason = _bad_annotation(annotation, body, header)
        if reason is None and annotation.annotation_id in annotations:
            reason = f"a second annotation {annotation.annotation_id!r}"
        if reason is not None:
            problems.append(Problem(f"line {number}", reason))
        annotations[annotation.annotation_id] = body
    transfer = Transfer(header, events, annotations)
    if problems := problems or _contradictions(transfer, name):
        raise InvalidDocument(name, problems[:MOST_PROBLEMS])
    return transfer


def _header_of_whole(lines: list[bytes], source: bytes, name: str) -> TransferHeader:
    """The header of a file that has as many lines as it says, and what its digest says."""
    try:
        header = msgspec.json.decode(lines[0], type=TransferHeader)
    except (msgspec.DecodeError, UnicodeError) as error:
        remedy = "give a file that `evalwright db export` wrote"
        raise _refused(name, 1, f"not the first line of an exported run: {error}", remedy) from None
    if header.version != FORMAT_VERSION:
        message = f"version {header.version} of the format; this Evalwright reads version 1"
        raise _refused(name, 1, message, "update Evalwright")
    expected = 1 + header.events + header.annotations + 1
    found = len(lines) - 1  # the last one ends with a newline
    if lines[-1] or found != expected:
        message = f"the file has {found} whole lines, but its first line announces {expected}"
        raise _refused(name, max(1, found), message, "export the run again")
    try:
        digest = msgspec.json.decode(lines[-2], type=LastLine).sha256
    except (msgspec.DecodeError, UnicodeError) as error:
        message = f"not the last line of an exported run: {error}"
        raise _refused(name, expected, message) from None
    body = memoryview(source)[: len(source) - len(lines[-2]) - 1]
    if hashlib.sha256(body).hexdigest() != digest:
        message = "the lines before it do not have this sha256: the file was changed"
        raise _refused(name, expected, message, "export the run again")
    return header


def _refused(name: str, line: int, message: str, remedy: str = "") -> InvalidDocument:
    return InvalidDocument(name, [Problem(f"line {line}", message, remedy)])


def _bad_event(event: Event, line: bytes, header: TransferHeader, *, is_last: bool) -> str | None:
    if event.run_id != header.run_id:
        return f"an event of run {event.run_id!r}, not of {header.run_id!r}"
    if (key := repeated_key(line)) is not None:
        return f"duplicate key {key!r}"
    if event.to_json() != line:
        return "the event is not written as `evalwright db export` writes it"
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
    event_id = annotation.target.event_id or f"{header.run_id}:0"
    sequence = event_id.rpartition(":")[2]
    number = int(sequence) if sequence.isdecimal() and len(sequence) <= 18 else -1
    if event_id != f"{header.run_id}:{number}" or number >= header.events:
        return f"an annotation of event {event_id!r}, which the run does not have"
    return None


def _contradictions(transfer: Transfer, name: str) -> list[Problem]:
    """What sound lines say that cannot be true together: another owner, another summary."""
    header, events = transfer.header, transfer.events
    owner = events[0].decode(RunStarted).owner
    if owner is not None:
        place = Principal("", owner.tenant, owner.workspace, frozenset(), "")
        tested = msgspec.structs.replace(place, is_test=True)
        if header.partition not in (place.partition, tested.partition):
            message = f"partition {header.partition!r} is not of the run's owner"
            return [Problem("line 1", message)]
    if events[-1].type == RunCompleted.TYPE and any(each.type == Planned.TYPE for each in events):
        try:
            rebuilt(history_of(header.run_id, events, name), name)
        except DamagedEventLog as error:
            message = str(error).removeprefix(f"{name}: ")
            return [Problem(f"line {header.events + 1}", message)]
    return []


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
            raise _refused(name, 1, f"the log has a run {run_id} of another tenant, {owner}")
    own.upkeep.restore(run_id)
    with _held(own, run_id):
        is_new, changes = not own.edges(run_id), list[RecordChange]()
        pairs = () if is_new else zip_longest(own.read(run_id), transfer.events)
        for number, (known_event, event) in enumerate(pairs, 2):
            if known_event != event:
                message = f"the log has another run {run_id}, which differs from here on"
                raise _refused(name, number, message, "import the file into another log")
        for number, (annotation_id, body) in enumerate(
            transfer.annotations.items(), header.events + 2
        ):
            place = ANNOTATION_KIND, header.partition, f"{run_id}/{annotation_id}"
            known = log.records.get(*place)
            if known is None:
                changes.append(RecordChange(*place, body, None))
            elif known != body:
                raise _refused(name, number, f"the log has another annotation {annotation_id}")
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
