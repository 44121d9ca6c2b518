"""The event log in one SQLite file: WAL, one writer thread, readers beside it."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path

from evalwright.contracts.errors import DamagedEventLog, RunNotFound, StoreError
from evalwright.contracts.events import Event
from evalwright.store import claims, schema
from evalwright.store.protocol import NewEvent, Watcher
from evalwright.store.writer import Writer

BUSY_SECONDS = 30

_SELECT = "SELECT seq, type, task_id, at_us, CAST(body AS BLOB) FROM events"


class SqliteLog:
    """An event log kept in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _clear_errors(path):
            _create_file(path)
            schema.inspect_file(path)
            self._reader = _connect(path)
            try:
                schema.migrate(self._reader, path)
                self._reader.execute("PRAGMA journal_mode = WAL")
                self._reader.execute("SELECT count(*) FROM runs").fetchone()
            except BaseException:
                self._reader.close()
                raise

    @property
    def place(self) -> str:
        """The file, as it was named."""
        return str(self._path)

    @cached_property
    def _writer(self) -> Writer:
        with _clear_errors(self._path):
            connection = _connect(self._path)
            connection.execute("PRAGMA synchronous = FULL")
        return Writer(connection, self.place)

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return self._writer.backlog

    def append(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events, in order and as one unit."""
        self._writer.append(run_id, events)

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable."""
        return self._writer.flush(run_id)

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Tell the watcher of this run's events once they are durable."""
        self._writer.watch(run_id, watcher)

    def claim(self, run_id: str) -> AbstractContextManager[None]:
        """Hold the sole right to execute a run."""
        return claims.claim(self._lock_file, self._run(run_id, create=True), run_id)

    def is_claimed(self, run_id: str) -> bool:
        """Whether another process is executing the run."""
        return claims.is_claimed(self._lock_file, self._run(run_id))

    def run_ids(self) -> list[str]:
        """All runs that have events, newest first."""
        with _clear_errors(self._path):
            rows = self._reader.execute(
                "SELECT run_id FROM runs WHERE EXISTS"
                " (SELECT 1 FROM events WHERE events.run = runs.run AND seq = 0)"
                " ORDER BY run DESC"
            )
            return [run_id for (run_id,) in rows]

    def read(self, run_id: str, types: Sequence[str] = ()) -> Iterator[Event]:
        """The events of a run in order, all of them or those of some types."""
        wanted = f" AND type IN ({', '.join('?' * len(types))})" if types else ""
        query = f"{_SELECT} WHERE run = ?{wanted} ORDER BY seq"
        with _clear_errors(self._path):
            rows = self._reader.execute(query, (self._run(run_id), *types))
            for sequence, kind, task_id, at_us, body in rows:
                yield Event(run_id, sequence, kind, task_id, at_us, body)

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: enough to list it."""
        run = self._run(run_id)
        with _clear_errors(self._path):
            rows = self._reader.execute(
                f"{_SELECT} WHERE run = :run"  # noqa: S608 - constants only
                " AND (seq < 2 OR seq > (SELECT max(seq) FROM events WHERE run = :run) - 2)"
                " ORDER BY seq",
                {"run": run},
            ).fetchall()
        return [Event(run_id, *row) for row in rows]

    def close(self) -> None:
        """Write what is queued and let go of the file."""
        if "_writer" in self.__dict__:
            self._writer.close()
        self._reader.close()

    @property
    def _lock_file(self) -> Path:
        return self._path.with_name(self._path.name + "-claims")

    def _run(self, run_id: str, *, create: bool = False) -> int:
        with _clear_errors(self._path):
            if create:
                self._reader.execute("INSERT OR IGNORE INTO runs (run_id) VALUES (?)", (run_id,))
            row = self._reader.execute(
                "SELECT run FROM runs WHERE run_id = ?", (run_id,)
            ).fetchone()
        if row is None:
            raise RunNotFound(f"there is no run {run_id} in {self._path}; see `evalwright runs`")
        return int(row[0])


def _create_file(path: Path) -> None:
    """Make a missing file readable by its owner alone: logs hold what agents said."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path}: the event log cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DamagedEventLog(
            f"{path}: the database is damaged ({error}); "
            "restore it from a copy, or name another file with --db"
        ) from error
    except OSError as error:
        raise StoreError(
            f"{path}: the event log cannot be opened: {error.strerror}; "
            "name a writable file with --db"
        ) from error
