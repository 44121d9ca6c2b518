"""Several workers at once, none of which outlives the others; and event loops that end in time."""

import asyncio
import errno
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from evalwright.contracts.errors import CannotEvaluate

T = TypeVar("T")

GRACE_SECONDS = 2
CLOSED_DESCRIPTORS = (
    "the agent's code closed descriptors that are not its own: the run cannot go on in this process"
)
CANCELLED = (
    "the agent's code cancelled tasks of the event loop that are not its own: the run cannot go on"
)
_STOPPED = "Event loop stopped before Future completed."

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

    is_stopped = False
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    before = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        nonlocal is_stopped
        is_stopped = True
        restore()  # a second signal does what it did before
        notify()
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, stop)
    task.add_done_callback(lambda _: restore())
    try:
        return complete(loop, task)
    except asyncio.CancelledError:
        if is_stopped:
            raise
        raise CannotEvaluate(CANCELLED) from None


def complete(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]") -> T:
    """Run a task to its end and close the loop; unlike `asyncio.run`, wait for no other task."""
    try:
        while True:
            try:
                return loop.run_until_complete(task)
            except SystemExit:  # of a task that an agent made; it concerns whoever awaits that task
                if task.done():
                    raise
            except RuntimeError as error:
                if task.done() or str(error) != _STOPPED:
                    raise
                # An agent has stopped the loop, which is not its own.
    except OSError as error:
        if task.done() or error.errno not in (errno.EBADF, errno.EINVAL):
            raise
        raise CannotEvaluate(CLOSED_DESCRIPTORS) from None
    finally:
        with suppress(OSError, RuntimeError):  # of a loop whose descriptors are closed
            rest = asyncio.all_tasks(loop)
            for each in rest:
                each.cancel()
            if rest:  # a moment for agents to clean up; one that will not end is left
                _, unending = loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_SECONDS))
                LEFT_BEHIND.extend(unending)
            loop.set_exception_handler(lambda _loop, _context: None)  # no complaint about those
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
