"""The store as an event loop uses it, which must not wait for a database on another machine."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import TypeVar

from evalwright.store.protocol import EventLog
from evalwright.store.records import Forget, Records

T = TypeVar("T")
_OLDER = "SELECT 1 FROM records WHERE kind = $1 AND at_us < $2 LIMIT 1"


async def read_soon(records: Records, share: str, read: Callable[[], T]) -> T:
    """Read something small: at once from a file, else on a thread of the log, in turn."""
    if records.is_local:
        return read()
    return await asyncio.wrap_future(records.in_reader(share, read))


async def forget_old(records: Records, kind: str, before_us: int) -> None:
    """Delete the documents of a kind that were last written before a time, some at a time."""
    while await read_soon(records, "", lambda: records.rows(_OLDER, kind, before_us)):
        await asyncio.wrap_future(records.write([Forget(kind, before_us)]))


@asynccontextmanager
async def claimed(log: EventLog, run_id: str) -> AsyncIterator[None]:
    """Hold the sole right to execute a run; raises `RunBusy`.

    To be cancelled meanwhile takes effect in the context, and ends neither claiming nor releasing.
    """
    held = ExitStack()
    await _whole(log, lambda: held.enter_context(log.claim(run_id)))
    try:
        yield
    finally:
        await _whole(log, held.close)


async def _whole(log: EventLog, work: Callable[[], None]) -> None:
    """Do something that is done to its end, also if the task is cancelled meanwhile."""
    if log.records.is_local:
        work()
        return
    done = asyncio.ensure_future(asyncio.to_thread(work))
    is_cancelled = False
    while not done.done():
        try:
            await asyncio.wait((done,))
        except asyncio.CancelledError:
            is_cancelled = True
    task = asyncio.current_task()
    if is_cancelled and task is not None:
        task.cancel()
    done.result()
