"""Heartbeats of a worker whose event loop is held: sent by a process of their own.

While the loop works, it sends them itself. Code of the user may hold it, or the whole interpreter,
for longer than a lease; others would then take tasks that are being worked on, and pay for them
once more. A thread would be held as well, so another process looks after the worker, over a
connection of its own, until the worker ends, is stopped, or is not heard of for `HELD_SECONDS`.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.store.postgres import address
from evalwright.store.postgres.schema import EVERY_TENANT, SETTING

if TYPE_CHECKING:
    from asyncpg import Connection

HELD_SECONDS = 300.0  # for which a loop may be held; then others take its tasks
STATEMENT_SECONDS = 5.0
_LATE = 1.25  # times the interval of heartbeats, after which the loop counts as held

_SEEN = "UPDATE fleet_workers SET seen_at = clock_timestamp() WHERE worker = $1"


class HeartbeatProcess:
    """The process, as its worker sees it: it hears from the worker while the loop works."""

    def __init__(self, address: str, worker: uuid.UUID, beat_s: float) -> None:
        self._facts = [address, str(worker), beat_s, os.getpid()]
        self._child: subprocess.Popen[bytes] | None = None

    def report(self) -> None:
        """Report that the loop works; a process that has ended is replaced."""
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(  # noqa: S603 - this module
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the worker ends it, not Ctrl-C
            )
            assert self._child.stdin is not None
            os.set_blocking(self._child.stdin.fileno(), False)
            self._write(json.dumps(self._facts).encode())
        self._write(b"\n")

    def start(self) -> None:
        """Wait until the process is ready."""
        self.report()
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.read(1)

    def _write(self, message: bytes) -> None:
        if self._child is None or self._child.stdin is None:
            return
        try:
            os.write(self._child.stdin.fileno(), message)
        except OSError:  # it has ended, or does not read
            self.close()

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


class _WatchedWorker:
    """What the process knows of its worker."""

    def __init__(self, url: str, worker: str, beat_s: float, pid: int) -> None:
        self.heard_at = time.monotonic()
        self.beat_s = beat_s
        self._url = url
        self._worker = uuid.UUID(worker)
        self._pid = pid
        self._connection: Connection | None = None

    @property
    def is_orphan(self) -> bool:
        """Whether the worker has ended."""
        return os.getppid() != self._pid

    async def beat(self) -> None:
        """Send a heartbeat in place of a loop that is held; the connection is kept ready."""
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await address.connect(self._url, statement_s=STATEMENT_SECONDS)
                await self._connection.execute(f"SET {SETTING} = '{EVERY_TENANT}'")
            silent_s = time.monotonic() - self.heard_at
            if not _LATE * self.beat_s < silent_s < HELD_SECONDS or is_stopped(self._pid):
                return
            await self._connection.execute(_SEEN, self._worker)
        except Exception:  # noqa: BLE001 - the database is away: it is tried again
            if self._connection is not None:
                self._connection.terminate()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: it works on nothing until it goes on."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] in "Tt"
    except FileNotFoundError:  # another system
        found = subprocess.run(  # noqa: S603
            ["/bin/ps", "-o", "state=", "-p", str(pid)], capture_output=True, check=False
        )
        return found.stdout.startswith(b"T")


async def _watch_worker() -> None:
    """Send heartbeats in place of a worker until its end of the pipe is closed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    watch = _WatchedWorker(*json.loads(await reader.readline()))

    async def listen() -> None:
        while await reader.read(4096):
            watch.heard_at = time.monotonic()

    listening = asyncio.ensure_future(listen())
    await watch.beat()
    os.write(1, b".")  # it is ready
    while not watch.is_orphan and not listening.done():
        await watch.beat()
        await asyncio.wait((listening,), timeout=watch.beat_s / 2)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, ValueError):  # the worker ended before it had said anything
        asyncio.run(_watch_worker())
