"""The SQLite schema of the event log, its migrations, and the look at a file before opening it."""

import sqlite3
import struct
from pathlib import Path

from evalwright.contracts.errors import DamagedEventLog, NotAnEventLog
from evalwright.contracts.events import TERMINAL_TYPES

APPLICATION_ID = 0x4556574C  # "EVWL"

# Comparisons joined by OR: `type IN (…)` costs twice as much on every insert.
_IS_END = " OR ".join(f"type = '{name}'" for name in TERMINAL_TYPES)

_FIRST_VERSION = f"""
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE
);
CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (run),
    seq INTEGER NOT NULL CHECK (typeof(seq) = 'integer' AND seq >= 0),
    type TEXT NOT NULL,
    task_id TEXT,
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_score_per_task ON events (run, task_id) WHERE type = 'eval.scored';
CREATE UNIQUE INDEX one_end_per_run ON events (run) WHERE {_IS_END};
CREATE TRIGGER no_gap_and_nothing_after_the_end BEFORE INSERT ON events
WHEN NEW.seq > 0 AND (
    SELECT {_IS_END} FROM events WHERE run = NEW.run AND seq = NEW.seq - 1
) IS NOT 0
BEGIN SELECT RAISE(ABORT, 'an event must directly follow an event that does not end the run'); END;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""  # noqa: S608 - only constants are added

MIGRATIONS = (_FIRST_VERSION,)
VERSION = len(MIGRATIONS)


def inspect_file(path: Path) -> None:
    """Refuse a file that is not ours, by its header alone: a foreign file is never opened."""
    size = path.stat().st_size if path.exists() else 0
    if size == 0:
        return
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
        raise NotAnEventLog(f"{path}: not an Evalwright database; name another file with --db")
    (application_id,) = struct.unpack(">I", header[68:72])
    if application_id != APPLICATION_ID:
        raise NotAnEventLog(
            f"{path}: a database of another program (application id {application_id:#x}); "
            "name another file with --db"
        )
    _refuse_truncated(path, header, size)


def _refuse_truncated(path: Path, header: bytes, size: int) -> None:
    (page_size, pages) = (*struct.unpack(">H", header[16:18]), *struct.unpack(">I", header[28:32]))
    page_size = 65536 if page_size == 1 else page_size
    if page_size * pages > size and not path.with_name(path.name + "-wal").exists():
        raise DamagedEventLog(
            f"{path}: the database is cut short ({size} of {page_size * pages} bytes); "
            "restore it from a copy, or name another file with --db"
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the database to the version of this program, in one transaction."""
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        version = _version(connection)
        if version > VERSION:
            raise NotAnEventLog(
                f"{path}: written by a newer Evalwright (schema {version}, this one knows "
                f"{VERSION}); update Evalwright or name another file with --db"
            )
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _statements(script: str) -> list[str]:
    statements, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current.strip())
            current = ""
    return statements
