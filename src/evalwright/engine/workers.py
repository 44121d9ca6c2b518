"""Several workers at once, none of which outlives the others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def run_workers(count: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run so many workers to their end; when one fails or all are cancelled, none is left."""
    workers = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
