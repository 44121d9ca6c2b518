"""The store word for word: refusals, where a log is, what is in its file, who hears of what."""

import fcntl
import logging
import os
import sqlite3
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from log_documents import a_note, write
from log_events import (
    PATIENCE,
    Place,
    a_score,
    a_start,
    an_end,
    an_event,
    nobody_can_write,
    opened,
    raw_connection,
    written,
)

from evalwright.contracts.errors import (
    BadInput,
    DamagedEventLog,
    LogConflict,
    NotAnEventLog,
    RunBusy,
    RunNotFound,
    StoreError,
)
from evalwright.contracts.events import Event
from evalwright.contracts.messages import IN_LOGS, told
from evalwright.store import location, writer, written_log
from evalwright.store.protocol import EventLog
from evalwright.store.records import Forget, Record, RecordChange, RecordConflict
from evalwright.store.sqlite import claims, migration
from evalwright.store.sqlite import log as sqlite
from evalwright.store.sqlite.log import SqliteLog
from snapshots import check_snapshot

pytestmark = pytest.mark.both_databases


def said(call: Any, *given: Any) -> tuple[type[BaseException], str]:
    """The kind and the words of a refusal."""
    with pytest.raises((StoreError, BadInput, RunNotFound)) as caught:
        call(*given)
    return type(caught.value), told(caught.value, IN_LOGS)


def lost(log: EventLog, *events: Any, run_id: str = "run") -> tuple[type[BaseException], str]:
    """What is said of a run when its writer refuses these events."""
    log.append(run_id, list(events))
    return said(log.flush(run_id).result, PATIENCE)


# Where a log is.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "--db is empty; name a file, or leave it out"),
        (
            "mysql://there/db",
            (
                "--db mysql://…: a log is in SQLite or in PostgreSQL; "
                "name a file, sqlite:///path or postgresql://user@host/database"
            ),
        ),
        (
            "sqlite://log.db",
            "--db sqlite://log.db: write sqlite:///relative/path or sqlite:////absolute/path",
        ),
        (
            "sqlite:///",
            "--db sqlite:///: write sqlite:///relative/path or sqlite:////absolute/path",
        ),
        (":memory:", "--db :memory:: a log is kept in a file; name one"),
        ("sqlite:///:memory:", "--db :memory:: a log is kept in a file; name one"),
        (
            "~nobody-of-that-name/log.db",
            "--db ~nobody-of-that-name/log.db: there is no such user; write the path in full",
        ),
    ],
)
def test_a_place_that_cannot_be_is_refused_with_what_to_write(
    url: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(location.chosen_path, url) == (BadInput, message)
    if url:
        monkeypatch.setenv("EVALWRIGHT_DB", url)
        expected = message.replace("--db", "EVALWRIGHT_DB", 1)
        assert said(location.chosen_path) == (BadInput, expected)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("log.db", "log.db"),
        ("sqlite:///log.db", "log.db"),
        ("sqlite:////var/log.db", "/var/log.db"),
        ("sqlite:///a://b", "a://b"),
        ("~/log.db", str(Path("~/log.db").expanduser())),
    ],
)
def test_the_place_that_is_named(url: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert location.chosen_path(url) == Path(path)
    monkeypatch.setenv("EVALWRIGHT_DB", "elsewhere.db")
    assert location.chosen_path(url) == Path(path)
    assert location.chosen_path() == Path("elsewhere.db")


def test_the_users_own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def folder(*given: Any, **named: Any) -> Path:
        asked.append((given, named))
        return Path("/data")

    monkeypatch.setattr("platformdirs.user_data_path", folder)
    assert location.chosen_path() == Path("/data/evalwright.db")
    assert asked == [(("evalwright",), {"appauthor": False})]


@pytest.mark.sqlite_only
def test_a_log_to_read_from_is_not_made(path: Place) -> None:
    nothing = f"{path}: no run has been recorded here; start with `evalwright run`"
    assert not location.log_exists(str(path))
    assert location.nothing_recorded(str(path)) == nothing
    assert said(location.open_existing_log, str(path)) == (RunNotFound, nothing)
    assert said(location.existing_log(str(path)).__enter__) == (RunNotFound, nothing)
    assert not path.exists()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("opened", [location.opened_log, location.existing_log])
def test_an_opened_log_is_closed_also_by_an_error(path: Place, opened: Any) -> None:
    SqliteLog(path).close()
    assert location.log_exists(str(path))
    with pytest.raises(ZeroDivisionError), opened(str(path)) as log:  # noqa: PT012
        assert log.place == str(path)
        assert log.run_ids() == []
        raise ZeroDivisionError
    assert said(log.flush, "run") == (StoreError, f"{path}: the event log is closed")


@pytest.mark.sqlite_only
def test_a_place_that_cannot_be_looked_at_is_a_clear_error(path: Place) -> None:
    path.write_bytes(b"")
    below = path / "log.db"
    elsewhere = "name a writable file with --db"
    assert said(location.log_exists, str(below)) == (
        StoreError,
        f"{below}: the event log cannot be opened: Not a directory; {elsewhere}",
    )
    kind, words = said(SqliteLog, below)
    assert kind is StoreError
    assert words.startswith(f"{below}: the event log cannot be opened: ")
    assert words.endswith(f" ({path}); {elsewhere}")


def test_an_error_of_the_system_without_words_of_its_own() -> None:
    elsewhere = "name a writable file with db"
    told = location.explain("log.db", OSError("odd"))
    assert type(told) is StoreError
    assert str(told) == f"log.db: the event log cannot be opened: odd; {elsewhere}"
    told = location.explain("log.db", sqlite3.OperationalError("odd"))
    assert str(told) == "log.db: the event log cannot be used: odd"


def test_a_translated_error_has_its_cause() -> None:
    cause = sqlite3.OperationalError("odd")
    with pytest.raises(StoreError) as caught, location.clear_errors("log.db"):
        raise cause
    assert caught.value.__cause__ is cause


# Files.


@pytest.mark.sqlite_only
def test_the_schema_of_a_new_file(path: Place) -> None:
    opened(path).close()
    with raw_connection(path) as raw:
        rows = raw.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        told = {
            "schema": {f"{kind} {name}": " ".join((sql or "").split()) for kind, name, sql in rows},
            "pragmas": {
                name: raw.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version", "journal_mode")
            },
        }
    check_snapshot(Path(__file__).parent / "snapshots" / "schema.json", told)


@pytest.mark.sqlite_only
def test_what_is_no_log_is_refused_in_full(path: Place, tmp_path: Path) -> None:
    assert said(migration.inspect_file, tmp_path, "there") == (
        NotAnEventLog,
        "there: not a file; name another place with --db",
    )
    path.write_bytes(b"no database at all" * 100)
    assert said(migration.inspect_file, path, "there") == (
        NotAnEventLog,
        "there: not an Evalwright database; name another file with --db",
    )


@pytest.mark.sqlite_only
def test_a_newer_log_is_refused_in_full(path: Place) -> None:
    opened(path).close()
    with raw_connection(path) as raw:
        raw.execute("PRAGMA user_version = 7")
    assert said(SqliteLog, path) == (
        NotAnEventLog,
        (
            f"{path}: written by a newer Evalwright (schema 7, this one knows 6); "
            "update Evalwright or name another file with --db"
        ),
    )


@pytest.mark.sqlite_only
def test_a_damaged_log_is_refused_and_closed(path: Place) -> None:
    opened(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    kind, words = said(SqliteLog, path)
    assert kind is DamagedEventLog
    assert words.startswith(f"{path}: the database is damaged (")
    assert words.endswith("); restore it from a copy, or name another file with --db")


@pytest.mark.sqlite_only
def test_a_half_migration_is_named_and_rolled_back(
    path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = "CREATE TABLE one (x);\nCREATE TABLE two (\n"
    monkeypatch.setattr(migration, "MIGRATIONS", (half,))
    with raw_connection(path) as raw:
        with pytest.raises(AssertionError) as caught:
            migration.migrate(raw, "log.db")
        assert str(caught.value).splitlines()[0] == (
            "a migration ends within a statement: CREATE TABLE two ("
        )
        assert not raw.in_transaction
        assert raw.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


@pytest.mark.sqlite_only
def test_connections_wait_and_may_be_used_by_any_thread(path: Place) -> None:
    assert sqlite.BUSY_SECONDS == 30
    path.touch()
    connection = sqlite.connect(path)
    assert connection.isolation_level is None
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(connection.execute("SELECT 7").fetchone())
    )
    thread.start()
    thread.join()
    connection.close()
    assert found == [(7,)]


def test_turning_to_wal_waits_only_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    slept: list[float] = []

    class Connection:
        def __init__(self, *codes: int) -> None:
            self.codes = list(codes)
            self.asked: list[str] = []

        def execute(self, statement: str) -> None:
            self.asked.append(statement)
            if self.codes:
                error = sqlite3.OperationalError("no")
                error.sqlite_errorcode = self.codes.pop(0)
                raise error

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += 10

    monkeypatch.setattr(location.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(location.time, "sleep", sleep)
    busy = sqlite3.SQLITE_BUSY
    patient = Connection(busy, busy, busy)
    location.use_wal(patient)  # type: ignore[arg-type]
    assert patient.asked == ["PRAGMA journal_mode = WAL"] * 4
    assert slept == [0.005] * 3
    with pytest.raises(sqlite3.OperationalError):
        location.use_wal(Connection(busy, sqlite3.SQLITE_READONLY))  # type: ignore[arg-type]
    assert len(slept) == 4
    forever = Connection(*[busy] * 100)
    with pytest.raises(sqlite3.OperationalError):
        location.use_wal(forever)  # type: ignore[arg-type]
    assert len(forever.asked) == 5  # at 0, 10, 20, 30 and, too late, 40 seconds


# What is said of a run.


def test_the_refusals_of_a_run_in_full(log: EventLog, path: Place) -> None:
    busy = "is another process executing the same run?"
    refused = f"in {path} refused an event:"
    assert lost(log, a_start(), an_end(), an_event(), run_id="a") == (
        LogConflict,
        f"run a {refused} an event must be the next one of a run that has not ended; {busy}",
    )
    assert lost(log, a_start(), a_score(), a_score(), run_id="b") == (
        LogConflict,
        f"run b {refused} the task has its score already; {busy}",
    )
    kind, words = lost(log, an_event()._replace(body=b"\xff"), run_id="c")
    assert kind is LogConflict
    assert words.startswith(f"run c {refused} UnicodeDecodeError(")
    assert busy not in words
    log.append("d", [a_start()])
    written(log, "d")
    other = log.for_tenant("other")
    other.append("d", [an_event()])
    expected = (
        LogConflict,
        f"run d {refused} the run does not belong to tenant other; choose another id",
    )
    assert said(other.flush("d").result, PATIENCE) == expected
    assert said(other.append, "d", [an_event()]) == expected
    log.append("d", [an_event()])
    written(log, "d")
    assert said(list, log.read("nobody")) == (
        RunNotFound,
        f"there is no run nobody in {path}; see `evalwright runs`",
    )


def test_the_refusals_of_documents_in_full(log: EventLog, path: Place) -> None:
    write(log, a_note("taken"))
    conflict = log.records.write([a_note("taken", expected=None)])
    assert said(conflict.result, PATIENCE) == (
        RecordConflict,
        "the note 'taken' has changed meanwhile",
    )
    bad = log.records.write([RecordChange("note", "a", object(), b"x")])  # type: ignore[arg-type]
    kind, words = said(bad.result, PATIENCE)
    assert kind is StoreError
    assert words.startswith(f"{path} refused a document: ")
    assert words.endswith(")")


def test_a_closed_log_says_so_in_full(path: Place) -> None:
    log = opened(path)
    log.append("run", [a_start()])
    log.close()
    closed = (StoreError, f"{path}: the event log is closed")
    uses: list[Any] = [
        lambda: log.append("run", [a_start()]),
        lambda: log.flush("run"),
        lambda: log.watch("run", print),
        lambda: log.observe(print),
        lambda: log.records.write([a_note()]),
        lambda: log.records.write([Forget("note", 1)]),
        lambda: log.claim("run").__enter__(),
    ]
    assert [said(use) for use in uses] == [closed] * len(uses)
    unused = opened(path)
    unused.close()
    assert said(unused.append, "run", []) == closed


def test_a_run_that_broke_is_still_refused_as_closed_once_the_log_is(path: Place) -> None:
    log = opened(path)
    lost(log, an_end(), an_event())
    log.close()
    assert said(log.append, "run", [])[1] == f"{path}: the event log is closed"


# What is read.


def test_events_and_documents_are_read_with_every_field(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.time, "time_ns", lambda: 1_234_567_899)
    log.append("run", [a_start(), an_event("x", "task-1", '{"a": "ü"}')], [a_note("n", b"\0text")])
    written(log)
    at_us = 1_767_225_600_000_000
    expected = [
        Event("run", 0, "run.started", None, at_us, b"{}"),
        Event("run", 1, "x", "task-1", at_us, '{"a": "ü"}'.encode()),
    ]
    assert list(log.read("run")) == log.edges("run") == expected
    assert log.records.list("note", "a") == [Record("n", b"\0text", 1_234_567)]
    assert log.records.of_all_tenants("note") == [("a", Record("n", b"\0text", 1_234_567))]
    assert log.records.get("note", "a", "n") == b"\0text"
    assert log.records.get("note", "b", "n") is None
    assert (
        log.upkeep.abandoned_runs()
        == log.for_tenant("local").upkeep.abandoned_runs()
        == [("run", "local")]
    )
    assert log.for_tenant("other").upkeep.abandoned_runs() == []


@pytest.mark.parametrize("count", [31, 32, 33, 64, 65])
def test_a_run_is_read_in_pages_to_its_end(log: EventLog, count: int) -> None:
    log.append("run", [an_event("a" if number % 2 else "b") for number in range(count)])
    written(log)

    def sequences(*given: Any, **named: Any) -> list[int]:
        return [event.sequence for event in log.read("run", *given, **named)]

    everything = list(range(count))
    assert sequences() == everything
    assert sequences(after=-1) == everything
    assert sequences(after=0) == everything[1:]
    assert sequences(limit=0) == sequences(limit=-1) == []
    for limit in (1, 31, 32, 33, 64, 100):
        assert sequences(limit=limit) == everything[:limit]
        assert sequences(["a"], limit=limit) == everything[1::2][:limit]
        assert sequences(["a", "b"], 3, limit) == everything[4:][:limit]
    assert [event.sequence for event in log.edges("run")] == [0, 1, count - 2, count - 1]


@pytest.mark.sqlite_only
def test_a_page_holds_32_events(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append("run", [an_event()] * 70)
    written(log)
    limits: list[int] = []
    query = log._database.query

    def noted(statement: str, values: Any) -> Any:
        if "LIMIT ?" in statement:
            limits.append(values[-1])
        return query(statement, values)

    monkeypatch.setattr(log._database, "query", noted)
    assert len(list(log.read("run", limit=40))) == 40
    assert limits == [32, 8]
    limits.clear()
    assert len(list(log.read("run"))) == 70
    assert limits == [32, 32, 32]


# Who hears of what.


def test_watchers_and_observers_are_told_in_order(log: EventLog, path: Place) -> None:
    told: list[Any] = []
    for tenant in (None, "local", "other"):
        view = log if tenant is None else log.for_tenant(tenant)
        view.observe(lambda *given, tenant=tenant: told.append((tenant, *given)))
    log.watch("run", lambda events: told.append(("watcher", [event.type for event in events])))
    first, second, third = [a_start()], [an_event(), an_event("x")], [an_end()]
    with nobody_can_write(path):
        log.append("run", first)
        log.append("run", [])
        log.append("run", second)
        written_first = log.flush("run")
    written_first.result(PATIENCE)
    log.for_tenant("other").append("theirs", first)
    written(log.for_tenant("other"), "theirs")
    log.append("run", third)
    written(log)
    observed = [each for each in told if each[0] != "watcher"]
    assert observed == [
        (None, "run", 0, first),
        ("local", "run", 0, first),
        (None, "run", 1, second),
        ("local", "run", 1, second),
        (None, "theirs", 0, first),
        ("other", "theirs", 0, first),
        (None, "run", 3, third),
        ("local", "run", 3, third),
    ]
    heard = [kind for each in told if each[0] == "watcher" for kind in each[1]]
    assert heard == ["run.started", "agent.decided", "x", "run.completed"]
    assert log._database.writer._watchers == {}
    assert set(log._database.writer._positions) == {"theirs"}


def test_those_that_fail_are_logged_in_full_and_let_go(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    def clumsy(*_: object) -> None:
        raise ValueError("no screen")

    own = list(log._database.writer._observers)  # a log that is far away has one
    log.watch("run", clumsy)
    log.observe(clumsy)
    log.for_tenant("local").observe(clumsy)
    log.append("run", [a_start()])
    written(log)
    log.append("run", [an_event()])
    written(log)
    assert [(each.name, each.levelno, each.getMessage()) for each in caplog.records] == [
        ("evalwright.store.writer", logging.ERROR, "an observer failed and is not called again"),
        ("evalwright.store.writer", logging.ERROR, "an observer failed and is not called again"),
        (
            "evalwright.store.writer",
            logging.ERROR,
            "a watcher of run run failed and is not called again",
        ),
    ]
    assert all(each.exc_info for each in caplog.records)
    assert (log._database.writer._observers, log._database.writer._watchers) == (own, {})


def test_a_run_that_broke_is_watched_no_more(log: EventLog) -> None:
    log.watch("run", print)
    log.for_tenant("local").watch("run", print)
    log.watch("other", print)
    lost(log, an_end(), an_event())
    assert list(log._database.writer._watchers) == [(None, "other")]
    assert list(log._database.writer._broken) == [(None, "run"), ("local", "run")]


def test_the_writer_is_a_thread_that_does_not_keep_the_program_alive(log: EventLog) -> None:
    thread = log._database.writer._thread
    assert (thread.name, thread.daemon) == ("event-log-writer", True)
    assert (writer.GATHER_SECONDS, writer.MOST_BROKEN, written_log.MOST_REMEMBERED) == (
        0.005,
        10_000,
        10_000,
    )


def test_an_answer_that_nobody_waits_for_is_not_given() -> None:
    done: Future[None] = Future()
    done.cancel()
    writer._settle(done, None)
    writer._settle(failed := Future(), StoreError("lost"))
    writer._settle(good := Future(), None)
    assert done.cancelled()
    assert (str(failed.exception()), good.result()) == ("lost", None)


# Claims.


def test_a_claim_locks_two_bytes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, ...]] = []
    lockf = fcntl.lockf

    def noted(descriptor: int, *given: int) -> Any:
        calls.append(given)
        return lockf(descriptor, *given)

    monkeypatch.setattr(claims.fcntl, "lockf", noted)
    file = tmp_path / "claims"
    exclusive, at_once, shared, free = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_SH, fcntl.LOCK_UN
    assert not claims.is_claimed(file, 7)
    with claims.claim(file, 7, "run_7"):
        assert calls == [(exclusive | at_once, 1, 14), (exclusive, 1, 15)]
        assert claims.is_claimed(file, 7)
        with pytest.raises(RunBusy) as caught, claims.claim(file, 7, "run_7"):
            pass
        assert str(caught.value) == "run run_7 is already being executed; wait until it ends"
        assert len(calls) == 2
        assert not claims.is_claimed(file, 6)
        assert calls[2:] == [(shared | at_once, 1, 13), (free, 1, 13)]
    assert calls[4:] == [(free, 1, 15), (free, 1, 14)]
    assert claims._open_files == {}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [BlockingIOError(), PermissionError()])
def test_a_lock_of_another_process_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def held(*_: object) -> None:
        raise error

    file = tmp_path / "claims"
    file.touch()
    monkeypatch.setattr(claims.fcntl, "lockf", held)
    assert claims.is_claimed(file, 1)
    with pytest.raises(RunBusy), claims.claim(file, 1, "run"):
        pass
    assert claims._open_files == {}


@pytest.mark.sqlite_only
def test_a_file_is_made_for_its_owner_in_folders_for_him_alone(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "log.db"
    old = os.umask(0)
    try:
        log = SqliteLog(place)
        with log.for_tenant("acme").claim("run"):
            assert log._database.lock_file == place.with_name("log.db-claims")
            assert log.for_tenant("acme").is_claimed("run")
            assert log.is_claimed("run")
        log.close()
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o777 for path in (place, place.parent)]
    assert modes == [0o600, 0o700]
    with raw_connection(place) as raw:
        rows = raw.execute("SELECT run_id, tenant FROM runs").fetchall()
    assert rows == [("run", "acme")]
