"""The event log in one SQLite file: WAL, one writer thread, readers beside it."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from evalwright.contracts.errors import RunNotFound, StoreError
from evalwright.contracts.events import Event
from evalwright.store import claims, schema
from evalwright.store.failure import clear_errors
from evalwright.store.protocol import NewEvent, Watcher
from evalwright.store.writer import Writer

BUSY_SECONDS = 30

_SELECT = "SELECT seq, type, task_id, at_us, CAST(body AS BLOB) FROM events WHERE run = ?"

_RUN = "SELECT run FROM runs WHERE run_id = ?"


class SqliteLog:
    """An event log kept in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._place = str(path)
        # As SQLite sees it: claims made through a link, or after a change of folder, must meet.
        self._path = Path(os.path.realpath(path))
        self._writer: Writer | None = None
        self._closed = False
        self._change = threading.Lock()  # of the two above
        with clear_errors(self._place):
            _create_file(self._path)
            schema.inspect_file(self._path, self._place)
            self._reader = _connect(self._path)
            try:
                schema.migrate(self._reader, self._place)
                _use_wal(self._reader)
                self._reader.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
            except BaseException:
                self._reader.close()
                raise

    @property
    def place(self) -> str:
        """The file, as it was named."""
        return self._place

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return self._writer.backlog if self._writer else 0

    def append(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events, in order and as one unit."""
        (self._writer or self._start_writer()).append(run_id, events)

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable."""
        return (self._writer or self._start_writer()).flush(run_id)

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Tell the watcher of this run's events once they are durable."""
        (self._writer or self._start_writer()).watch(run_id, watcher)

    @contextmanager
    def claim(self, run_id: str) -> Iterator[None]:
        """Hold the sole right to execute a run."""
        with ExitStack() as held:
            with clear_errors(self._place):
                self._refuse_closed()
                run = self._enter_run(run_id)
                held.enter_context(claims.claim(self._lock_file, run, run_id))
            yield

    def is_claimed(self, run_id: str) -> bool:
        """Whether somebody, here or in another process, is executing the run."""
        with clear_errors(self._place):
            return claims.is_claimed(self._lock_file, self._run(run_id))

    def run_ids(self) -> list[str]:
        """All runs that have events, newest first."""
        with clear_errors(self._place):
            rows = self._reader.execute(
                "SELECT run_id FROM runs WHERE EXISTS"
                " (SELECT 1 FROM events WHERE events.run = runs.run AND seq = 0)"
                " ORDER BY run DESC"
            )
            return [run_id for (run_id,) in rows]

    def read(self, run_id: str, types: Sequence[str] = ()) -> Iterator[Event]:
        """The events of a run in order, all of them or those of some types."""
        wanted = f" AND type IN ({', '.join('?' * len(types))})" if types else ""
        with clear_errors(self._place):
            rows = self._reader.execute(
                f"{_SELECT}{wanted} ORDER BY seq", (self._run(run_id), *types)
            )
            for sequence, kind, task_id, at_us, body in rows:
                yield Event(run_id, sequence, kind, task_id, at_us, body)

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: enough to list it."""
        with clear_errors(self._place):
            run = self._run(run_id)
            rows = self._reader.execute(
                f"{_SELECT} AND seq < 2 UNION ALL SELECT * FROM"  # noqa: S608 - constants only
                f" ({_SELECT} AND seq >= 2 ORDER BY seq DESC LIMIT 2) ORDER BY seq",
                (run, run),
            ).fetchall()
        return [Event(run_id, *row) for row in rows]

    def close(self) -> None:
        """Write what is queued and let go of the file."""
        with self._change:
            self._closed = True
        if self._writer:
            self._writer.close()
        self._reader.close()

    def _start_writer(self) -> Writer:
        with self._change, clear_errors(self._place):
            self._refuse_closed()
            if self._writer is None:
                connection = _connect(self._path)
                connection.execute("PRAGMA synchronous = FULL")
                self._writer = Writer(connection, self._place)
            return self._writer

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"{self._place}: the event log is closed")

    @property
    def _lock_file(self) -> Path:
        return self._path.with_name(self._path.name + "-claims")

    def _enter_run(self, run_id: str) -> int:
        # Not through the reader: SQLite cannot write from the snapshot of an unfinished read.
        with closing(_connect(self._path)) as connection:
            connection.execute(schema.ENTER_RUN, {"run_id": run_id})
            return self._run(run_id, connection)

    def _run(self, run_id: str, connection: sqlite3.Connection | None = None) -> int:
        row = (connection or self._reader).execute(_RUN, (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(f"there is no run {run_id} in {self._place}; see `evalwright runs`")
        return int(row[0])


def _create_file(path: Path) -> None:
    """Make a missing file readable by its owner alone: logs hold what agents said."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite itself does not wait here for others who open the file as well."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)
