"""What processes tell each other: which runs have grown, once for many appends and after them.

NOTIFY within the transaction of an append would halve how many there can be. Here it is sent
afterwards, by a connection that also listens. Whoever hears of a run reads the log. Nothing is
missed while the connection is away: hearers are told to look at everything, again and again.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evalwright.store.postgres import address
from evalwright.store.postgres.connections import LogConnections
from evalwright.store.protocol import News

if TYPE_CHECKING:
    from asyncpg import Connection

CHANNEL = "evalwright_news"
TOGETHER_SECONDS = 0.02  # in which what is told waits for more
APART_SECONDS = 0.1  # between two times that a process tells something: each costs an append
CHECK_SECONDS = 3.0  # after which a silent connection is tried out
ANSWER_SECONDS = 3.0  # that it has to answer
RETRY_SECONDS = (0.2, 1.0)  # until it is opened again: at first, and at most
MOST_BYTES = 7900  # of a payload; PostgreSQL allows 8000

_logger = logging.getLogger(__name__)


class RunNews:
    """Tells other processes of runs, and hears of theirs."""

    def __init__(self, connections: LogConnections) -> None:
        self._connections = connections
        self._process = secrets.token_hex(6)  # who tells: nobody needs to hear of himself
        self._change = threading.Lock()  # guards the next two
        self._untold: dict[str, None] = {}
        self._work: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()  # there is something to do, or the connection is gone
        self._subscribers: list[News] = []
        self._is_closing = False
        self._next = 0.0  # time of the loop, before which nothing is told

    def publish(self, run_ids: Iterable[str]) -> None:
        """Let other processes hear of runs, soon; any thread may call it, and does not wait."""
        with self._change:
            is_first = not self._untold
            self._untold.update(dict.fromkeys(run_ids))
        if is_first:
            self._wake()

    def subscribe(self, news: News) -> None:
        self._subscribers.append(news)
        self._wake()

    def close(self) -> None:
        self._is_closing = True
        if self._work is not None:
            with suppress(Exception):
                self._connections.run(self._finish())

    async def _finish(self) -> None:
        self._awake.set()
        assert self._work is not None
        await asyncio.wait((self._work,), timeout=ANSWER_SECONDS)
        self._work.cancel()

    def _wake(self) -> None:
        if not self._is_closing:
            self._connections.loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._awake.set()
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._stay_connected())

    async def _stay_connected(self) -> None:
        delay = RETRY_SECONDS[0]
        while not self._is_closing:
            try:
                connection = await address.connect(self._connections.url)
                delay = RETRY_SECONDS[0]
                try:
                    await self._serve(connection)
                finally:
                    connection.terminate()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                _logger.debug("news of runs are not heard: %s", type(error).__name__)
            self._pass_on(None)
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_SECONDS[1])

    async def _serve(self, connection: "Connection") -> None:
        connection.add_termination_listener(lambda _: self._awake.set())
        # All who notify wait for each other's commits, and nobody needs news after a crash.
        await connection.execute("SET synchronous_commit = off")
        is_listening = False
        while not connection.is_closed():
            if self._subscribers and not is_listening:
                is_listening = True
                await connection.add_listener(CHANNEL, self._on_notification)
                self._pass_on(None)  # what was told before is in the log
            self._awake.clear()
            if self._untold:
                now = asyncio.get_running_loop().time
                if not self._is_closing:
                    await asyncio.sleep(max(TOGETHER_SECONDS, self._next - now()))
                self._next = now() + APART_SECONDS
                with self._change:
                    untold, self._untold = self._untold, {}
                try:
                    for payload in _payloads(self._process, untold):
                        await connection.execute(
                            "SELECT pg_notify($1, $2)", CHANNEL, payload, timeout=ANSWER_SECONDS
                        )
                except BaseException:
                    with self._change:
                        self._untold = {**untold, **self._untold}
                    raise
            elif self._is_closing:
                return
            else:  # a connection may be cut off without a sign
                try:
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._awake.wait()
                except TimeoutError:
                    await connection.execute("SELECT 1", timeout=ANSWER_SECONDS)

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        process, _, run_ids = str(payload).partition(" ")
        if process != self._process:
            self._pass_on(run_ids.split(","))

    def _pass_on(self, run_ids: Sequence[str] | None) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(run_ids)
            except Exception:
                _logger.exception("a subscriber of news failed")


def _payloads(process: str, run_ids: Iterable[str]) -> Iterator[str]:
    room = MOST_BYTES - len(process)
    part: list[str] = []
    for run_id in run_ids:
        if part and sum(map(len, part)) + len(part) + len(run_id) > room:
            yield f"{process} {','.join(part)}"
            part = []
        part.append(run_id)
    if part:
        yield f"{process} {','.join(part)}"
