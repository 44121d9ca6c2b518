"""Limits that hold across workers: of providers, of tenants, of a run."""

import asyncio
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.events import RunCancelled
from evalwright.engine.fleet import rates
from evalwright.engine.fleet.rates import FleetRateLimits
from evalwright.engine.session import ModelPool
from evalwright.host.runs.fleet import FleetLimits
from evalwright.models.config import Config, ProviderSettings
from evalwright.models.protocol import ChatMessage, ModelError, Request, SharedModel
from evalwright.models.rate_limits import MinuteLimits, OwnRateLimits
from evalwright.models.scripted import ScriptedModel
from fleet.test_fleet_orders import event
from fleet.workers_here import Fleet, until

QUESTION = Request((ChatMessage("user", "Hi"),))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long calls were to wait, without waiting."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    class Time:
        pass

    time: Any = Time()
    time.sleep = sleep
    monkeypatch.setattr(rates, "asyncio", time)
    return found


def test_requests_of_a_provider_are_counted_whichever_worker_makes_them(
    fleet: Fleet, waits: list[float]
) -> None:
    async def work() -> None:
        limits = {"acme": MinuteLimits(requests=6)}
        async with fleet.database() as one, fleet.database() as two:
            workers = [FleetRateLimits(each, "t1", MinuteLimits(), limits) for each in (one, two)]
            for number in range(30):
                await workers[number % 2].enter("acme")

    asyncio.run(work())
    assert len(waits) >= 28, "all but the first, and none for free"
    assert 250 < max(waits) <= 290, "the thirtieth comes after five minutes"


def test_tokens_are_paid_before_the_next_call_of_the_tenant_begins(
    fleet: Fleet, waits: list[float]
) -> None:
    async def work() -> None:
        of_tenant = MinuteLimits(tokens=6_000)  # a hundred in a second
        async with fleet.database() as one, fleet.database() as two:
            first = FleetRateLimits(one, "spender", of_tenant, {})
            second = FleetRateLimits(two, "spender", of_tenant, {})
            other = FleetRateLimits(two, "frugal", of_tenant, {})
            await first.enter("acme")
            await first.pay("acme", 2_000)
            await other.enter("acme")
            assert waits == []
            await second.enter("acme")

    asyncio.run(work())
    assert len(waits) == 1
    assert 10 < waits[0] <= 20


def test_a_model_of_a_worker_waits_for_its_rations(fleet: Fleet, waits: list[float]) -> None:
    async def work() -> None:
        async with fleet.database() as database:
            rate_limits = FleetRateLimits(database, "t2", MinuteLimits(tokens=60), {})
            model = SharedModel(ScriptedModel("acme:small", lambda _: "a long answer"), rate_limits)
            await model.ask(QUESTION)
            await model.ask(QUESTION)

    asyncio.run(work())
    assert len(waits) == 1


def test_calls_that_wait_for_the_same_tokens_do_not_all_begin_then(
    fleet: Fleet, waits: list[float]
) -> None:
    async def work() -> None:
        limits = {"lab": MinuteLimits(tokens=6_000)}
        async with fleet.database() as one, fleet.database() as two:
            rate_limits = [
                FleetRateLimits(each, "t3", MinuteLimits(), limits) for each in (one, two)
            ]
            for each in rate_limits:
                await each.pay("lab", 100, await each.enter("lab"))
            for number in range(20):
                assert await rate_limits[number % 2].enter("lab") == 100
            await rate_limits[0].pay("lab", 0, 100)  # one that failed, and used nothing
            await rate_limits[1].enter("lab")

    asyncio.run(work())
    assert waits[-2] > 17, "the twentieth comes about twenty seconds later"
    assert waits[-1] == pytest.approx(waits[-2], abs=0.9), "in the place of the one that failed"


def test_calls_that_are_cancelled_while_they_wait_leave_their_tokens_to_others(
    fleet: Fleet,
) -> None:
    async def work() -> bool:
        async with fleet.database() as database:
            limits = {"vat": MinuteLimits(tokens=6_000)}
            rate_limits = FleetRateLimits(database, "t4", MinuteLimits(), limits)
            await rate_limits.pay("vat", 1_000, await rate_limits.enter("vat"))
            waiting = [asyncio.create_task(rate_limits.enter("vat")) for _ in range(5)]
            await until(lambda: _is_paid_for(fleet, 50))
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return await _is_paid_for(fleet, 11)

    assert not asyncio.run(work()), "only the call that was made is paid"


async def _is_paid_for(fleet: Fleet, seconds: int) -> bool:
    asked = (
        f"SELECT paid_until > now() + interval '{seconds} s'"
        " FROM fleet_rates WHERE scope = 'provider:vat'"
    )
    return bool((await asyncio.to_thread(fleet.ask, asked))[0][0])


def test_a_call_that_failed_gives_back_what_was_set_aside_for_it() -> None:
    now = [100.0]

    async def refuse(_: Any) -> Any:
        raise ModelError("timeout", "no")

    async def work() -> float:
        rate_limits = OwnRateLimits({"acme": MinuteLimits(tokens=60)}, lambda: now[0])
        await rate_limits.pay("acme", 30)
        now[0] += 60
        model = ScriptedModel("acme:small", lambda _: "yes")
        model.ask = refuse  # type: ignore[method-assign]
        with pytest.raises(ModelError):
            await SharedModel(model, rate_limits).ask(QUESTION)
        return rate_limits._paid_until["acme"]

    assert asyncio.run(work()) <= now[0], "the next call need not wait"


def test_one_process_holds_to_tokens_per_minute_by_itself() -> None:
    now, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    async def work() -> None:
        rate_limits = OwnRateLimits({"acme": MinuteLimits(tokens=60)}, lambda: now[0], sleep)
        await rate_limits.enter("acme")
        await rate_limits.pay("acme", 11)
        await rate_limits.enter("acme")

    asyncio.run(work())
    assert slept == [10.0]
    pool = ModelPool(Config(models={"openai": ProviderSettings(tokens_per_minute=60)}))
    assert pool._held_to is not None


def test_no_more_tasks_of_a_tenant_are_released_than_the_settings_allow(fleet: Fleet) -> None:
    async def work() -> list[Any]:
        config = Config(host={"fleet": {"tasks": 7, "tenants": {"small": {"tasks": 2}}}})
        async with fleet.database() as database:
            await FleetLimits(database, config).declare()
            await database.fetch(
                "INSERT INTO fleet_workers (worker, name, concurrency)"
                " VALUES (gen_random_uuid(), 'crew', 40)"
            )
            runs = []
            for tenant in ("small", "other"):
                plan = fleet.plan(a_suite(20), lambda _task: "yes", concurrency=20)
                runs.append(await fleet.hand_over(database, plan, tenant))
            due = await database.fetch("SELECT * FROM fleet_fill(NULL, 50)")
            numbers = await database.fetch(
                "SELECT owner, released FROM fleet_owners WHERE runs > 0 ORDER BY owner"
            )
            for run_id in runs:
                await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            assert len(due) < 50
            return [tuple(row) for row in numbers]

    assert asyncio.run(work()) == [("other", 7), ("small", 2)]
