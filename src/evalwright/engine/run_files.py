"""A run that is named by its files: what `run --out` left, its events, its page, or an export.

Such a run is added to the log once and is one of its runs from then on, so a machine without a log
of its own needs nothing else.
"""

import base64
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path

import msgspec

from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.events import Envelope, Event, RunStarted
from evalwright.contracts.times import microseconds
from evalwright.engine.suites.validation import LogChecker
from evalwright.store.location import existing_log, opened_log
from evalwright.store.protocol import EventLog, NewEvent

EVENTS_FILE = "events.jsonl"
_FIRST_LINE = 1_000_000  # bytes in which the first event of a run is sought
_PAGE = b'<html lang="en" data-evalwright="run">'  # the second line of the page of a run
_PAGE_EVENTS = b'<script type="application/vnd.evalwright.events+zlib" id="events">'
_MOST_EVENTS = 2**30  # bytes of events in a page
_PackedRun = tuple[str, list[tuple[str, str | None, int, msgspec.Raw]]]  # its id; type, task, time


def run_file(named: str) -> Path | None:
    """The file with the events of the run that a user named by a path; None for anything else."""
    path = Path(named)
    try:
        inside = path / EVENTS_FILE
        found = inside if path.is_dir() and inside.is_file() else path
        return found if found.is_file() and _begins_a_run(found) else None
    except (OSError, ValueError):
        return None


def log_for(db: str | None, *named: str | None) -> AbstractContextManager[EventLog]:
    """The log in which these runs are found; made anew only where one of them is a file."""
    has_file = any(name is not None and run_file(name) is not None for name in named)
    return opened_log(db) if has_file else existing_log(db)


def adopt_run(log: EventLog, path: Path) -> str:
    """Add the run of a file to a log, whole or not at all, unless it has it; gives its id."""
    data = read_input(path)
    lines = _events_of_page(data, path) if _PAGE in data[:100] else data.splitlines()
    return add_run(log, list(events_in(lines, os.fspath(path))), str(path))


def add_run(log: EventLog, events: Sequence[Event], name: str) -> str:
    """Add the events of a run to a log that does not have them yet; `name` is for messages."""
    run_id = events[0].run_id
    with log.claim(run_id):
        if not log.edges(run_id):
            new = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in events]
            log.append(run_id, new)
            log.flush(run_id).result()
        elif any(one != other for one, other in zip_longest(log.read(run_id), events)):
            raise BadInput(
                f"{name}: {log.place} has another run {run_id}; read the file into another log "
                "with --db"
            )
    return run_id


def _begins_a_run(path: Path) -> bool:
    with path.open("rb") as file:
        lines = file.readline(_FIRST_LINE), file.readline(_FIRST_LINE)
    # An exported run has a line before it.
    return lines[1].strip() == _PAGE or any(_is_first_event(line) for line in lines)


def _events_of_page(page: bytes, path: Path) -> list[bytes]:
    """The lines of the log in the page of a run, which has them where no secret is in them."""
    packed = page.partition(_PAGE_EVENTS)[2].partition(b"<")[0]
    if not packed:
        raise BadInput(
            f"{path}: secrets are masked in this page, so it does not hold the events of the run; "
            "name a folder of `run --out`, or write the page with --show-secrets"
        )
    try:
        unpacker = zlib.decompressobj()
        events = unpacker.decompress(base64.b64decode(packed, validate=True), _MOST_EVENTS)
        if not unpacker.eof:
            raise zlib.error("they have no end, or too many")
        run_id, rows = msgspec.json.decode(events, type=_PackedRun)
        return [
            Event(run_id, number, kind, task_id, at_us, bytes(body)).to_json()
            for number, (kind, task_id, at_us, body) in enumerate(rows)
        ]
    except (ValueError, OverflowError, zlib.error) as error:  # of base64, JSON, text and times
        raise BadInput(f"{path}: the events in this page are damaged: {error}") from None


def _is_first_event(line: bytes) -> bool:
    try:
        envelope = msgspec.json.decode(line, type=Envelope)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return envelope.type == RunStarted.TYPE and envelope.sequence == 0


def events_in(lines: Iterable[bytes], name: str) -> Iterator[Event]:
    """The events of one run from their lines; raises `InvalidDocument`."""
    checker = LogChecker()
    for number, line in enumerate(lines, 1):
        if not line.strip() or _frames_an_export(line):
            continue
        checker.take(line, f"line {number}")
        if checker.problems:
            break
        yield event_in(line)
    if problems := checker.finish():
        raise InvalidDocument(name, problems)


def _frames_an_export(line: bytes) -> bool:
    return line.startswith((b'{"format":"evalwright-run"', b'{"annotation":', b'{"sha256":'))


def event_in(line: bytes) -> Event:
    """The event of a line that has been checked."""
    each = msgspec.json.decode(line, type=Envelope)
    at_us = microseconds(each.timestamp)
    return Event(each.run_id, each.sequence, each.type, each.node_id, at_us, bytes(each.payload))
