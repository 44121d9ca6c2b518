"""The one thread that writes: it gathers what has come in and commits it as a group."""

import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple, NoReturn

from evalwright.contracts.errors import LogConflict, StoreError
from evalwright.store.failure import blames_the_place, explain
from evalwright.store.protocol import NewEvent, Watcher
from evalwright.store.schema import ENTER_RUN

GATHER_SECONDS = 0.005  # how long an append may wait for company when nobody waits for it

_INSERT = "INSERT INTO events (run, seq, type, task_id, at_us, body) VALUES (?, ?, ?, ?, ?, ?)"

_Append = tuple[str, Sequence[NewEvent]]  # a run id and its events
_Row = tuple[int, int, str, str | None, int, str]
_Position = tuple[int, int]  # a run's number and its next sequence

_logger = logging.getLogger(__name__)


class _Flush(NamedTuple):
    run_id: str
    done: "Future[None]"


class Writer:
    """Takes appends from any thread; its own thread assigns sequences and commits.

    Whoever queues something sets `_arrived` afterwards, and the thread clears `_arrived` before it
    takes the queue: so nothing lies there unnoticed.
    """

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place
        self._queue = threading.Lock()  # guards the next three
        self._appends: list[_Append] = []
        self._flushes: list[_Flush] = []
        self._closed = False
        self._arrived = threading.Event()
        self._hurry = threading.Event()
        self._broken: dict[str, StoreError] = {}  # runs of which events could not be written
        self._positions: dict[str, _Position] = {}
        self._watchers: dict[str, Watcher] = {}
        self._thread = threading.Thread(target=self._work, name="event-log-writer", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return len(self._appends)

    def append(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events; raises when the log or this run can take no more."""
        with self._queue:
            if self._closed or run_id in self._broken:
                self._refuse(run_id)
            self._appends.append((run_id, events))
        if not self._arrived.is_set():
            self._arrived.set()

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable."""
        flush = _Flush(run_id, Future())
        with self._queue:
            if self._closed:
                self._refuse(run_id)
            self._flushes.append(flush)
        self._hurry.set()
        self._arrived.set()
        return flush.done

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Tell the watcher of this run's events once they are durable."""
        if self._closed:
            self._refuse(run_id)
        self._watchers[run_id] = watcher

    def close(self) -> None:
        """Write what is queued and end the thread."""
        with self._queue:
            self._closed = True
        self._hurry.set()
        self._arrived.set()
        self._thread.join()
        self._connection.close()

    def _refuse(self, run_id: str) -> NoReturn:
        if self._closed:
            raise StoreError(f"{self._place}: the event log is closed")
        raise self._broken[run_id].with_traceback(None)

    def _work(self) -> None:
        closed = False
        while not closed:
            self._arrived.wait()
            self._hurry.wait(GATHER_SECONDS)
            self._arrived.clear()
            self._hurry.clear()
            with self._queue:
                appends, self._appends = self._appends, []
                flushes, self._flushes = self._flushes, []
                closed = self._closed
            self._commit(appends)
            for flush in flushes:
                self._answer(flush)

    def _answer(self, flush: _Flush) -> None:
        if not flush.done.set_running_or_notify_cancel():
            return
        if flush.run_id in self._broken:
            flush.done.set_exception(self._broken[flush.run_id])
        else:
            flush.done.set_result(None)

    def _commit(self, appends: list[_Append]) -> None:
        """Write appends together; one that would break its log breaks its own run only."""
        if self._broken:
            appends = [append for append in appends if append[0] not in self._broken]
        if not appends:
            return
        try:
            self._transact(appends)
        except Exception as error:  # noqa: BLE001 - the thread outlives whatever it is given
            if len(appends) > 1 and not blames_the_place(error):
                for append in appends:
                    self._commit([append])
            else:
                self._break(appends, error)
        else:
            self._tell_watchers(appends)

    def _transact(self, appends: list[_Append]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            positions: dict[str, _Position] = {}
            rows = list(self._rows(appends, positions))
            self._connection.executemany(_INSERT, rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._positions.update(positions)

    def _rows(self, appends: list[_Append], positions: dict[str, _Position]) -> Iterator[_Row]:
        """The rows of appends; leaves in `positions` where their runs stand afterwards."""
        for run_id, events in appends:
            run, sequence = (
                positions.get(run_id) or self._positions.get(run_id) or self._look_up(run_id)
            )
            for kind, task_id, at_us, body in events:
                yield run, sequence, kind, task_id, at_us, body.decode()
                sequence += 1
            positions[run_id] = (run, sequence)

    def _look_up(self, run_id: str) -> _Position:
        self._connection.execute(ENTER_RUN, {"run_id": run_id})
        (run, following) = self._connection.execute(
            "SELECT run, (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE events.run = runs.run)"
            " FROM runs WHERE run_id = ?",
            (run_id,),
        ).fetchone()
        return run, following

    def _break(self, appends: list[_Append], error: Exception) -> None:
        """Let runs that lost events take no more: what follows would hide the loss."""
        for run_id, _ in appends:
            self._broken[run_id] = (
                explain(self._place, error)
                if blames_the_place(error)
                else LogConflict(f"run {run_id} in {self._place} refused an event: {_why(error)}")
            )

    def _tell_watchers(self, appends: list[_Append]) -> None:
        for run_id, events in appends:
            watcher = self._watchers.get(run_id)
            if watcher is None:
                continue
            try:
                watcher(events)
            except Exception:
                _logger.exception("a watcher of run %s failed and is let go", run_id)
                self._watchers.pop(run_id, None)


def _why(error: Exception) -> str:
    broke_a_rule = isinstance(error, sqlite3.IntegrityError)
    return f"{error}; is another process executing the same run?" if broke_a_rule else repr(error)
