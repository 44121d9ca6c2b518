"""Workers share one queue: every task is handed out once."""

import asyncio

from evalwright.engine.queue import LocalQueue


def test_every_task_is_handed_out_once_and_then_there_is_none():
    async def taken(queue: LocalQueue) -> list[int]:
        return [index async for index in _all(queue)]

    async def workers() -> list[list[int]]:
        queue = LocalQueue(range(100))
        return await asyncio.gather(*(taken(queue) for _ in range(7)))

    handed_out = asyncio.run(workers())
    assert sorted(index for indexes in handed_out for index in indexes) == list(range(100))


async def _all(queue: LocalQueue):
    while (index := await queue.take()) is not None:
        yield index
        await asyncio.sleep(0)
