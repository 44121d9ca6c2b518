"""One SQLite file as a process has it open: a connection that reads, a thread that writes."""

import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalwright.contracts.errors import StoreError
from evalwright.store import schema
from evalwright.store.failure import clear_errors, explain
from evalwright.store.records import Change, Record
from evalwright.store.writer import Writer

BUSY_SECONDS = 30

# What begins with the prefix lies between it and itself with a byte that no text has.
_LISTED = (
    "FROM records WHERE kind = ? AND tenant = ?"
    " AND key >= ? AND key < ? || CAST(x'FF' AS TEXT) ORDER BY key LIMIT ?"
)
_LIST = f"SELECT key, body, at_us {_LISTED}"
_LIST_KEYS = f"SELECT key {_LISTED}"


class Database:
    """The file of a log, shared by the views of all its tenants; also its documents."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        # As SQLite sees it: claims made through a link, or after a change of folder, must meet.
        self.path = Path(os.path.realpath(path))
        self._writer: Writer | None = None
        self._closed = False
        self.run_numbers: dict[tuple[str | None, str], int] = {}  # by tenant and run id
        self._change = threading.Lock()  # of the two above
        self._reading = threading.Lock()
        with clear_errors(self.place):
            _create_file(self.path)
            schema.inspect_file(self.path, self.place)
            self._reader = connect(self.path)
            try:
                schema.migrate(self._reader, self.place)
                _use_wal(self._reader)
                self._reader.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
            except BaseException:
                self._reader.close()
                raise

    @property
    def lock_file(self) -> Path:
        """The file that claims are made in."""
        return self.path.with_name(self.path.name + "-claims")

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return self._writer.backlog if self._writer else 0

    @property
    def writer(self) -> Writer:
        """The thread that writes; started when it is first needed."""
        return self._writer or self.start_writer()

    def start_writer(self) -> Writer:
        """Start the thread, unless another thread has done so."""
        with self._change, clear_errors(self.place):
            self.refuse_closed()
            if self._writer is None:
                connection = connect(self.path)
                connection.execute("PRAGMA synchronous = FULL")
                self._writer = Writer(connection, self.place)
            return self._writer

    def refuse_closed(self) -> None:
        """Raise where the file has been let go of."""
        if self._closed:
            raise StoreError(f"{self.place}: the event log is closed")

    def close(self) -> None:
        """Write what is queued and let go of the file."""
        with self._change:
            self._closed = True
        if self._writer:
            self._writer.close()
        with self._reading:
            self._reader.close()

    def query(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> "list[Any]":
        """All rows of a statement, as the file is now.

        Statements of one connection that overlap see the state in which the first of them began:
        so each is read to its end before another begins.
        """
        try:
            with self._reading:
                return self._reader.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:  # as `clear_errors` does, which takes longer
            raise explain(self.place, error) from error

    def get(self, kind: str, tenant: str, key: str) -> bytes | None:
        """One document of a tenant."""
        rows = self.query(
            "SELECT body FROM records WHERE kind = ? AND tenant = ? AND key = ?",
            (kind, tenant, key),
        )
        return bytes(rows[0][0]) if rows else None

    def list(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[Record]:
        """Documents of a tenant whose keys begin with a prefix and come after a key, by key."""
        rows = self.query(_LIST, (kind, tenant, _first(prefix, after), prefix, limit))
        return [Record(key, bytes(body), at_us) for key, body, at_us in rows]

    def keys(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[str]:
        """The keys of what `list` gives."""
        rows = self.query(_LIST_KEYS, (kind, tenant, _first(prefix, after), prefix, limit))
        return [key for (key,) in rows]

    def of_all_tenants(self, kind: str) -> Sequence[tuple[str, Record]]:
        """Every document of a kind, with its tenant."""
        rows = self.query(
            "SELECT tenant, key, body, at_us FROM records WHERE kind = ? ORDER BY tenant, key",
            (kind,),
        )
        return [(tenant, Record(key, bytes(body), at_us)) for tenant, key, body, at_us in rows]

    def write(self, changes: Sequence[Change]) -> "Future[None]":
        """Write documents as one unit."""
        return self.writer.change(changes)

    def forget(self, kind: str, before_us: int) -> "Future[None]":
        """Delete the documents of a kind that were last written before a time."""
        return self.writer.forget(kind, before_us)


def _first(prefix: str, after: str) -> str:
    """The least key of a list; the least that comes after a key is that key and a zero."""
    return max(prefix, f"{after}\0")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that any thread may use, and that waits while others write."""
    return sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _create_file(path: Path) -> None:
    """Make a missing file readable by its owner alone: logs hold what agents said."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600))


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
