"""The fleet's connections to PostgreSQL: transactions, patience with outages, word of new tasks.

Everything here works in the event loop of whoever awaits it.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from evalwright.contracts.errors import StoreUnavailable
from evalwright.store.postgres import address, statements
from evalwright.store.postgres.growth import RunGrowth, arrays
from evalwright.store.postgres.schema import EVERY_TENANT, SETTING
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.writer import Position

T = TypeVar("T")
Connection = Any  # of asyncpg, which has no types

MOST_CONNECTIONS = 4
MOST_HURRIED = 2
IDLE_SECONDS = 10.0  # after which a connection is closed, unless it is the last
STATEMENT_SECONDS = 10.0  # after which a server that does not answer is given up
LONG_SECONDS = 600.0  # for statements that concern a whole run, or all of them
FIRST_DELAY_SECONDS = 0.05
LONGEST_DELAY_SECONDS = 1.0
CHANNEL = "evalwright_due"
MOST_NAMED = 20  # lanes in one notice; beyond that, everybody looks for themselves

_logger = logging.getLogger(__name__)

OnDue = Callable[[Sequence[str]], None]  # called with the lanes in which tasks became due


_NOT_AT_THE_START = 1 << 40  # only the first events of a run have parts that others share


class _ConnectionWriter:
    """By what the log knows that an append of a connection is new."""

    def __init__(self) -> None:
        self.name = uuid.uuid4()
        self.appends = 0


class FleetDatabase:
    """A few connections that see the rows of every tenant; the log is for what is only read."""

    def __init__(self, url: str, log: EventLog) -> None:
        self.url = url
        self.log = log
        self._idle: dict[bool, list[Connection]] = {False: [], True: []}  # by whether they hurry
        self._writers: WeakKeyDictionary[Connection, _ConnectionWriter] = WeakKeyDictionary()
        self._grown: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._free = {
            False: asyncio.Semaphore(MOST_CONNECTIONS),
            True: asyncio.Semaphore(MOST_HURRIED),
        }
        self._due_lanes: set[str] = set()  # to be told of
        self._says_all = False  # that something happened which concerns everybody
        self._notifying: asyncio.Task[None] | None = None
        self._on_due: OnDue = lambda _: None
        self._is_away = False  # and everybody was told
        self._has_written = False

    @asynccontextmanager
    async def connection(self, *, hurried: bool = False) -> AsyncIterator[Connection]:
        """A connection, outside any transaction.

        A hurried one does not wait until a commit is durable: for what a crash of the server may
        undo without harm, such as taking and beginning a task.
        """
        idle = self._idle[hurried]
        async with self._free[hurried]:
            try:
                while idle and idle[-1].is_closed():
                    idle.pop()
                held = idle.pop() if idle else await self._connected(hurried=hurried)
                try:
                    yield held
                except BaseException:
                    held.terminate()  # nobody knows in which state it is
                    raise
            except StoreUnavailable:
                raise
            except Exception as error:
                if not address.may_pass(error):
                    raise
                raise address.unavailable(address.masked(self.url), error) from error
            if held.is_closed():
                return
            idle.append(held)
            # The one that nobody has needed for longest is closed: others may be short of one.
            now = time.monotonic()
            self._used_at[held] = now
            if len(idle) > 1 and self._used_at[idle[0]] < now - IDLE_SECONDS:
                closing = asyncio.create_task(self._close(idle.pop(0)))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def _close(self, connection: Connection) -> None:
        with suppress(Exception):
            if (writer := self._writers.get(connection)) is not None:
                await connection.execute(statements.FORGET, writer.name, timeout=1)
            await connection.close(timeout=1)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection within a transaction."""
        async with self.connection() as connection:
            async with atomic(connection):
                yield connection
            if (grown := self._grown.pop(connection, None)) is not None:
                self.log.publish(grown)

    async def _connected(self, *, hurried: bool = False) -> Connection:
        connection = await address.connect(self.url, statement_s=STATEMENT_SECONDS)
        try:
            await connection.execute(f"SET {SETTING} = '{EVERY_TENANT}'")
            if hurried:
                await connection.execute("SET synchronous_commit = off")
                return connection
            if not self._has_written:
                await address.refuse_reader(connection)
            writer = self._writers[connection] = _ConnectionWriter()
            await connection.execute(statements.REGISTER, writer.name, 0)
        except address.ReaderLogin as error:
            connection.terminate()
            raise address.explain(address.masked(self.url), error) from None
        except BaseException:  # whoever waited for it may have been stopped
            connection.terminate()
            raise
        self._has_written = True
        return connection

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement."""
        async with self.connection() as connection:
            rows: list[Any] = await connection.fetch(statement, *values)
            return rows

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        """The first row of a statement."""
        async with self.connection() as connection:
            return await connection.fetchrow(statement, *values)

    async def patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that may be done twice, again and again while the database is away."""
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                result = await work()
            except Exception as error:
                if not may_pass(error):
                    raise
                if delay > LONGEST_DELAY_SECONDS and not self._is_away:
                    self._is_away = True
                    _logger.warning("the database is out of reach, trying again: %s", error)
                for idle in self._idle.values():  # most likely lost, too
                    while idle:
                        idle.pop().terminate()
            else:
                if self._is_away:
                    self._is_away = False
                    _logger.warning("the database is within reach again")
                return result
            await asyncio.sleep(min(delay, LONGEST_DELAY_SECONDS))
            delay *= 2

    # Events, in the transaction of their caller.

    async def append(
        self, connection: Connection, run_id: str, run: int, events: Sequence[NewEvent]
    ) -> None:
        """Append events to a run, by its number in the log; others hear of it after the commit."""
        if not events:
            return
        self._grown.setdefault(connection, []).append(run_id)
        growth = RunGrowth(run_id, Position(run, _NOT_AT_THE_START, ""), None)
        growth.add(events)
        writer = self._writers[connection]
        writer.appends += 1
        values = writer.name, writer.appends, 1, *arrays([growth], {})
        rows = await connection.fetch(statements.APPEND, *values, timeout=LONG_SECONDS)
        if not rows[0]["taken"]:  # it was idle for so long that it was forgotten
            await connection.execute(statements.REGISTER, writer.name, writer.appends - 1)
            rows = await connection.fetch(statements.APPEND, *values, timeout=LONG_SECONDS)
        statements.refuse_unknown_writer(rows[0]["taken"])

    # Tasks that became due.

    async def due(self, connection: Connection, statement: str, *values: Any) -> list[str]:
        """The lanes in which a function of the fleet has released tasks."""
        rows = await connection.fetch(statement, *values, timeout=LONG_SECONDS)
        return [row["due_lane"] for row in rows]

    def announce(self, lanes: Sequence[str]) -> None:
        """Tell workers in which lanes tasks are due, once the transaction has ended.

        Several times are one soon after.
        """
        if not lanes:
            return
        self._on_due(lanes)
        self._due_lanes.update(lanes)
        self._notify_soon()

    def announce_end(self) -> None:
        """Tell workers to see which tasks are still theirs."""
        self._on_due(())
        self._says_all = True
        self._notify_soon()

    def _notify_soon(self) -> None:
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.create_task(self._notify())

    async def _notify(self) -> None:
        with suppress(Exception):  # they look for themselves, too
            while self._due_lanes or self._says_all:
                lanes, self._due_lanes = self._due_lanes, set()
                is_named = len(lanes) <= MOST_NAMED and not self._says_all
                named, self._says_all = "\n".join(sorted(lanes)) if is_named else "", False
                async with self.connection(hurried=True) as connection:
                    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, named)

    async def listen(self, on_due: OnDue) -> None:
        """Call back when tasks become due, here or elsewhere; a broken connection is replaced."""
        self._on_due = on_due

        def notified(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            on_due(payload.split("\n") if payload else ())

        while True:
            broken = asyncio.Event()
            connection = await self.patiently(lambda: self._connected(hurried=True))
            connection.add_termination_listener(lambda _, event=broken: event.set())
            try:
                await connection.add_listener(CHANNEL, notified)
                on_due(())  # of what happened meanwhile
                await broken.wait()
            except Exception as error:
                if not may_pass(error):
                    raise
            finally:
                connection.terminate()

    async def refuse(self, run_id: str, worker: uuid.UUID, reason: str) -> None:
        """Say why a worker leaves a run to others."""
        statement = (
            "INSERT INTO fleet_refusals (run_id, tenant, worker, reason)"
            " SELECT r.run_id, r.tenant, w.worker, $3 FROM fleet_workers w, fleet_runs r"
            " WHERE w.worker = $2 AND r.run_id = $1"
            " ON CONFLICT (run_id, worker) DO UPDATE SET reason = EXCLUDED.reason"
        )
        await self.patiently(lambda: self.fetch(statement, run_id, worker, reason))

    async def close(self) -> None:
        """Close the connections."""
        if self._notifying is not None:
            await asyncio.wait((self._notifying,), timeout=1)
        for connection in (*self._idle[False], *self._idle[True]):
            await self._close(connection)
        await asyncio.gather(*self._closing)
        self._idle = {False: [], True: []}


@asynccontextmanager
async def atomic(connection: Connection) -> AsyncIterator[None]:
    """A transaction; one that is given up is not rolled back, as that may have no answer either."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    except (TimeoutError, asyncio.CancelledError):
        connection.terminate()
        raise
    except BaseException:
        await transaction.rollback()
        raise
    await transaction.commit()


async def persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Do what never ends: where it fails, that is told, and it is begun anew."""
    while True:
        try:
            await work()
        except Exception:
            _logger.exception("it is tried again")
        await asyncio.sleep(LONGEST_DELAY_SECONDS)


def may_pass(error: Exception) -> bool:
    """Whether the same may succeed later, when the database is within reach again."""
    return isinstance(error, StoreUnavailable) or address.may_pass(error)
