"""Ctrl-C: the first stops the run in good order, the second at once; and no other sudden exits."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

from evalwright.cli.output import say
from evalwright.contracts.errors import Interrupted

T = TypeVar("T")

GRACE_SECONDS = 2

# Tasks that would not end. They are kept: one that also refuses to be collected would spin for ever
# while the interpreter shuts down.
LEFT_BEHIND: list["asyncio.Task[Any]"] = []


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or raise `Interrupted` on SIGINT and SIGTERM."""

    async def main() -> T:
        task = asyncio.ensure_future(work)
        with _stopping(task):
            return await task

    loop = asyncio.new_event_loop()
    try:
        return _run_to_the_end(loop, loop.create_task(main()))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise Interrupted("interrupted") from None
    finally:
        _abandon_rest(loop)
        loop.close()


def _run_to_the_end(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]") -> T:
    while True:
        try:
            return loop.run_until_complete(task)
        except SystemExit:  # of a task that an agent made; it concerns whoever awaits that task
            if task.done():
                raise


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
def _stopping(task: "asyncio.Future[Any]") -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        restore()
        with suppress(RuntimeError):  # the signal came while stderr was being written to
            say("stopping; Ctrl-C again stops at once")
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()


@contextmanager
def no_sudden_exit() -> Iterator[None]:
    """Let `os._exit` fail in this process; in a forked child it ends the child, as it must.

    Exits from C code, and replacing the process, cannot be caught: a Python agent is trusted code.
    """
    real, process = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            real(status)
        raise RuntimeError(f"os._exit({status}) was called: an agent cannot end the run")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = real
