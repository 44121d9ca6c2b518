"""What must survive the death of a process before the disk has it: notes beside the database.

A commit takes as long as the disk does, and what waits for it dies with the process. A note of it
is one write to a file, which the operating system keeps whatever becomes of the process; it is not
synchronised, so it does not outlast a power failure. The log stays the only record: whoever claims
the run next adds to it what is missing, and the notes of a run go when all of it is in the log.

Notes are an extra: a place that takes none never fails a run.
"""

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from evalwright.contracts.errors import StoreError
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.store.protocol import NewEvent

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

PART_BYTES = 1024 * 1024  # of a file, after which notes go on in the other

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

_logger = logging.getLogger(__name__)

FlushRun = Callable[[str], "Future[None]"]


class NotedEvent(NamedTuple):
    """An event of a run; a file may outlive the database in which the run had its number."""

    run_id: str
    type: str
    task_id: str | None
    at_us: int
    body: msgspec.Raw

    @property
    def event(self) -> NewEvent:
        return NewEvent(self.type, self.task_id, self.at_us, bytes(self.body))


class RunNotes:
    """The notes of one run that this process executes; any thread may add to them.

    They are in one of two files. When that one is full, the other one is begun, and the first goes
    as soon as the log has what is in it.
    """

    def __init__(self, first: Path, run_id: str, flush: FlushRun) -> None:
        self._parts = parts(first)
        self._run_id = run_id
        self._flush = flush
        self._change = threading.Lock()  # guards the next four
        self._file: int | None = None
        self._size = 0
        self._is_other_gone = True
        self._is_useless = False  # the place takes no notes

    def add(self, events: Sequence[NewEvent]) -> None:
        with self._change:
            if self._is_useless:
                return
            try:
                lines = b"".join(self._line(event) for event in events)
                if self._file is None:
                    self._file = os.open(self._parts[0], _FLAGS, 0o600)
                if os.write(self._file, lines) < len(lines):
                    raise OSError("the disk is full")
                self._size += len(lines)
                if self._size > PART_BYTES and self._is_other_gone:
                    self._is_other_gone = False
                    self._close()
                    self._flush(self._run_id).add_done_callback(self._drop_other)
            except (OSError, ValueError, StoreError) as error:
                self._is_useless = True
                _logger.warning("%s takes no notes: %s", self._parts[0].name, error)

    def _line(self, event: NewEvent) -> bytes:
        note = NotedEvent(
            self._run_id, event.type, event.task_id, event.at_us, msgspec.Raw(event.body)
        )
        return msgspec.json.encode(note) + b"\n"

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file, self._size = None, 0
            self._parts = self._parts[::-1]

    def _drop_other(self, flushed: "Future[None]") -> None:
        if flushed.exception() is None:
            remove(self._parts[1:])
            self._is_other_gone = True

    def end(self) -> None:
        """Remove the notes once the log has everything; if it never will, they stay."""
        with self._change:
            self._is_useless = True
            self._close()
        with suppress(StoreError):  # the log is closed
            self._flush(self._run_id).add_done_callback(self._drop)

    def _drop(self, flushed: "Future[None]") -> None:
        if flushed.exception() is None:
            remove(self._parts)


class Notebook:
    """The notes of the runs that this process executes."""

    def __init__(self) -> None:
        self._by_run: dict[str, RunNotes] = {}
        self._change = threading.Lock()

    def add(self, first: Path, run_id: str, events: Sequence[NewEvent], flush: FlushRun) -> None:
        notes = self._by_run.get(run_id)
        if notes is None:
            with self._change:
                notes = self._by_run.setdefault(run_id, RunNotes(first, run_id, flush))
        notes.add(events)

    def end(self, run_id: str) -> None:
        with self._change:
            notes = self._by_run.pop(run_id, None)
        if notes is not None:
            notes.end()


def parts(first: Path) -> list[Path]:
    """The two files of notes, from the first."""
    return [first, first.with_name(f"{first.name}.2")]


def remove(files: Sequence[Path]) -> None:
    """Remove notes; those that cannot be removed are found to be in the log later."""
    for file in files:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def recover(log: "EventLog", first: Path, run_id: str) -> None:
    """Add to the log what was noted of a run and is missing; whoever calls has claimed it.

    Raises `StoreUnavailable` if that cannot be written now.
    """
    log.request(run_id, ()).result()  # this process may have been the one that executed it
    notes = [each.event for part in parts(first) for each in _read(part) if each.run_id == run_id]
    edges = log.edges(run_id)
    if edges and edges[-1].type not in TERMINAL_TYPES:
        read = log.read(run_id, sorted({event.type for event in notes}))
        logged = Counter(NewEvent(each.type, each.task_id, each.at_us, each.body) for each in read)
        missing = sorted((Counter(notes) - logged).elements(), key=attrgetter("at_us"))
        log.request(run_id, missing).result()
    remove(parts(first))


def _read(part: Path) -> Iterator[NotedEvent]:
    try:
        lines = part.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield msgspec.json.decode(line, type=NotedEvent)
