"""Checksums of what is written: each event's, each run's and each document's."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from log_documents import a_note, write
from log_events import Place, a_start, an_end, an_event, asked, numbered, opened, raw_connection

from evalwright.contracts.errors import DamagedEventLog
from evalwright.store import checksums
from evalwright.store.inspection import find_problems
from evalwright.store.postgres.inspection import inspected
from evalwright.store.protocol import EventLog
from postgres_server import PostgresServer, execute

pytestmark = pytest.mark.both_databases

# What an older process does beside this one.
WITHOUT_CHECKSUM = (
    (
        "INSERT INTO events (run, seq, tenant, type, at_us, body)"
        " VALUES (1, 3, 'local', 'old', 5, '{}')"
    ),
    "UPDATE runs SET last_seq = last_seq + 1",
)


def change(path: Place, *statements: str) -> None:
    """Change a database as damage does: past its safeguards."""
    if isinstance(path, Path):
        with raw_connection(path) as connection:
            found = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for each in (*(f"DROP TRIGGER {name}" for name, _ in found), *statements):
                connection.execute(each)
            for _, sql in found:
                connection.execute(sql)
    else:
        execute(path, "SET session_replication_role = replica", *statements)


def problems(path: Place) -> list[str]:
    if isinstance(path, Path):
        found = [*find_problems(path)]
    else:
        with inspected(path) as inspection:
            found = [*inspection.problems()]
    return [f"{each.rule} of {each.place}: {each.message}" for each in found]


def a_run(log: EventLog) -> None:
    log.append("run", [a_start()])
    log.append("run", [an_event(task_id="a\0b"), an_event(body='{"é":1}')])
    write(log, a_note("one", b"1"))


def test_what_two_processes_append_to_one_run_has_one_checksum(log: EventLog, path: Place) -> None:
    a_run(log)
    log.append("run", [an_event(body='{"plan":"' + "x" * 9000 + '"}')])
    log.flush("run").result()
    with closing(opened(path)) as other:
        for number in range(3):
            other.append("run", numbered(number, 2))
            other.flush("run").result()
            if not isinstance(path, Path):  # in a file, one process writes to a run
                log.append("run", numbered(10 + number))
                log.flush("run").result()
        other.append("run", [an_end()])
        other.flush("run").result()
    log.verify("run")
    assert problems(path) == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE events SET body = '{\"é\":2}' WHERE seq = 2", "run run, event 2, agent.decided: "),
        ("UPDATE events SET type = 'note' WHERE seq = 2", "run run, event 2, note: "),
        ("UPDATE events SET task_id = 'other' WHERE seq = 1", "run run, event 1, agent.decided: "),
        ("UPDATE events SET at_us = 6 WHERE seq = 1", "run run, event 1, agent.decided: "),
        (
            "UPDATE events SET checksum = NULL WHERE seq = 1",
            "checksum of run run: events of the run are ",
        ),
        ("DELETE FROM events WHERE seq = 1", "checksum of run run: events of the run are missing"),
        ("UPDATE events SET seq = CASE seq WHEN 1 THEN 7 WHEN 2 THEN 1 ELSE seq END", "exchanged"),
        ("UPDATE runs SET run_id = 'nur'", "run nur, event 0, run.started: "),
        ("UPDATE {facts} SET status = 'paused'", "facts of run run: the list shows another status"),
        (
            "UPDATE {facts} SET summed = 0, checksum = 0",
            "checksum of run run: events of the run are ",
        ),
    ],
)
def test_what_was_changed_is_reported_with_its_run_and_place(
    log: EventLog, path: Place, statement: str, found: str
) -> None:
    a_run(log)
    log.flush("run").result()
    log.close()
    change(path, statement.replace("{facts}", "run_facts" if isinstance(path, Path) else "runs"))
    assert any(found in each for each in problems(path)), problems(path)


def test_a_changed_event_is_refused_by_what_reads_it_and_not_by_lists(
    log: EventLog, path: Place
) -> None:
    a_run(log)
    log.flush("run").result()
    change(path, "UPDATE events SET at_us = 6 WHERE seq = 1")
    assert len(log.edges("run")) == 3
    refusal = "run run, event 1: the event is not what was written"
    for read in (lambda: [*log.read("run")], lambda: log.verify("run")):
        with pytest.raises(DamagedEventLog, match=refusal):
            read()
    change(path, "DELETE FROM events WHERE seq = 1")
    with pytest.raises(DamagedEventLog, match="run run: events of the run are missing"):
        log.verify("run")


def test_a_run_that_has_lost_its_hold_on_a_content_is_reported(postgres_address: str) -> None:
    """Else the content would go with another run that has it."""
    with closing(opened(postgres_address)) as log:
        log.append("run", [a_start(), an_event(body='{"plan":"' + "x" * 9000 + '"}')])
        log.flush("run").result()
    assert problems(postgres_address) == []
    change(postgres_address, "DELETE FROM run_contents")
    assert any("is not said to be of its run" in each for each in problems(postgres_address))


def test_events_of_older_versions_have_none_and_are_sound(log: EventLog, path: Place) -> None:
    a_run(log)
    log.flush("run").result()
    if isinstance(path, Path):
        change(
            path,
            "UPDATE events SET checksum = NULL",
            "UPDATE run_facts SET summed = 0, checksum = 0",
            "UPDATE records SET checksum = NULL",
        )
    else:
        execute(path, *WITHOUT_CHECKSUM)
    log.append("run", numbered(1, 2))
    log.flush("run").result()
    log.verify("run")
    sums = asked(path, "SELECT count(*), count(checksum) FROM events")
    assert sums == [(5, 2)] if isinstance(path, Path) else [(6, 5)]
    assert [each for each in problems(path) if "sizes" not in each] == []


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE records SET body = '2'"], "note one of a: the document is not what was written"),
        (["UPDATE tombstones SET reason = 'x'"], "run run, tombstone: the tombstone is not what"),
    ],
)
def test_a_changed_document_or_tombstone_is_reported(
    postgres: PostgresServer, tmp_path: Path, database: str, statements: list[str], found: str
) -> None:
    path = tmp_path / "log.db" if database == "sqlite" else postgres.new_database()
    with closing(opened(path)) as log:
        a_run(log)
        log.append("run", [an_end()])
        log.flush("run").result()
        log.upkeep.prune(["run"], "by hand", ())
    assert problems(path) == []
    if database == "postgres":  # else the server would calculate them again
        for table in ("records", "tombstones"):
            execute(path, f"ALTER TABLE {table} ALTER COLUMN checksum DROP EXPRESSION")
    change(path, *statements)
    assert any(found in each for each in problems(path)), problems(path)


@pytest.mark.parametrize(
    "damaged",
    [
        ("note", "t", 1.5, b"{}"),
        ("note", "t", 1, None),
        (b"note", None, 1, "{}"),
        (2, None, 1, b""),
    ],
)
def test_values_of_other_types_than_were_written_have_no_checksum(damaged: tuple[Any, ...]) -> None:
    assert checksums.of_event(1, *damaged) == -1
