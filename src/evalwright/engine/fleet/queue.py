"""Which tasks are due: a port of a few methods, and PgQueuer behind it.

A row of the queue names a task, `[run_id, task_id]`, and says nothing else. It is a hint: what
counts is the attempt in `attempts` and the score in the log, so a row that is lost, taken twice or
left over does no harm. All of them can be dropped; `reconciling` puts back what is due.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from evalwright.store.postgres.queue_tables import queue_settings

if TYPE_CHECKING:
    from pgqueuer.queries import Queries

Connection = Any  # of asyncpg, which has no types
LEASE_SECONDS = 8.0  # without a heartbeat, after which another worker takes a task
BEATS_PER_LEASE = 4
_AT_ONCE = timedelta(0)


class DueTask(NamedTuple):
    """A task that may begin; `lane` decides which workers take it."""

    run_id: str
    task_id: str
    lane: str

    @property
    def key(self) -> str:
        """What the queue holds once at most."""
        return f"{self.run_id}/{self.task_id}"


class TakenTask(NamedTuple):
    """A row of the queue that this worker holds."""

    row: Any  # of the queue behind the port
    run_id: str
    task_id: str


def by_run(taken: Sequence[TakenTask]) -> dict[str, list[TakenTask]]:
    """Tasks, by the ids of their runs."""
    runs: dict[str, list[TakenTask]] = {}
    for each in taken:
        runs.setdefault(each.run_id, []).append(each)
    return runs


class TaskQueue(Protocol):
    """What the fleet asks of a queue; every call works within the transaction of its connection."""

    async def put(self, connection: Connection, due: Sequence[DueTask]) -> None:
        """Add tasks; those that it holds already stay as they are."""

    async def take(
        self, connection: Connection, worker: uuid.UUID, lanes: Sequence[str], most: int
    ) -> list[TakenTask]:
        """Take tasks, the first first; also those whose worker has not been heard of for long."""

    async def keep(self, connection: Connection, taken: Sequence[TakenTask]) -> None:
        """Say that they are still worked on."""

    async def drop(self, connection: Connection, taken: Sequence[TakenTask]) -> None:
        """Forget tasks that need no more work."""

    async def give_back(
        self, connection: Connection, taken: Sequence[TakenTask], delay_s: float
    ) -> None:
        """Let another worker take tasks, after a while."""

    async def withdraw(self, connection: Connection, keys: Sequence[str]) -> None:
        """Forget the tasks with these keys, whoever holds them."""

    async def keys(self, connection: Connection) -> set[str]:
        """The keys of all tasks that it holds."""

    async def sweep(self, connection: Connection) -> None:
        """Delete what it keeps about tasks that are done."""


class _Driver:
    """What PgQueuer's queries need of a connection, within whatever transaction it is in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *values: object) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(query, *values)
        return rows

    async def execute(self, query: str, *values: object) -> str:
        return str(await self._connection.execute(query, *values))


class PgQueuer:
    """PgQueuer's tables and statements, without its loop.

    Its loop deletes a job whose handler raised, and its trigger notifies within the transaction
    that writes. So workers have a loop of their own, and there is no trigger.

    Whoever needs several rows locks them by their ids, and after everything else: heartbeats do.
    """

    def __init__(self, lease_s: float = LEASE_SECONDS) -> None:
        from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
        from pgqueuer.queries import Queries

        self._settings = queue_settings()
        self._environment = QueryBuilderEnvironment(self._settings)
        self._builder = QueryQueueBuilder(self._settings)
        self._queries = Queries
        self._lease = timedelta(seconds=lease_s)

    def _on(self, connection: Connection) -> "Queries":
        driver: Any = _Driver(connection)
        return self._queries(driver, qbe=self._environment, qbq=self._builder)

    async def put(self, connection: Connection, due: Sequence[DueTask]) -> None:
        """Add tasks; those that it holds already stay as they are."""
        if not due:
            return
        bodies: list[bytes | None] = [
            msgspec.json.encode([each.run_id, each.task_id]) for each in due
        ]
        keys: list[str | None] = [each.key for each in due]
        await self._on(connection).enqueue(
            [each.lane for each in due],
            bodies,
            [0] * len(due),
            [_AT_ONCE] * len(due),
            keys,
            on_conflict="skip",
        )

    async def take(
        self, connection: Connection, worker: uuid.UUID, lanes: Sequence[str], most: int
    ) -> list[TakenTask]:
        """Take tasks, the first first; also those whose worker has not been heard of for long."""
        query = self._builder.build_dequeue_query(
            batch_size=most,
            entrypoints=lanes,  # type: ignore[arg-type]  # their own type of text
            concurrency_limits=[0] * len(lanes),
            queue_manager_id=worker,  # type: ignore[arg-type]
            global_concurrency_limit=None,
            heartbeat_timeout=self._lease,
        )
        rows = await connection.fetch(query.sql, *query.args)
        return [TakenTask(row["id"], *msgspec.json.decode(row["payload"])) for row in rows]

    async def keep(self, connection: Connection, taken: Sequence[TakenTask]) -> None:
        """Say that they are still worked on."""
        if taken:
            await self._on(connection).update_heartbeat([each.row for each in taken])

    async def drop(self, connection: Connection, taken: Sequence[TakenTask]) -> None:
        """Forget tasks that need no more work."""
        if taken:
            await connection.execute(
                f"DELETE FROM {self._settings.queue_table} WHERE id = ANY ($1)",  # noqa: S608
                [each.row for each in taken],
            )

    async def give_back(
        self, connection: Connection, taken: Sequence[TakenTask], delay_s: float
    ) -> None:
        """Let another worker take tasks, after a while."""
        query, delay = self._builder.build_retry_job_query(), timedelta(seconds=delay_s)
        for row in sorted(each.row for each in taken):
            await connection.execute(query, row, delay, None)

    async def withdraw(self, connection: Connection, keys: Sequence[str]) -> None:
        """Forget the tasks with these keys, whoever holds them."""
        table = self._settings.queue_table
        found = f"SELECT id FROM {table} WHERE dedupe_key = ANY ($1)"  # noqa: S608
        await connection.execute(
            f"DELETE FROM {table} WHERE id = ANY (ARRAY({found} ORDER BY id FOR UPDATE))",  # noqa: S608
            keys,
        )

    async def keys(self, connection: Connection) -> set[str]:
        """The keys of all tasks that it holds."""
        table = self._settings.queue_table
        rows = await connection.fetch(f"SELECT dedupe_key FROM {table}")  # noqa: S608 - a constant
        return {row["dedupe_key"] for row in rows}

    async def sweep(self, connection: Connection) -> None:
        """Delete what it keeps about tasks that are done."""
        await self._on(connection).clear_queue_log()
