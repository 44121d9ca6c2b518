"""The connections that read: on an event loop of their own, for threads that wait for rows."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from evalwright.contracts.errors import EvalwrightError, StoreError
from evalwright.store.postgres import address
from evalwright.store.postgres.schema import EVERY_TENANT, SETTING

if TYPE_CHECKING:
    from asyncpg import Connection

T = TypeVar("T")

MOST_READING = 16  # connections
KEPT_READING = 2  # of them, however long nobody reads
IDLE_SECONDS = 10.0  # after which others are closed
READ_SECONDS = 60.0  # after which a read is given up
SILENT_SECONDS = 1.0  # the same, as long as the server does not answer anything

Tenants = str  # the value of SETTING: an array of tenants, or EVERY_TENANT


def tenants_of(names: Iterable[str | None]) -> Tenants:
    """The setting with which the rows of these tenants are seen; of all, if one is None."""
    found = set(names)
    if None in found:
        return EVERY_TENANT
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in map(str, found))
    return "{" + ",".join(f'"{name}"' for name in sorted(escaped)) + "}"


class TenantConnection:
    """A connection, and whose rows it sees at present."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.tenants: Tenants | None = None
        self.used_at = 0.0

    async def see(self, tenants: Tenants) -> "Connection":
        if tenants != self.tenants:
            self.tenants = None
            await self.connection.execute(f"SET {SETTING} = {quoted(tenants)}")
            self.tenants = tenants
        return self.connection


def quoted(text: str) -> str:
    """A literal of SQL."""
    if "\0" in text:
        raise StoreError("PostgreSQL keeps no text with a null character")
    return "'" + text.replace("'", "''") + "'"


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop, of the faster kind where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LogConnections:
    """A few connections to a database, for any thread."""

    def __init__(self, url: str, place: str, read_seconds: float = READ_SECONDS) -> None:
        self._read_seconds = read_seconds
        self.url = url
        self.place = place
        self._change = threading.Lock()  # guards the next two
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._idle: list[TenantConnection] = []
        self._free = asyncio.Semaphore(MOST_READING)
        self._endings: set[asyncio.Task[None]] = set()  # of connections that were given up
        self._is_silent = False  # the server, when it was last asked for nothing but an answer
        self._asking: asyncio.Task[None] | None = None  # for that

    def refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"{self.place}: the event log is closed")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except EvalwrightError:
            raise
        except Exception as error:
            raise address.explain(self.place, error) from error
        finally:
            work.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._change:
            self.refuse_closed()
            if self._loop is None:
                self._loop = new_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="event-log-connections", daemon=True
                )
                self._thread.start()
            return self._loop

    def query(self, tenants: Tenants, statement: str, *values: Any) -> "list[Any]":
        return self.run(self.fetch(tenants, statement, *values))

    async def fetch(self, tenants: Tenants, statement: str, *values: Any) -> "list[Any]":
        """All rows of a statement that may be executed twice: a connection may have been lost.

        While the server does not answer, those who ask next do not wait as long as the first. That
        a read takes too long does not mean that: a mere answer is asked for beside it.
        """
        most = self.waits_s
        loop = asyncio.get_running_loop()
        soon = loop.call_later(max(0.0, most - SILENT_SECONDS), self._ask_beside)
        try:
            async with asyncio.timeout(most), self._free:
                rows = await self._rows(tenants, statement, values)
        except TimeoutError:
            if self._asking is not None and self._asking.done() and not self._is_silent:
                raise address.SlowRead(f"a read took longer than {most:g} s") from None
            self._is_silent = True
            raise
        finally:
            soon.cancel()
        self._is_silent = False
        return rows

    @property
    def waits_s(self) -> float:
        return min(SILENT_SECONDS if self._is_silent else self._read_seconds, self._read_seconds)

    def _ask_beside(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                connection = await address.connect(self.url)
                try:
                    await connection.execute("SELECT 1")
                finally:
                    connection.terminate()
        except Exception as error:  # noqa: BLE001 - a refusal is an answer, too
            self._is_silent = not address.state(error)
        else:
            self._is_silent = False

    async def _rows(self, tenants: Tenants, statement: str, values: Sequence[Any]) -> "list[Any]":
        while True:
            was_idle = bool(self._idle)
            if was_idle:
                fits = (n for n, each in enumerate(self._idle) if each.tenants == tenants)
                held = self._idle.pop(max(fits, default=0))
            else:
                held = await self._connected()
            try:
                rows: list[Any] = await (await held.see(tenants)).fetch(statement, *values)
            except BaseException as error:
                is_given_up = not isinstance(error, Exception)  # it may never answer
                if is_given_up:
                    # Tell the server that nobody waits for the answer, and close the connection.
                    ending = asyncio.get_running_loop().create_task(_close(held.connection))
                    self._endings.add(ending)
                    ending.add_done_callback(self._endings.discard)
                elif address.is_lost(error) or held.connection.is_closed():
                    held.connection.terminate()
                    if was_idle:
                        continue  # perhaps it was lost long ago
                else:
                    self._keep(held)
                raise
            self._keep(held)
            return rows

    def _keep(self, held: TenantConnection) -> None:
        """Keep a connection for the next; one not needed for long is closed: others may lack it."""
        self._idle.append(held)
        held.used_at = time.monotonic()
        if len(self._idle) > KEPT_READING and self._idle[0].used_at < held.used_at - IDLE_SECONDS:
            self._idle.pop(0).connection.terminate()

    async def transact(self, tenants: Tenants, work: "Callable[[Connection], Awaitable[T]]") -> T:
        """Do something in one transaction; nothing of it is tried again."""
        async with self._free:
            while self._idle and self._idle[-1].connection.is_closed():
                self._idle.pop()
            held = self._idle.pop() if self._idle else await self._connected()
            try:
                connection = await held.see(tenants)
                async with connection.transaction():
                    result = await work(connection)
            except BaseException:
                held.connection.terminate()
                raise
            self._keep(held)
            return result

    async def _connected(self) -> TenantConnection:
        return TenantConnection(await address.connect(self.url))

    def close(self) -> None:
        with self._change:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._disconnect(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _disconnect(self) -> None:
        while self._idle:
            await _close(self._idle.pop().connection)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(connection: "Connection") -> None:
    try:
        await connection.close(timeout=1)
    except BaseException:  # noqa: BLE001 - it is of no use any more
        connection.terminate()
