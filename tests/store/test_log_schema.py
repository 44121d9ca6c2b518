"""Versions of the schema: new files, old ones, newer ones, and many who open at once."""

import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from log_events import a_start, an_event, raw_connection, types_of
from log_processes import children

from evalwright.contracts.errors import NotAnEventLog, StoreError
from evalwright.store.sqlite import migration, schema
from evalwright.store.sqlite.log import SqliteLog


def pragma(path: Path, name: str) -> object:
    with raw_connection(path) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def later_program(monkeypatch: pytest.MonkeyPatch, *migrations: str) -> None:
    """From here on the program is a later one, which knows more migrations."""
    known = (*migration.MIGRATIONS, *migrations)
    monkeypatch.setattr(migration, "MIGRATIONS", known)
    monkeypatch.setattr(migration, "VERSION", migration.DESCRIBED + len(known))


ADD_NOTES = """
ALTER TABLE runs ADD COLUMN note TEXT;
CREATE TRIGGER notes_are_short BEFORE INSERT ON runs WHEN length(NEW.note) > 9
BEGIN
    SELECT RAISE(ABORT, 'a note is short; this one; is not');
END;
"""


def test_a_new_file_is_made_with_the_present_version(path: Path) -> None:
    SqliteLog(path).close()

    assert pragma(path, "user_version") == migration.VERSION
    assert pragma(path, "application_id") == schema.APPLICATION_ID
    assert pragma(path, "journal_mode") == "wal"


def test_an_old_log_is_migrated_and_keeps_its_events(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("run", [a_start()])
    log.close()
    later_program(monkeypatch, ADD_NOTES)

    later = SqliteLog(path)
    later.append("run", [an_event()])
    later.close()

    assert types_of(path) == ["run.started", "agent.decided"]
    assert pragma(path, "user_version") == migration.VERSION == 7
    with raw_connection(path) as connection:
        assert connection.execute("SELECT run_id, note FROM runs").fetchall() == [("run", None)]
        with pytest.raises(sqlite3.IntegrityError, match="this one; is not"):
            connection.execute("INSERT INTO runs VALUES (2, 'two', 'local', 'much too long')")


def test_a_log_of_the_present_version_is_not_migrated_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_program(monkeypatch, ADD_NOTES)
    for _ in range(2):
        SqliteLog(path).close()

    assert pragma(path, "user_version") == 7


def test_a_migration_that_fails_leaves_the_log_as_it_was(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("run", [a_start()])
    log.close()
    with monkeypatch.context() as later:
        later_program(later, ADD_NOTES, "CREATE TABLE runs (already INTEGER);")
        with pytest.raises(StoreError, match=r"log\.db: .*table runs already exists"):
            SqliteLog(path)

    assert pragma(path, "user_version") == 6
    assert len(columns(path, "runs")) == 3
    again = SqliteLog(path)
    assert again.run_ids() == ["run"]
    again.close()


def columns(path: Path, table: str) -> list[object]:
    with raw_connection(path) as connection:
        return connection.execute(f"PRAGMA table_info({table})").fetchall()


def test_a_migration_without_its_last_semicolon_is_not_half_done(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_program(monkeypatch, "ALTER TABLE runs ADD COLUMN note TEXT")

    with pytest.raises(AssertionError, match="ends within a statement"):
        SqliteLog(path)
    assert path.stat().st_size == 0


def test_a_log_of_a_newer_version_is_refused_and_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later_program(later, ADD_NOTES)
        SqliteLog(path).close()
    before = path.read_bytes()

    with pytest.raises(NotAnEventLog) as refusal:
        SqliteLog(path)

    assert str(refusal.value) == (
        f"{path}: written by a newer Evalwright (schema 7, this one knows 6); "
        "update Evalwright or name another file with db"
    )
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_newer_log_is_refused_at_once_although_somebody_writes_to_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later_program(later, ADD_NOTES)
        SqliteLog(path).close()
    monkeypatch.setattr("evalwright.store.location.BUSY_SECONDS", 0)
    with raw_connection(path) as writer:
        writer.execute("BEGIN IMMEDIATE")

        with pytest.raises(NotAnEventLog, match="newer Evalwright"):
            SqliteLog(path)


def test_processes_that_open_a_new_log_at_once_all_succeed(tmp_path: Path) -> None:
    for attempt in range(3):
        path = tmp_path / f"{attempt}" / "log.db"
        with children(5, "open_when_told", path) as openers:
            for opener in openers:
                assert opener.hear() == "ready"
            for opener in openers:
                opener.say()
            for opener in openers:
                assert opener.hear() == "done"

        for number in range(5):
            assert types_of(path, f"run-{number}") == ["agent.decided"]


def test_opening_waits_for_another_who_keeps_the_file_from_turning_to_wal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not wait here by itself: of two who open a new log, one would be refused."""
    waits: list[float] = []
    with raw_connection(path) as other:
        migration.migrate(other, str(path))
        other.execute("BEGIN IMMEDIATE")

        def let_go_while_the_log_waits(seconds: float) -> None:
            waits.append(seconds)
            other.execute("COMMIT")

        clock = SimpleNamespace(monotonic=time.monotonic, sleep=let_go_while_the_log_waits)
        monkeypatch.setattr("evalwright.store.location.time", clock)
        SqliteLog(path).close()

    assert len(waits) == 1
    assert pragma(path, "journal_mode") == "wal"


def test_a_file_that_others_never_let_go_is_a_clear_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalwright.store.location.BUSY_SECONDS", 0)
    with raw_connection(path) as other:
        migration.migrate(other, str(path))
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreError, match=r"log\.db: .*locked; another process"):
            SqliteLog(path)
