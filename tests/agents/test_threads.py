"""Sync functions run in threads: as many as there are calls at once; instant ones in one."""

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

from evalwright.agents.user_code import PROVEN, Threads


async def prove_instant(threads: Threads) -> None:
    while threads._instant < PROVEN:
        await threads.run(str, 0)


def test_instant_calls_of_one_turn_are_handed_to_one_thread() -> None:
    async def scene() -> tuple[int, list[str]]:
        threads = Threads()
        await prove_instant(threads)
        handed = SimpleQueue[Any]()
        threads._batches, real = handed, threads._batches
        made = [threads.start(str, number) for number in range(8)]
        await asyncio.sleep(0)
        count = handed.qsize()
        while not handed.empty():
            real.put(handed.get())
        threads._batches = real
        return count, await asyncio.gather(*made)

    assert asyncio.run(scene()) == (1, ["0", "1", "2", "3", "4", "5", "6", "7"])


def test_a_call_that_is_not_instant_after_all_keeps_no_other_waiting() -> None:
    async def scene() -> list[str]:
        threads, gate, order = Threads(), threading.Event(), list[str]()
        others_are_done = asyncio.Event()
        await prove_instant(threads)

        async def call(name: str, function: Any) -> None:
            await threads.run(function, None)
            order.append(name)
            if len(order) == 3:
                others_are_done.set()

        names = ["before", "stuck", "after", "last"]
        calls = [
            call(name, (lambda _: gate.wait(120)) if name == "stuck" else (lambda _: None))
            for name in names
        ]
        stuck = asyncio.gather(*calls)
        await others_are_done.wait()
        gate.set()
        await stuck
        return order

    order = asyncio.run(scene())
    assert order[-1] == "stuck"
    assert sorted(order[:3]) == ["after", "before", "last"]


def test_calls_that_wait_are_made_at_once_after_instant_ones() -> None:
    async def scene() -> list[int]:
        threads, meeting = Threads(), threading.Barrier(5)
        await prove_instant(threads)
        calls = [threads.start(lambda _: meeting.wait(120), None) for _ in range(5)]
        return list(await asyncio.gather(*calls))

    # They meet, so none of them waited for another.
    assert sorted(asyncio.run(scene())) == [0, 1, 2, 3, 4]


def test_what_a_call_raises_is_raised_for_whoever_asked_for_it() -> None:
    async def scene() -> list[Any]:
        threads = Threads()
        await prove_instant(threads)
        calls = [threads.start(int, text) for text in ("1", "one", "2")]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, failed, second = asyncio.run(scene())
    assert (first, second) == (1, 2)
    assert isinstance(failed, ValueError)


def test_a_call_that_was_cancelled_before_it_began_is_not_made() -> None:
    async def scene() -> list[int]:
        threads, made = Threads(), list[int]()
        await prove_instant(threads)
        calls = [threads.start(made.append, number) for number in range(3)]
        calls[1].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return made

    assert sorted(asyncio.run(scene())) == [0, 2]
