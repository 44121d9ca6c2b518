"""Several workers at once, none of which outlives the others; and event loops that end in time."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_SECONDS = 2

# Tasks that would not end. They are kept: one that also refuses to be collected would spin for ever
# while the interpreter shuts down.
LEFT_BEHIND: list["asyncio.Task[Any]"] = []


async def run_workers(count: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run so many workers to their end; when one fails or all are cancelled, none is left."""
    workers = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def run_until_signalled(
    work: Coroutine[Any, Any, T],
    signals: Sequence[signal.Signals],
    notify: Callable[[], None] = lambda: None,
) -> T:
    """Run to the end in a loop of its own; a signal cancels it. Raises `CancelledError` then."""

    async def main() -> T:
        task = asyncio.ensure_future(work)
        with _cancelled_by(signals, task, notify):
            return await task

    loop = asyncio.new_event_loop()
    return complete(loop, loop.create_task(main()))


def complete(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]") -> T:
    """Run a task to its end and close the loop; unlike `asyncio.run`, wait for no other task."""
    try:
        while True:
            try:
                return loop.run_until_complete(task)
            except SystemExit:  # of a task that an agent made; it concerns whoever awaits that task
                if task.done():
                    raise
    finally:
        _abandon_rest(loop)
        loop.close()


def _abandon_rest(loop: asyncio.AbstractEventLoop) -> None:
    """Give agents that were cancelled a moment to clean up; one that will not end is left."""
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        _, unending = loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_SECONDS))
        LEFT_BEHIND.extend(unending)
    loop.set_exception_handler(lambda _loop, _context: None)  # no complaint about those left
    loop.run_until_complete(loop.shutdown_asyncgens())


@contextmanager
def _cancelled_by(
    signals: Sequence[signal.Signals], task: "asyncio.Future[Any]", notify: Callable[[], None]
) -> Iterator[None]:
    """Let the first of these signals cancel a task; a second one does what it did before."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        restore()
        notify()
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
