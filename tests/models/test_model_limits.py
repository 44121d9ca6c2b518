"""The gate before a provider: how many at once, how many in a minute, and what a 429 changes."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asking import Time, VirtualLoop, a_request, model_at
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.limits import HOPELESS_AFTER_S, MOST_CLOSURES, Limiter, NoTurn
from evalwright.models.retries import TOTAL_S, RetryPolicy
from evalwright.models.transport import HttpAnswer


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 120))


def limiter(concurrency: int, per_minute: float | None = None) -> tuple[Limiter, Time]:
    time = Time()
    return Limiter(concurrency, per_minute, clock=lambda: time.now, sleep=time.sleep), time


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=30))
def test_never_more_than_allowed_and_everyone_gets_in(most: int, stays: list[int]) -> None:
    gate, _ = limiter(most)
    inside, peak, served = 0, 0, 0

    async def visit(turns: int) -> None:
        nonlocal inside, peak, served
        async with gate.turn():
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
        async with gate.turn():
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
        async with gate.turn():
            served.append(-1)

    run(scene())
    assert served[-1] == -1
    assert served[:-1] == sorted(served[:-1])


def test_a_refusal_halves_and_successes_raise_it_slowly_again() -> None:
    async def scene() -> None:
        gate, _ = limiter(16)
        async with gate.turn() as ticket:
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
        async with AsyncExitStack() as stack:
            tickets = [await stack.enter_async_context(gate.turn()) for _ in range(10)]
            for ticket in tickets:
                gate.refused(ticket, None)
        assert gate.allowed == 8

    run(scene())


def test_one_call_is_always_allowed() -> None:
    async def scene() -> None:
        gate, _ = limiter(4)
        for _ in range(10):
            async with gate.turn() as ticket:
                gate.refused(ticket, None)
        assert gate.allowed == 1
        async with gate.turn():
            pass

    run(scene())


def test_after_a_refusal_nobody_begins_until_the_provider_allows() -> None:
    async def scene() -> None:
        gate, time = limiter(4)
        async with gate.turn() as ticket:
            gate.refused(ticket, 20.0)
        async with gate.turn():
            assert time.now == 1020.0
        async with gate.turn():
            assert time.slept == [20.0]

    run(scene())


def test_requests_per_minute_are_spread_over_the_minute() -> None:
    async def scene() -> None:
        gate, time = limiter(100, per_minute=60)
        for _ in range(31):
            async with gate.turn():
                pass
        assert 28 <= time.now - 1000 <= 31

    run(scene())


def test_after_a_refusal_requests_are_spread_wider() -> None:
    async def scene() -> None:
        gate, time = limiter(100, per_minute=60)
        async with gate.turn() as ticket:
            gate.refused(ticket, None)
        for _ in range(11):
            async with gate.turn():
                pass
        assert 18 <= time.now - 1000 <= 23

    run(scene())


def test_who_is_cancelled_while_the_gate_is_closed_leaves_its_place() -> None:
    async def scene() -> None:
        gate = Limiter(1)
        async with gate.turn() as ticket:
            gate.refused(ticket, 100.0)
        waiting = asyncio.create_task(gate.turn().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert gate._busy == 0

    run(scene())


def test_who_waits_for_a_place_until_the_deadline_gets_none_and_takes_none() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        gate = Limiter(1, clock=loop.time)
        async with gate.turn():
            with pytest.raises(NoTurn):
                await gate.turn(loop.time() + 300).__aenter__()
            assert loop.time() == 300
        async with gate.turn(loop.time() + 300):
            pass

    VirtualLoop.run(scene())


def test_who_waits_for_the_provider_to_open_until_the_deadline_leaves_its_place() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        gate = Limiter(1, clock=loop.time)
        async with gate.turn() as ticket:
            gate.refused(ticket, 100.0)
        with pytest.raises(NoTurn):
            await gate.turn(loop.time() + 20).__aenter__()
        async with gate.turn():
            assert loop.time() == 100

    VirtualLoop.run(scene())


async def close_again_and_again(gate: Limiter, times: int, seconds: float) -> None:
    for _ in range(times):
        async with gate.turn() as ticket:
            gate.refused(ticket, seconds)


def test_a_provider_that_closes_again_and_again_is_not_waited_for_by_anyone() -> None:
    async def scene() -> None:
        gate = Limiter(1, clock=asyncio.get_running_loop().time)
        await close_again_and_again(gate, MOST_CLOSURES - 1, 60)
        async with gate.turn() as ticket:
            waiting = [asyncio.create_task(gate.turn().__aenter__()) for _ in range(3)]
            await asyncio.sleep(1)
            gate.refused(ticket, 60)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [NoTurn] * 3
        with pytest.raises(NoTurn):
            await gate.turn().__aenter__()

    VirtualLoop.run(scene())


def test_when_a_hopeless_closure_is_over_the_next_call_finds_out() -> None:
    async def scene() -> None:
        gate = Limiter(1, clock=asyncio.get_running_loop().time)
        await close_again_and_again(gate, MOST_CLOSURES, 60)
        await asyncio.sleep(60)
        async with gate.turn():
            gate.succeeded()
        await close_again_and_again(gate, 1, 60)
        async with gate.turn():
            pass

    VirtualLoop.run(scene())


def test_many_short_closures_are_waited_for() -> None:
    async def scene() -> None:
        gate = Limiter(1, clock=asyncio.get_running_loop().time)
        await close_again_and_again(gate, int(HOPELESS_AFTER_S) - 1, 1.0)
        async with gate.turn():
            pass

    VirtualLoop.run(scene())


class AlwaysRefusing:
    """A provider without a network that lets nobody through and asks all to wait a minute."""

    def __init__(self) -> None:
        self.calls = 0

    async def post(self, path: str, body: bytes) -> HttpAnswer:
        self.calls += 1
        await asyncio.sleep(0.1)
        return HttpAnswer(429, {"retry-after": "60"}, b"{}")


def test_a_provider_that_refuses_everybody_is_given_up_by_all_within_minutes() -> None:
    refusing = AlwaysRefusing()

    async def scene() -> list[Any]:
        loop = asyncio.get_running_loop()
        model = model_at("http://127.0.0.1:1", concurrency=4)
        model._channel.retries = RetryPolicy(5, clock=loop.time, chance=lambda: 1.0)
        model._channel.limiter = Limiter(4, clock=loop.time)
        model._channel.transport = refusing  # type: ignore[assignment]
        calls = [model.ask(a_request(str(number))) for number in range(500)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert loop.time() <= TOTAL_S + 60
        return ends

    ends = VirtualLoop.run(scene())
    assert {getattr(end, "code", end) for end in ends} == {"rate_limited"}
    assert any("lower concurrency or requests_per_minute" in str(end) for end in ends)
    assert refusing.calls < 20
