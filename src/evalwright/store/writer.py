"""The one thread that writes: it gathers what has come in and commits it as a group."""

import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from evalwright.contracts.errors import LogConflict, StoreError
from evalwright.store.protocol import NewEvent, Watcher

GATHER_SECONDS = 0.005  # how long an append may wait for company when nobody waits for it

_INSERT = "INSERT INTO events (run, seq, type, task_id, at_us, body) VALUES (?, ?, ?, ?, ?, ?)"


class _Append(NamedTuple):
    run_id: str
    events: Sequence[NewEvent]


class _Flush(NamedTuple):
    run_id: str
    done: "Future[None]"


class Writer:
    """Takes appends from any thread; its own thread assigns sequences and commits."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place
        self._incoming: deque[_Append | _Flush] = deque()
        self._arrived = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self._failure: StoreError | None = None
        self._broken_runs: dict[str, LogConflict] = {}
        self._next: dict[str, tuple[int, int]] = {}  # run_id -> (run, next sequence)
        self._watchers: dict[str, Watcher] = {}
        self._thread = threading.Thread(target=self._work, name="event-log-writer", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return len(self._incoming)

    def append(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events; raises when the log or this run can take no more."""
        self._raise_failure(run_id)
        self._incoming.append(_Append(run_id, events))
        if not self._arrived.is_set():
            self._arrived.set()

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable."""
        done: Future[None] = Future()
        self._incoming.append(_Flush(run_id, done))
        self._hurry.set()
        self._arrived.set()
        return done

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Tell the watcher of this run's events once they are durable."""
        self._watchers[run_id] = watcher

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closing = True
        self._hurry.set()
        self._arrived.set()
        self._thread.join()
        self._connection.close()

    def _raise_failure(self, run_id: str) -> None:
        failure = self._failure or self._broken_runs.get(run_id)
        if failure is not None:
            raise failure

    def _work(self) -> None:
        while True:
            self._arrived.wait()
            self._hurry.wait(GATHER_SECONDS)
            self._arrived.clear()
            self._hurry.clear()
            self._write_group()
            if self._closing and not self._incoming:
                return

    def _write_group(self) -> None:
        group = [self._incoming.popleft() for _ in range(len(self._incoming))]
        appends = [item for item in group if isinstance(item, _Append)]
        if appends and self._failure is None:
            self._commit(appends)
        for item in group:
            if isinstance(item, _Flush):
                self._answer(item)

    def _answer(self, flush: _Flush) -> None:
        failure = self._failure or self._broken_runs.get(flush.run_id)
        if failure is not None:
            flush.done.set_exception(failure)
        else:
            flush.done.set_result(None)

    def _commit(self, appends: list[_Append]) -> None:
        known = dict(self._next)
        try:
            self._transact(appends)
        except sqlite3.IntegrityError:
            self._next = known
            self._commit_one_by_one(appends)
        except sqlite3.Error as error:
            self._fail(error)
        else:
            self._tell_watchers(appends)

    def _commit_one_by_one(self, appends: list[_Append]) -> None:
        """Find the append that breaks its log; the others are innocent and are written."""
        for append in appends:
            if append.run_id in self._broken_runs:
                continue
            known = self._next.get(append.run_id)
            try:
                self._transact([append])
            except sqlite3.IntegrityError as error:
                self._forget(append.run_id, known)
                self._broken_runs[append.run_id] = LogConflict(
                    f"run {append.run_id} in {self._place} refused an event: {error}; "
                    "is another process executing the same run?"
                )
            except sqlite3.Error as error:
                self._fail(error)
                return
            else:
                self._tell_watchers([append])

    def _forget(self, run_id: str, known: tuple[int, int] | None) -> None:
        if known is None:
            self._next.pop(run_id, None)
        else:
            self._next[run_id] = known

    def _transact(self, appends: list[_Append]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            rows = [row for append in appends for row in self._rows(append)]
            self._connection.executemany(_INSERT, rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _rows(self, append: _Append) -> Iterator[tuple[int, int, str, str | None, int, str]]:
        run, sequence = self._next.get(append.run_id) or self._look_up(append.run_id)
        for event in append.events:
            yield run, sequence, event.type, event.task_id, event.at_us, event.body.decode()
            sequence += 1
        self._next[append.run_id] = (run, sequence)

    def _look_up(self, run_id: str) -> tuple[int, int]:
        self._connection.execute("INSERT OR IGNORE INTO runs (run_id) VALUES (?)", (run_id,))
        (run, following) = self._connection.execute(
            "SELECT run, (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE events.run = runs.run)"
            " FROM runs WHERE run_id = ?",
            (run_id,),
        ).fetchone()
        return run, following

    def _fail(self, error: sqlite3.Error) -> None:
        self._failure = StoreError(
            f"{self._place}: the event log cannot be written: {error}; "
            "free space or name another file with --db"
        )

    def _tell_watchers(self, appends: list[_Append]) -> None:
        for append in appends:
            watcher = self._watchers.get(append.run_id)
            if watcher is not None:
                watcher(append.events)
