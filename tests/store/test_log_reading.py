"""Reading: in order, by type, by the edges, and without holding a run in memory."""

import sqlite3
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from log_events import a_score, a_start, an_end, an_event, numbered, written

from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.events import Event
from evalwright.store import sqlite
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite import SqliteLog


def write(log: SqliteLog, run_id: str, events: list[NewEvent]) -> None:
    log.append(run_id, events)
    written(log, run_id)


def test_an_event_is_read_as_it_was_written(log: SqliteLog) -> None:
    body = '{"text":"naïve ✓ \\u0000 🙂"}'
    write(log, "run", [NewEvent("agent.decided", "task-1", 1_767_225_600_000_001, body.encode())])

    assert list(log.read("run")) == [
        Event("run", 0, "agent.decided", "task-1", 1_767_225_600_000_001, body.encode())
    ]


def test_only_the_types_asked_for_are_read_and_in_order(log: SqliteLog) -> None:
    write(log, "run", [a_start(), a_score("a"), an_event(), a_score("b"), an_end()])

    found = log.read("run", ["run.completed", "eval.scored"])

    assert [(event.sequence, event.type) for event in found] == [
        (1, "eval.scored"),
        (3, "eval.scored"),
        (4, "run.completed"),
    ]


def test_runs_are_listed_newest_first_and_keep_their_events_apart(log: SqliteLog) -> None:
    for run_id in ("b", "a", "c"):
        write(log, run_id, [a_start()])
    write(log, "b", [an_end()])

    assert log.run_ids() == ["c", "a", "b"]
    assert [event.type for event in log.read("b")] == ["run.started", "run.completed"]
    assert [event.type for event in log.read("c")] == ["run.started"]


@pytest.mark.parametrize(
    ("length", "edges"),
    [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (5, [0, 1, 3, 4])],
)
def test_the_edges_of_a_run_are_its_first_and_last_two_events(
    log: SqliteLog, length: int, edges: list[int]
) -> None:
    write(log, "other", numbered(0, 9))
    write(log, "run", numbered(0, length))

    assert [int(event.body) for event in log.edges("run")] == edges


def test_an_unknown_run_is_the_users_mistake(log: SqliteLog, path: Path) -> None:
    for ask in (lambda: list(log.read("unknown")), lambda: log.edges("unknown")):
        with pytest.raises(RunNotFound, match=f"no run unknown in {path}; see `evalwright runs`"):
            ask()
    assert issubclass(RunNotFound, BadInput)


def test_a_large_run_is_streamed(log: SqliteLog) -> None:
    for _ in range(10):
        write(log, "run", [an_event(body="x" * 1_000)] * 2_000)
    tracemalloc.start()
    try:
        count = sum(1 for _ in log.read("run"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 20_000
    assert peak < 100_000  # of 20 MB


def test_the_edges_of_a_large_run_are_found_without_reading_what_is_between(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteLog(path)
    write(log, "run", numbered(0, 20_000))
    log.close()
    steps: list[int] = []
    connect = sqlite._connect

    def counted(place: Path) -> sqlite3.Connection:
        connection = connect(place)
        connection.set_progress_handler(lambda: steps.append(100), 100)  # type: ignore[arg-type]
        return connection

    monkeypatch.setattr(sqlite, "_connect", counted)
    log = SqliteLog(path)
    steps.clear()
    assert len(log.edges("run")) == 4
    log.close()

    assert (
        sum(steps) < 2_000
    )  # instructions of SQLite; to look at each event takes 100,000 and more


def test_a_run_may_be_read_while_it_grows(log: SqliteLog) -> None:
    """A reader sees a state of the log that was true at some moment, and never a gap."""
    write(log, "run", numbered(0, 100))
    reading = log.read("run")
    seen = [next(reading).sequence]
    write(log, "run", numbered(100, 100))
    seen += [event.sequence for event in reading]

    assert len(seen) >= 100
    assert all(after == before + 1 for before, after in pairwise(seen))
    assert len(list(log.read("run"))) == 200


def test_several_runs_may_be_read_in_turns(log: SqliteLog) -> None:
    write(log, "a", numbered(0, 300))
    write(log, "b", numbered(0, 300))

    pairs = list(zip(log.read("a"), log.read("b"), strict=True))

    assert len(pairs) == 300
    assert all((a.run_id, b.run_id, a.sequence) == ("a", "b", b.sequence) for a, b in pairs)
