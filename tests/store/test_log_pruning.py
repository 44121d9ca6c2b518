"""Deleting: only whole runs that have ended, by writing a tombstone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from log_events import Place, a_score, a_start, an_end, an_event, opened, raw_connection, written

from evalwright.contracts.errors import LogConflict, RunNotFound, RunPruned
from evalwright.store import checksums, location, upkeep
from evalwright.store.protocol import EventLog
from evalwright.store.upkeep import PRUNE_RUN

pytestmark = pytest.mark.both_databases


PLAN = '{"suite":{"tasks":"' + "x" * 5000 + '"},"n":%d}'
NEXT_EVENT = "INSERT INTO events (run, seq, type, at_us, body"
TABLES = ("runs", "events", "run_facts", "run_tags", "contents")


@pytest.fixture
def raw(log: EventLog, path: Place) -> Iterator[sqlite3.Connection]:
    """A log of two ended runs with the same suite, and an open one."""
    for number, run_id in enumerate(("old", "older", "open")):
        started = an_event("run.started", None, '{"workflowId":"w","tags":["nightly"]}')
        view = log.for_tenant("acme")
        view.append(run_id, [started, an_event("evalwright.planned", None, PLAN % number)])
        view.append(run_id, [a_score(), *([] if run_id == "open" else [an_end()])])
    written(log, "open")
    with raw_connection(path) as connection:
        connection.create_function("checksum_of", -1, checksums.of_values)
        yield connection


def prune(raw: sqlite3.Connection, run_id: str) -> int:
    return raw.execute(PRUNE_RUN, {"run_id": run_id, "at_us": 7, "reason": "old"}).rowcount


def counts(raw: sqlite3.Connection) -> dict[str, int]:
    return {name: raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}


def sizes(raw: sqlite3.Connection) -> list[tuple[object, ...]]:
    return raw.execute("SELECT * FROM partition_sizes").fetchall()


@pytest.mark.sqlite_only
def test_a_pruned_run_is_deleted_whole_and_leaves_a_tombstone(raw: sqlite3.Connection) -> None:
    (before,) = sizes(raw)
    bytes_of_a_run = raw.execute("SELECT bytes FROM run_facts WHERE run = 1").fetchone()[0]

    assert prune(raw, "old") == 1

    assert counts(raw) == {"runs": 2, "events": 7, "run_facts": 2, "run_tags": 2, "contents": 1}
    assert sizes(raw) == [("acme", 2, 7, before[3] - bytes_of_a_run)]
    found = raw.execute("SELECT run_id, tenant, status, events, at_us, reason FROM tombstones")
    assert found.fetchall() == [("old", "acme", "completed", 4, 7, "old")]


@pytest.mark.sqlite_only
def test_a_content_goes_with_the_last_run_that_has_it(raw: sqlite3.Connection) -> None:
    raw.execute(
        "INSERT INTO events (run, seq, type, at_us, body) VALUES (3, 3, ?, 0, '')", ("run.failed",)
    )
    raw.execute("UPDATE run_facts SET ended_us = 1 WHERE run = 3")
    for run_id in ("old", "older"):
        assert prune(raw, run_id) == 1
        assert counts(raw)["contents"] == 1
    assert prune(raw, "open") == 1
    assert counts(raw) == dict.fromkeys(TABLES, 0)
    assert sizes(raw) == [("acme", 0, 0, 0)]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(
            "INSERT INTO tombstones SELECT run, run_id, tenant, '', '', '', 0, 0, 0, 0, 0, '', 0"
            " FROM runs WHERE run_id = 'open'",
            id="of a run that has not ended",
        ),
        pytest.param(
            "INSERT INTO tombstones VALUES (1, 'older', 'acme', '', '', '', 0, 0, 0, 0, 0, '', 0)",
            id="under the name of another run",
        ),
        pytest.param(
            "INSERT INTO tombstones VALUES (9, 'nobody', 'acme', '', '', '', 0, 0, 0, 0, 0, '', 0)",
            id="of a run that does not exist",
        ),
    ],
)
def test_no_other_tombstone_can_be_written(raw: sqlite3.Connection, statement: str) -> None:
    before = counts(raw)
    with pytest.raises(sqlite3.IntegrityError, match="only a run that has ended"):
        raw.execute(statement)
    assert counts(raw) == before
    assert prune(raw, "open") == 0


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE run = 1",
        "DELETE FROM runs WHERE run = 1",
        "DELETE FROM contents",
        "UPDATE contents SET body = 'another suite'",
        "INSERT OR REPLACE INTO contents VALUES (1, x'00', 'another suite')",
        "INSERT OR REPLACE INTO contents SELECT 9, sha256, 'another suite' FROM contents",
        f"{NEXT_EVENT}, content, content_at) VALUES (3, 3, 'x', 0, '', 77, 0)",
        f"{NEXT_EVENT}, content) VALUES (3, 3, 'x', 0, '', 1)",
    ],
)
def test_nothing_else_deletes_or_changes_anything(raw: sqlite3.Connection, statement: str) -> None:
    before = counts(raw)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    assert counts(raw) == before


@pytest.mark.sqlite_only
def test_a_pruned_run_does_not_return_and_its_number_is_not_used_again(
    raw: sqlite3.Connection, log: EventLog
) -> None:
    raw.execute("INSERT INTO runs (run_id, tenant) VALUES ('last', 'acme')")
    raw.execute(
        "INSERT INTO events (run, seq, type, at_us, body) VALUES (4, 0, ?, 0, '')", ("run.failed",)
    )
    raw.execute("INSERT INTO run_facts (run, tenant, started_us, ended_us) VALUES (4, '', 0, 0)")
    assert prune(raw, "last") == 1

    log.append("last", [a_start()])
    with pytest.raises(LogConflict, match="was pruned"):
        written(log, "last")
    log.append("next", [a_start()])
    written(log, "next")

    assert raw.execute("SELECT run FROM runs WHERE run_id = 'next'").fetchone() == (5,)


@pytest.mark.parametrize("types", [(), ("agent.decided", "x")])
def test_a_reader_is_told_when_its_run_is_pruned_meanwhile(
    log: EventLog, path: Place, types: tuple[str, ...]
) -> None:
    """What it has read so far must not pass for the whole run."""
    log.append("run", [a_start(), *[an_event()] * 100, an_end()])
    written(log)
    reading = log.read("run", types)
    next(reading)
    assert log.upkeep.prune(["run"], "old", ()) == 1

    with pytest.raises(RunNotFound, match="was pruned"):
        list(reading)


def test_a_run_that_is_pruned_while_its_suite_is_read_is_not_called_damaged(log: EventLog) -> None:
    log.append("run", [a_start(), an_event("evalwright.planned", None, PLAN % 1), an_end()])
    written(log)
    reader = log.read("run")
    assert next(reader).sequence == 0  # the page is read, and the suite is not

    log.upkeep.prune(["run"], "old", ())

    with pytest.raises(RunPruned):
        next(reader)


def test_a_restored_run_is_found_by_those_who_knew_it_before_it_was_pruned(
    log: EventLog, path: Place
) -> None:
    other = opened(path)
    events = [a_start(), an_end()]
    log.append("run", events)
    written(log)
    assert len(list(other.read("run"))) == len(events)
    log.upkeep.prune(["run"], "old", ())
    log.for_tenant("another").upkeep.restore("run")
    with pytest.raises(RunPruned):
        list(other.read("run"))

    log.upkeep.restore("run")
    log.append("run", events)
    written(log)

    assert len(list(other.read("run"))) == len(other.edges("run")) == other.facts("run").events == 2
    other.close()


@pytest.mark.sqlite_only
def test_what_was_pruned_is_in_no_file_once_it_is_erased(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that somebody reads stay until they are let go, and large files are left alone."""
    database = Path(log.place)

    def files_with_it() -> list[str]:
        return [
            each.name
            for each in sorted(database.parent.iterdir())
            if b"A very private matter" in each.read_bytes()
        ]

    log.append("run", [a_start(), an_event(body='{"said":"A very private matter"}'), an_end()])
    written(log)
    log.upkeep.prune(["run"], "old", ())
    with closing(sqlite3.connect(database)) as reader, monkeypatch.context() as patched:
        patched.setattr(location, "BUSY_SECONDS", 0.05)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        assert log.upkeep.erase_deleted() is False
    assert files_with_it() != []
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "MOST_REWRITTEN", 0)
        assert log.upkeep.erase_deleted() is False
    assert files_with_it() != []
    assert log.upkeep.erase_deleted() is True
    assert files_with_it() == []
