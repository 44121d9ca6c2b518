"""The SQLite schema of the event log, its migrations, and the look at a file before opening it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from evalwright.contracts.errors import DamagedEventLog, NotAnEventLog
from evalwright.contracts.events import TERMINAL_TYPES

APPLICATION_ID = 0x4556574C  # "EVWL"

# Comparisons joined by OR: `type IN (…)` costs twice as much on every insert.
IS_END = " OR ".join(f"type = '{name}'" for name in TERMINAL_TYPES)

# The triggers also stop `INSERT OR REPLACE`, which deletes rows that are in its way without asking
# unique indexes or the triggers for DELETE.
_FIRST_VERSION = f"""
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE
);
CREATE TRIGGER runs_are_never_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run = NEW.run OR run_id = NEW.run_id)
BEGIN SELECT RAISE(ABORT, 'the run is in the log already'); END;
CREATE TRIGGER runs_are_never_changed BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER runs_are_never_deleted BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (run),
    seq INTEGER NOT NULL CHECK (seq >= 0),
    type TEXT NOT NULL,
    task_id TEXT CHECK (task_id IS NOT NULL OR type <> 'eval.scored'),
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_score_per_task ON events (run, task_id) WHERE type = 'eval.scored';
CREATE UNIQUE INDEX one_end_per_run ON events (run) WHERE {IS_END};
CREATE TRIGGER no_gap_and_nothing_after_the_end BEFORE INSERT ON events
WHEN NEW.seq IS NOT coalesce(
    (SELECT CASE WHEN {IS_END} THEN -1 ELSE seq + 1 END
     FROM events WHERE run = NEW.run ORDER BY seq DESC LIMIT 1),
    (SELECT 0 FROM runs WHERE run = NEW.run)
)
BEGIN SELECT RAISE(ABORT, 'an event must be the next one of a run that has not ended'); END;
CREATE TRIGGER scores_are_never_replaced BEFORE INSERT ON events
WHEN NEW.type = 'eval.scored' AND EXISTS (
    SELECT 1 FROM events WHERE run = NEW.run AND task_id = NEW.task_id AND type = 'eval.scored'
)
BEGIN SELECT RAISE(ABORT, 'the task has its score already'); END;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""  # noqa: S608 - only constants are added

_TENANTS_AND_RECORDS = """
ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT 'local';
CREATE INDEX runs_of_tenant ON runs (tenant, run);
CREATE TABLE records (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant, key)
);
"""

MIGRATIONS = (_FIRST_VERSION, _TENANTS_AND_RECORDS)
VERSION = len(MIGRATIONS)

ENTER_RUN = """
INSERT INTO runs (run_id, tenant) SELECT :run_id, :tenant WHERE NOT EXISTS (
    SELECT 1 FROM runs WHERE run_id = :run_id
)
"""


def inspect_file(path: Path, place: str) -> None:
    """Refuse a file that is not ours, before anything is locked or written beside it."""
    if not path.is_file():
        raise NotAnEventLog(f"{place}: not a file; name another place with --db")
    if path.stat().st_size == 0:
        return
    application_id, page_size = _read_header(path, place)
    if application_id != APPLICATION_ID:
        raise NotAnEventLog(
            f"{place}: a database of another program (application id {application_id:#x}); "
            "name another file with --db"
        )
    # A journal tells how a half-written page ends.
    journals = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    if path.stat().st_size % page_size and not any(journal.exists() for journal in journals):
        raise DamagedEventLog(
            f"{place}: the database is truncated within a page; "
            "restore it from a copy, or name another file with --db"
        )


def _read_header(path: Path, place: str) -> tuple[int, int]:
    """Application id and page size, read by SQLite as if the file never changed: without locks.

    Reading them through a descriptor of our own would be a mistake: closing it drops the locks of
    every connection that this process has to the same file, and with them acknowledged events.
    """
    uri = f"{path.as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        # The header may be ahead of its file while another process writes; that is checked later.
        connection.execute("PRAGMA writable_schema = ON")
        try:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise NotAnEventLog(
                f"{place}: not an Evalwright database; name another file with --db"
            ) from None
    return application_id & 0xFFFFFFFF, page_size


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Bring the database to the version of this program, in one transaction."""
    if _known_version(connection, place) == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        missing = MIGRATIONS[_known_version(connection, place) :]  # another process may have begun
        statement = ""
        for line in "\n".join(missing).splitlines():
            statement += line + "\n"
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""
        assert not statement.strip(), f"a migration ends within a statement: {statement}"
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _known_version(connection: sqlite3.Connection, place: str) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise NotAnEventLog(
            f"{place}: written by a newer Evalwright (schema {version}, this one knows "
            f"{VERSION}); update Evalwright or name another file with --db"
        )
    return int(version)
