"""Events for the log, and looks into its file that go around the code under test."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from evalwright.store.location import Patience
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.sqlite.log import SqliteLog

PATIENCE = 300  # seconds, for what takes a moment: only a test that fails waits so long
UNUSUAL = 3600  # seconds, for a gathering time that no test would survive

Place = Path | str  # a file, or the address of a PostgreSQL database


def opened(place: Place, patience: Patience | None = None) -> EventLog:
    """The log in a place."""
    if isinstance(place, Path):
        return SqliteLog(place, patience=patience)
    return PostgresLog(place, patience=patience)


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
def nobody_can_write(place: Place) -> Iterator[None]:
    """Hold the write lock of the database: the writer waits, and the queue grows."""
    if isinstance(place, Path):
        with raw_connection(place) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        return
    with postgres_connection(place) as execute:
        execute("BEGIN")
        execute("LOCK TABLE writers IN ACCESS EXCLUSIVE MODE")
        yield
        execute("ROLLBACK")


@contextmanager
def postgres_connection(address: str) -> Iterator[Callable[..., list[Any]]]:
    """A connection of the superuser, as a function that executes a statement."""
    import asyncpg

    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(address))
    try:
        yield lambda *given: loop.run_until_complete(connection.fetch(*given))
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


def asked(place: Place, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a statement, as any other program would read them; `?` stands for a value."""
    if isinstance(place, Path):
        with raw_connection(place) as connection:
            return connection.execute(statement, values).fetchall()
    for number in range(1, len(values) + 1):
        statement = statement.replace("?", f"${number}", 1)
    with postgres_connection(place) as execute:
        return [tuple(row) for row in execute(statement, *values)]


def rows_of(place: Place, run_id: str = "run") -> list[tuple[int, str]]:
    """Sequence and type of every event of a run."""
    statement = "SELECT seq, type FROM events JOIN runs USING (run) WHERE run_id = ? ORDER BY seq"
    return asked(place, statement, run_id)  # type: ignore[return-value]


def types_of(path: Place, run_id: str = "run") -> list[str]:
    """The types of a run's events; fails where there is a gap."""
    rows = rows_of(path, run_id)
    assert [sequence for sequence, _ in rows] == list(range(len(rows)))
    return [kind for _, kind in rows]
