"""Ctrl-C: the first stops the run in good order, the second at once."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from evalwright.contracts.errors import Interrupted

T = TypeVar("T")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or raise `Interrupted` on SIGINT and SIGTERM."""

    async def main() -> T:
        task = asyncio.ensure_future(work)
        with _stopping(task):
            return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise Interrupted from None


@contextmanager
def _stopping(task: "asyncio.Future[Any]") -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
