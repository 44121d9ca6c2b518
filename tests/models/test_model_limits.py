"""The gate before a provider: how many at once, how many in a minute, and what a 429 changes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from asking import Time
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.limits import Limiter


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 30))


def limiter(concurrency: int, per_minute: float | None = None) -> tuple[Limiter, Time]:
    time = Time()
    return Limiter(concurrency, per_minute, clock=lambda: time.now, sleep=time.sleep), time


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=30))
def test_never_more_than_allowed_and_everyone_gets_in(most: int, stays: list[int]) -> None:
    gate, _ = limiter(most)
    inside, peak, served = 0, 0, 0

    async def visit(turns: int) -> None:
        nonlocal inside, peak, served
        async with gate:
            inside += 1
            peak = max(peak, inside)
            for _ in range(turns):
                await asyncio.sleep(0)
            inside -= 1
            served += 1

    async def scene() -> None:
        await asyncio.gather(*(visit(turns) for turns in stays))

    run(scene())
    assert served == len(stays)
    assert peak <= most


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_who_is_cancelled_while_waiting_takes_no_place(cancelled: list[bool]) -> None:
    gate, _ = limiter(1)
    served: list[int] = []

    async def visit(number: int) -> None:
        async with gate:
            await asyncio.sleep(0)
            served.append(number)

    async def scene() -> None:
        tasks = [asyncio.create_task(visit(number)) for number in range(len(cancelled))]
        await asyncio.sleep(0)
        for task, is_cancelled in zip(tasks, cancelled, strict=True):
            if is_cancelled:
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        async with gate:
            served.append(-1)

    run(scene())
    assert served[-1] == -1
    assert served[:-1] == sorted(served[:-1])


def test_a_refusal_halves_and_successes_raise_it_slowly_again() -> None:
    async def scene() -> None:
        gate, _ = limiter(16)
        async with gate as ticket:
            gate.refused(ticket, None)
        assert gate.allowed == 8
        for _ in range(8):
            gate.succeeded()
        assert 8 <= gate.allowed <= 9
        for _ in range(500):
            gate.succeeded()
        assert gate.allowed == 16

    run(scene())


def test_calls_that_are_refused_together_count_once() -> None:
    async def scene() -> None:
        gate, _ = limiter(16)
        tickets = [await gate.__aenter__() for _ in range(10)]
        for ticket in tickets:
            gate.refused(ticket, None)
            await gate.__aexit__(None, None, None)
        assert gate.allowed == 8

    run(scene())


def test_one_call_is_always_allowed() -> None:
    async def scene() -> None:
        gate, _ = limiter(4)
        for _ in range(10):
            async with gate as ticket:
                gate.refused(ticket, None)
        assert gate.allowed == 1
        async with gate:
            pass

    run(scene())


def test_after_a_refusal_nobody_begins_until_the_provider_allows() -> None:
    async def scene() -> None:
        gate, time = limiter(4)
        async with gate as ticket:
            gate.refused(ticket, 20.0)
        async with gate:
            assert time.now == 1020.0
        async with gate:
            assert time.slept == [20.0]

    run(scene())


def test_requests_per_minute_are_spread_over_the_minute() -> None:
    async def scene() -> None:
        gate, time = limiter(100, per_minute=60)
        for _ in range(31):
            async with gate:
                pass
        assert 28 <= time.now - 1000 <= 31

    run(scene())


def test_after_a_refusal_requests_are_spread_wider() -> None:
    async def scene() -> None:
        gate, time = limiter(100, per_minute=60)
        async with gate as ticket:
            gate.refused(ticket, None)
        for _ in range(11):
            async with gate:
                pass
        assert 18 <= time.now - 1000 <= 23

    run(scene())


def test_who_is_cancelled_while_the_gate_is_closed_leaves_its_place() -> None:
    async def scene() -> None:
        gate = Limiter(1)
        async with gate as ticket:
            gate.refused(ticket, 100.0)
        waiting = asyncio.create_task(gate.__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert gate._busy == 0

    run(scene())
