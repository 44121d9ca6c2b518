"""The rules of the log hold in the database itself: also for who goes around the writer."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import a_score, a_start, an_end, an_event, raw_connection, types_of

from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.store.sqlite import migration
from evalwright.store.sqlite.log import SqliteLog

COLUMNS = "(run, seq, type, task_id, at_us, body)"
TAKEN = "(1, 2, 'x', NULL, 0, '')"
OPEN, ENDED, UNKNOWN = (
    1,
    2,
    3,
)  # numbers of runs in the log below: two that exist, one that does not


@pytest.fixture
def raw(log: SqliteLog, path: Path) -> Iterator[sqlite3.Connection]:
    """A foreign connection to a log of an open run (0, 1, 2; task-1 scored) and an ended one."""
    log.append("open", [a_start(), a_score("task-1"), an_event()])
    log.append("ended", [a_start(), an_end()])
    log.flush("open").result()
    with raw_connection(path) as connection:
        yield connection


def contents(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    events = connection.execute("SELECT * FROM events ORDER BY run, seq").fetchall()
    return events + connection.execute("SELECT * FROM runs ORDER BY run").fetchall()


def insert(run: int, sequence: object, kind: str = "x", task: str | None = None) -> tuple[str, ...]:
    return (run, sequence, kind, task, 0, "{}")  # type: ignore[return-value]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(insert(OPEN, 4), id="a gap"),
        pytest.param(insert(OPEN, 2), id="a sequence that is taken"),
        pytest.param(insert(OPEN, -1), id="a sequence before the first"),
        pytest.param(insert(OPEN, 2.5), id="a fraction"),
        pytest.param(insert(OPEN, "next"), id="a word for a sequence"),
        pytest.param(insert(OPEN, None), id="no sequence"),
        pytest.param(insert(OPEN, 3, "eval.scored", "task-1"), id="a second score of a task"),
        pytest.param(insert(OPEN, 3, "eval.scored", None), id="a score of no task"),
        pytest.param(insert(ENDED, 2), id="an event after the end"),
        pytest.param(insert(ENDED, 2, "run.failed"), id="a second end"),
        pytest.param(insert(ENDED, -1), id="an event before an ended run"),
        pytest.param(insert(UNKNOWN, 0), id="an event of a run that does not exist"),
    ],
)
@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE", "INSERT OR ROLLBACK"])
def test_the_database_refuses_what_would_break_the_log(
    raw: sqlite3.Connection, verb: str, row: tuple[object, ...]
) -> None:
    before = contents(raw)

    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(f"{verb} INTO events {COLUMNS} VALUES (?, ?, ?, ?, ?, ?)", row)

    assert contents(raw) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = 'changed'",
        "UPDATE OR REPLACE events SET seq = 1 WHERE run = 1 AND seq = 2",
        "DELETE FROM events WHERE run = 1 AND seq = 2",
        "DELETE FROM events",
        f"INSERT INTO events {COLUMNS} VALUES {TAKEN} ON CONFLICT DO UPDATE SET body = 'x'",
        f"INSERT OR REPLACE INTO events (id, {COLUMNS[1:]} VALUES (1, 1, 3, 'x', NULL, 0, '')",
        f"INSERT OR REPLACE INTO events (id, {COLUMNS[1:]} VALUES (-1, 1, 3, 'x', NULL, 0, '')",
        "UPDATE runs SET run_id = 'renamed' WHERE run = 1",
        "DELETE FROM runs",
        "UPDATE runs SET tenant = 'another' WHERE run = 1",
        "INSERT INTO runs VALUES (9, 'open', 'local')",
        "INSERT INTO runs VALUES (9, 'open', 'another')",
        "INSERT OR REPLACE INTO runs VALUES (1, 'renamed', 'local')",
        "INSERT OR REPLACE INTO runs VALUES (1, 'open', 'another')",
        "INSERT OR REPLACE INTO runs VALUES (9, 'open', 'local')",
    ],
)
def test_the_database_refuses_to_change_what_is_written(
    raw: sqlite3.Connection, statement: str
) -> None:
    before = contents(raw)

    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)

    assert contents(raw) == before


@pytest.mark.parametrize("kind", TERMINAL_TYPES)
def test_nothing_follows_any_kind_of_end(raw: sqlite3.Connection, kind: str) -> None:
    raw.execute(f"INSERT INTO events {COLUMNS} VALUES (?, ?, ?, ?, ?, ?)", insert(OPEN, 3, kind))

    with pytest.raises(sqlite3.IntegrityError, match="has not ended"):
        raw.execute(f"INSERT INTO events {COLUMNS} VALUES (?, ?, ?, ?, ?, ?)", insert(OPEN, 4))


def test_a_statement_with_one_bad_row_writes_none_of_its_rows(raw: sqlite3.Connection) -> None:
    before = contents(raw)

    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(
            f"INSERT INTO events {COLUMNS} VALUES (1, 3, 'x', NULL, 0, ''),"
            " (1, 4, 'x', NULL, 0, ''), (1, 6, 'x', NULL, 0, '')"
        )

    assert contents(raw) == before


def test_what_keeps_the_rules_is_welcome(raw: sqlite3.Connection, path: Path) -> None:
    raw.execute(f"INSERT INTO events {COLUMNS} VALUES (1, 3, 'eval.scored', 'task-2', 0, '')")
    raw.execute("INSERT INTO runs VALUES (3, 'another', 'local')")
    raw.execute(f"INSERT INTO events {COLUMNS} VALUES (3, 0, 'eval.scored', 'task-1', 0, '')")
    raw.execute(f"INSERT INTO events {COLUMNS} VALUES (3, 1, 'run.cancelled', NULL, 0, '')")

    assert types_of(path, "open")[3:] == ["eval.scored"]
    assert types_of(path, "another") == ["eval.scored", "run.cancelled"]


attempts = st.tuples(
    st.sampled_from(["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"]),
    st.integers(1, 2),  # the run
    st.sampled_from([0, 0, 0, 0, -1, -2, 1]),  # how far from the next sequence
    st.sampled_from(["agent.decided", "eval.scored", "eval.scored", "run.completed", "run.failed"]),
    st.sampled_from(["task-1", "task-2", None]),
)


@given(st.lists(attempts, min_size=5, max_size=40))
def test_the_log_is_whole_whatever_is_tried(
    tries: list[tuple[str, int, int, str, str | None]],
) -> None:
    """A model of a few lines says which attempts must be taken; the table must agree."""
    model: dict[int, list[tuple[str, str | None]]] = {1: [], 2: []}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migration.migrate(connection, ":memory:")
        connection.execute("INSERT INTO runs VALUES (1, 'one', 'a'), (2, 'two', 'b')")
        for verb, run, distance, kind, task in tries:
            events = model[run]
            row = (run, len(events) + distance, kind, task)
            with suppress(sqlite3.IntegrityError):
                connection.execute(f"{verb} INTO events {COLUMNS} VALUES (?, ?, ?, ?, 0, '')", row)
            if distance == 0 and fits(events, kind, task):
                events.append((kind, task))

        for run, expected in model.items():
            rows = connection.execute(
                "SELECT seq, type, task_id FROM events WHERE run = ? ORDER BY seq", (run,)
            ).fetchall()
            assert rows == [(number, *event) for number, event in enumerate(expected)]


def fits(events: list[tuple[str, str | None]], kind: str, task: str | None) -> bool:
    ended = bool(events) and events[-1][0] in TERMINAL_TYPES
    is_bad_score = kind == "eval.scored" and (task is None or (kind, task) in events)
    return not ended and not is_bad_score
