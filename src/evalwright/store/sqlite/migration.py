"""Opening the file of a log: what is not one is refused, and an old one is brought up to date.

A process of an older version would read events without the parts that are kept elsewhere, so the
file is changed only while no other process has it open. It is changed in one transaction, in
rollback-journal mode: whatever interrupts it, the next process to open the file finds it as it was.
That takes as much room again as the file has, and memory only for a cache.
"""

import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from evalwright.contracts.errors import DamagedEventLog, NotAnEventLog, StoreError
from evalwright.contracts.messages import phrase
from evalwright.store import contents, facts
from evalwright.store.location import primary_code
from evalwright.store.sqlite import schema

Connect = Callable[[Path], sqlite3.Connection]

NOTICE_SECONDS = 2.0  # what takes longer is announced, and its progress reported


def inspect_file(path: Path, place: str) -> None:
    """Refuse a file that is not ours, before anything is locked or written beside it."""
    if not path.is_file():
        raise NotAnEventLog(
            phrase("{place}: not a file; name another place with {@db}", place=place)
        )
    if path.stat().st_size == 0:
        return
    application_id, page_size = _read_header(path, place)
    if application_id != schema.APPLICATION_ID:
        raise NotAnEventLog(
            phrase(
                "{place}: a database of another program (application id {id:#x}); "
                "name another file with {@db}",
                place=place,
                id=application_id,
            )
        )
    # A journal knows how a half-written page ends.
    journals = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    if path.stat().st_size % page_size and not any(journal.exists() for journal in journals):
        raise DamagedEventLog(
            phrase(
                "{place}: the database is truncated within a page; "
                "restore it from a copy, or name another file with {@db}",
                place=place,
            )
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
                phrase(
                    "{place}: not an Evalwright database; name another file with {@db}", place=place
                )
            ) from None
    return application_id & 0xFFFFFFFF, page_size


def open_current(path: Path, place: str, connect: Connect, patience: float) -> sqlite3.Connection:
    """A connection to the file, which is brought up to date before."""
    connection = connect(path)
    try:
        version = known_version(connection, place)
        if version in (0, VERSION):
            migrate(connection, place)  # a new file needs no more than a lock
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    _migrate_alone(path, place, connect, patience)
    return connect(path)


def _migrate_alone(path: Path, place: str, connect: Connect, patience: float) -> None:
    """Migrate once nobody else has the file open; raises when that takes too long."""
    deadline, is_announced = time.monotonic() + patience, False
    notice = time.monotonic() + NOTICE_SECONDS
    while True:
        try:
            with closing(connect(path)) as connection:
                connection.execute("PRAGMA busy_timeout = 0")
                if (version := known_version(connection, place)) != VERSION:
                    # Fails here, with the right error, where the file may not be written.
                    connection.execute(f"PRAGMA user_version = {version}")
                    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                    connection.execute("PRAGMA journal_mode = DELETE")
                    migrate(connection, place)
                return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY:
                raise
        if time.monotonic() > deadline:
            raise StoreError(
                f"{place}: written by an older Evalwright, and another process has it open; "
                "stop that process, so that the file can be brought up to date"
            )
        if time.monotonic() > notice and not is_announced:
            is_announced = True
            _announce(f"waiting for another process that has {place} open")
        # Two who wait must not meet again and again.
        time.sleep(random.uniform(0.005, 0.05))  # noqa: S311


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Bring the database to the version of this program, in one transaction."""
    if known_version(connection, place) == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        found = known_version(connection, place)  # another process may have begun
        if found < DESCRIBED:
            _rebuild(connection, place)
        for step in MIGRATIONS[max(0, found - DESCRIBED) :]:
            execute_all(connection, step)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def execute_all(connection: sqlite3.Connection, script: str) -> None:
    """Execute the statements of a script within the transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    assert not statement.strip(), f"a migration ends within a statement: {statement}"


def known_version(connection: sqlite3.Connection, place: str) -> int:
    """The version of the file's schema; raises for one that only a newer program knows."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise NotAnEventLog(
            phrase(
                "{place}: written by a newer Evalwright (schema {found}, this one knows {known}); "
                "update Evalwright or name another file with {@db}",
                place=place,
                found=version,
                known=VERSION,
            )
        )
    return int(version)


def _rebuild(connection: sqlite3.Connection, place: str) -> None:
    """Make the present tables, and copy into them what an earlier version wrote, run by run."""
    objects = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for kind, name in objects:
        if kind != "table":
            connection.execute(f"DROP {kind} {name}")
    earlier = {name for kind, name in objects if kind == "table"}
    for name in earlier:
        connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
    tables, rules = schema.read_scripts()
    execute_all(connection, tables)

    def copy(table: str, which: str = "") -> None:
        """Copy rows of a table, if there was one, as far as its columns are known."""
        if table not in earlier:
            return
        columns = "SELECT name FROM pragma_table_info(?)"
        both = connection.execute(f"{columns} INTERSECT {columns}", (table, f"old_{table}"))
        names = ", ".join(name for (name,) in both)
        copied = f"INSERT INTO {table} ({names}) SELECT {names} FROM old_{table} {which}"  # noqa: S608
        connection.execute(copied)

    for table in ("runs", "contents", "records", "tombstones", "run_facts", "run_tags"):
        copy(table)
    runs = connection.execute("SELECT run, tenant FROM runs ORDER BY run").fetchall()
    notice = time.monotonic() + NOTICE_SECONDS
    for number, (run, tenant) in enumerate(runs):
        if time.monotonic() > notice:
            notice = time.monotonic() + NOTICE_SECONDS
            share = f"{number:,} of {len(runs):,} runs, {number / len(runs):.0%}"
            _announce(f"bringing {place} up to date: {share}")
        copy("events", f"WHERE run = {run} ORDER BY seq")
        if "contents" in earlier:
            continue
        # Keep the large parts of what a run began with once.
        begun = connection.execute(
            "SELECT id, CAST(body AS BLOB) FROM events WHERE run = ? AND seq < ? ORDER BY seq",
            (run, contents.FRAME_EVENTS),
        ).fetchall()
        for event, body in begun:
            part = None if len(body) < contents.SHARED_BYTES else contents.cut(body)
            if part is not None:
                connection.execute(
                    "UPDATE events SET body = ?, content = ?, content_at = ? WHERE id = ?",
                    (part.rest.decode(), contents.keep(connection, part), part.at, event),
                )
        facts.rebuild(connection, [(run, tenant)])
    for name in earlier:
        connection.execute(f"DROP TABLE old_{name}")
    execute_all(connection, rules)


def _announce(message: str) -> None:
    sys.stderr.write(f"evalwright: {message}\n")
    sys.stderr.flush()


DESCRIBED = 6  # the version that `schema.sql` describes; files of earlier ones are rebuilt
MIGRATIONS: tuple[str, ...] = ()  # the scripts that follow, one for each version
VERSION = DESCRIBED + len(MIGRATIONS)
