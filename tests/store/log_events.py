"""Events for the log, and looks into its file that go around the code under test."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from evalwright.store.protocol import EventLog, NewEvent

PATIENCE = 120  # seconds, for what takes a moment: only a test that fails waits so long
UNUSUAL = 3600  # seconds, for a gathering time that no test would survive


def an_event(kind: str = "agent.decided", task_id: str | None = None, body: str = "{}") -> NewEvent:
    return NewEvent(kind, task_id, 1_767_225_600_000_000, body.encode())


def a_start() -> NewEvent:
    return an_event("run.started")


def a_score(task_id: str = "task-1") -> NewEvent:
    return an_event("eval.scored", task_id)


def an_end(kind: str = "run.completed") -> NewEvent:
    return an_event(kind)


def numbered(first: int, count: int = 1) -> list[NewEvent]:
    """Events whose bodies are the sequences that they should get."""
    return [an_event(body=str(number)) for number in range(first, first + count)]


def written(log: EventLog, run_id: str = "run") -> None:
    """Wait until everything that was appended to the run is durable."""
    log.flush(run_id).result(PATIENCE)


@contextmanager
def raw_connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that knows nothing of Evalwright."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def nobody_can_write(path: Path) -> Iterator[None]:
    """Hold the write lock of the database: the writer waits, and the queue grows."""
    with raw_connection(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def rows_of(path: Path, run_id: str = "run") -> list[tuple[int, str]]:
    """Sequence and type of every event of a run, as any other program would read them."""
    with raw_connection(path) as connection:
        return connection.execute(
            "SELECT seq, type FROM events JOIN runs USING (run) WHERE run_id = ? ORDER BY seq",
            (run_id,),
        ).fetchall()


def types_of(path: Path, run_id: str = "run") -> list[str]:
    """The types of a run's events; fails where there is a gap."""
    rows = rows_of(path, run_id)
    assert [sequence for sequence, _ in rows] == list(range(len(rows)))
    return [kind for _, kind in rows]


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition holds; fail when it does not before the deadline."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.001)
