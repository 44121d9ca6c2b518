"""Limits and errors of the log: what is remembered is bounded, and every failure has its remedy."""

import errno
import sqlite3
from contextlib import ExitStack

import pytest
from log_documents import a_note, keys, write
from log_events import (
    Place,
    a_score,
    a_start,
    an_end,
    an_event,
    asked,
    nobody_can_write,
    opened,
    raw_connection,
    types_of,
    written,
)

from evalwright.contracts.errors import (
    DamagedEventLog,
    LogConflict,
    NotAnEventLog,
    RunBusy,
    StoreError,
    StoreUnavailable,
)
from evalwright.store import writer, written_log
from evalwright.store.location import blames_the_place, explain
from evalwright.store.protocol import EventLog
from evalwright.store.records import Forget
from evalwright.store.sqlite import claims, migration

pytestmark = pytest.mark.both_databases


# What is remembered.


@pytest.mark.sqlite_only
def test_the_numbers_of_runs_are_remembered_up_to_a_bound(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_log, "MOST_REMEMBERED", 3)
    remembered = []
    for number in range(5):
        log.append(f"run-{number}", [a_start()])
        written(log, f"run-{number}")
        assert len(list(log.read(f"run-{number}"))) == 1
        remembered.append(len(log._database.run_numbers))

    assert remembered == [2, 1, 3, 2, 1]  # a run in two views: its tenant's, and the view of all


def test_runs_that_take_no_more_are_remembered_up_to_a_bound_the_newest_of_them(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run breaks in two views: its tenant's, and the view of all."""
    monkeypatch.setattr(writer, "MOST_BROKEN", 4)
    for number in range(3):
        log.append(f"run-{number}", [a_start(), a_score(), a_score()])
        with pytest.raises(LogConflict):
            written(log, f"run-{number}")

    assert [run_id for _, run_id in log._database.writer._broken] == ["run-1"] * 2 + ["run-2"] * 2
    log.append("run-0", [a_start()])
    written(log, "run-0")
    with pytest.raises(LogConflict, match=r"run run-2 in .* refused an event"):
        log.append("run-2", [a_start()])


# What is durable.


@pytest.mark.sqlite_only
def test_a_commit_is_on_the_disk_when_it_is_acknowledged(log: EventLog) -> None:
    assert log._database.writer._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_an_append_of_no_events_leaves_no_position_behind(log: EventLog) -> None:
    log.append("run", [a_start(), an_end()])
    written(log)
    log.append("run", [], [a_note()])
    written(log)

    assert log._database.writer._positions == {}


def test_a_watcher_of_the_tenant_and_one_of_all_hear_the_same_once(log: EventLog) -> None:
    heard: list[tuple[str, int]] = []
    log.watch("run", lambda events: heard.append(("all", len(events))))
    log.for_tenant("local").watch("run", lambda events: heard.append(("local", len(events))))
    log.for_tenant("other").watch("run", lambda events: heard.append(("other", len(events))))
    log.append("run", [a_start(), an_event()])
    written(log)

    assert sorted(heard) == [("all", 2), ("local", 2)]


def test_events_of_several_appends_reach_a_watcher_in_order(log: EventLog, path: Place) -> None:
    heard: list[str] = []
    log.watch("run", lambda events: heard.extend(event.type for event in events))
    with nobody_can_write(path):
        log.append("run", [a_start()])
        log.append("run", [an_event()])
        log.append("run", [an_end()])
    written(log)

    assert heard == types_of(path) == ["run.started", "agent.decided", "run.completed"]


# Lists.


def test_a_list_has_a_thousand_documents_unless_more_are_asked_for(log: EventLog) -> None:
    write(log, *(a_note(f"{number:04}") for number in range(1001)))

    assert keys(log.records.list("note", "a")) == [f"{number:04}" for number in range(1000)]
    assert len(log.records.keys("note", "a")) == 1000
    assert len(log.records.list("note", "a", limit=2000)) == 1001


def test_a_document_as_old_as_the_bound_is_not_forgotten(log: EventLog, path: Place) -> None:
    write(log, a_note("old"), a_note("older"))
    asked(path, "UPDATE records SET at_us = CASE key WHEN 'old' THEN 5 ELSE 4 END")

    log.records.write([Forget("note", 5)]).result()

    assert keys(log.records.list("note", "a")) == ["old"]


def test_documents_of_all_tenants_are_in_order_of_tenant_and_key(log: EventLog) -> None:
    write(log, a_note("2", tenant="b"), a_note("1", tenant="b"), a_note("3", tenant="a"))

    found = [(tenant, record.key) for tenant, record in log.records.of_all_tenants("note")]
    assert found == [("a", "3"), ("b", "1"), ("b", "2")]


# Claims.


@pytest.mark.sqlite_only
def test_without_locks_of_the_system_every_claim_is_granted(
    log: EventLog, path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "HAS_LOCKS", False)
    with log.claim("run"), log.claim("run"):
        assert not log.is_claimed("run")

    assert not path.with_name("log.db-claims").exists()


@pytest.mark.sqlite_only
def test_looking_at_a_claim_makes_no_lock_file(log: EventLog, path: Place) -> None:
    log.append("run", [a_start()])
    written(log)

    assert not log.is_claimed("run")
    assert not path.with_name("log.db-claims").exists()


def test_a_run_that_is_being_executed_says_what_to_do(log: EventLog) -> None:
    with log.claim("run"), pytest.raises(RunBusy) as refusal, log.claim("run"):
        pass

    assert str(refusal.value) == "run run is already being executed; wait until it ends"


def test_neighbouring_runs_are_claimed_independently(log: EventLog) -> None:
    for number in range(3):
        log.append(f"run-{number}", [a_start()])
        written(log, f"run-{number}")
    with log.claim("run-1"):
        assert [log.is_claimed(f"run-{number}") for number in range(3)] == [False, True, False]
        with log.claim("run-0"), log.claim("run-2"):
            assert all(log.is_claimed(f"run-{number}") for number in range(3))
        assert [log.is_claimed(f"run-{number}") for number in range(3)] == [False, True, False]


def test_a_closed_log_grants_no_claim(path: Place) -> None:
    log = opened(path)
    log.close()
    with pytest.raises(StoreError, match="the event log is closed"), log.claim("run"):
        pass


# Files.


@pytest.mark.sqlite_only
@pytest.mark.parametrize("journal", ["-wal", "-journal"])
def test_half_a_page_is_damage_unless_a_journal_says_how_it_ends(path: Place, journal: str) -> None:
    opened(path).close()
    with path.open("ab") as file:
        file.write(b"\0" * 100)

    with pytest.raises(DamagedEventLog) as refusal:
        migration.inspect_file(path, "log.db")
    path.with_name(path.name + journal).touch()
    migration.inspect_file(path, "log.db")

    assert str(refusal.value) == (
        "log.db: the database is truncated within a page; "
        "restore it from a copy, or name another file with db"
    )


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("number", "shown"), [(0, "0x0"), (-1, "0xffffffff"), (17, "0x11")])
def test_the_database_of_another_program_is_named_by_its_id(
    path: Place, number: int, shown: str
) -> None:
    with raw_connection(path) as raw:
        raw.execute(f"PRAGMA application_id = {number}")
        raw.execute("CREATE TABLE theirs (x)")

    with pytest.raises(NotAnEventLog) as refusal:
        opened(path)
    assert str(refusal.value) == (
        f"{path}: a database of another program (application id {shown}); name another file with db"
    )


@pytest.mark.sqlite_only
def test_a_text_file_is_not_a_log(path: Place) -> None:
    path.write_text("notes\n" * 1000)

    with pytest.raises(NotAnEventLog) as refusal:
        opened(path)
    assert str(refusal.value) == (f"{path}: not an Evalwright database; name another file with db")


@pytest.mark.sqlite_only
def test_a_migration_that_another_process_has_done_meanwhile_is_not_repeated(
    path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is read again once the lock is held."""
    versions = iter([0, migration.VERSION])
    with ExitStack() as held:
        opened(path).close()
        raw = held.enter_context(raw_connection(path))
        monkeypatch.setattr(migration, "known_version", lambda *_: next(versions))
        migration.migrate(raw, "log.db")

    assert next(versions, None) is None


# Errors.


def failed(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("it failed")
    error.sqlite_errorcode = code
    return error


SOME_SPACE = "free some space, or name a file elsewhere with db"
CHECK_DISK = "free some space or check the disk, or name a file elsewhere with db"
ELSEWHERE = "name a writable file with db"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (sqlite3.SQLITE_FULL, f"; {SOME_SPACE}"),
        (sqlite3.SQLITE_IOERR, f"; {CHECK_DISK}"),
        (sqlite3.SQLITE_IOERR_WRITE, f"; {CHECK_DISK}"),
        (
            sqlite3.SQLITE_BUSY,
            "; another process holds it; try again when that process has ended",
        ),
        (sqlite3.SQLITE_READONLY, f"; {ELSEWHERE}"),
        (sqlite3.SQLITE_CANTOPEN, f"; {ELSEWHERE}"),
        (sqlite3.SQLITE_PERM, f"; {ELSEWHERE}"),
        (sqlite3.SQLITE_MISUSE, ""),
    ],
)
def test_each_error_of_sqlite_has_its_remedy(code: int, remedy: str) -> None:
    error = explain("log.db", failed(code))

    assert type(error) is (StoreUnavailable if remedy else StoreError)
    assert str(error) == f"log.db: the event log cannot be used: it failed{remedy}"


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT_INDEX]
)
def test_a_damaged_file_is_to_be_restored(code: int) -> None:
    error = explain("log.db", failed(code, sqlite3.DatabaseError))

    assert isinstance(error, DamagedEventLog)
    assert str(error) == (
        "log.db: the database is damaged (it failed); "
        "restore it from a copy, or name another file with db"
    )


@pytest.mark.parametrize(
    ("filename", "shown"),
    [("log.db", ""), ("folder/log.db-claims", " (folder/log.db-claims)"), (None, "")],
)
def test_an_error_of_the_system_names_the_file_if_it_is_another_one(
    filename: str | None, shown: str
) -> None:
    error = explain("log.db", OSError(errno.EACCES, "Permission denied", filename))

    assert str(error) == (
        f"log.db: the event log cannot be opened: Permission denied{shown}; {ELSEWHERE}"
    )


@pytest.mark.parametrize("error", [sqlite3.OperationalError(), sqlite3.DatabaseError()])
def test_a_failing_file_is_blamed(error: Exception) -> None:
    assert blames_the_place(error)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.IntegrityError(),
        sqlite3.DataError(),
        sqlite3.ProgrammingError(),
        ValueError(),
        OSError(),
    ],
    ids=repr,
)
def test_a_bad_value_is_not_blamed_on_the_file(error: Exception) -> None:
    assert not blames_the_place(error)
