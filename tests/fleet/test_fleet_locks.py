"""Who works on a run and who gives it orders never wait for each other in a circle."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.events import RunCancelled, RunPaused, RunResumed
from evalwright.engine.fleet import repair
from evalwright.engine.fleet import worker as worker_module
from evalwright.engine.fleet.endings import Ending
from evalwright.engine.fleet.handover import HandOver
from evalwright.engine.fleet.heartbeat import HeartbeatProcess
from evalwright.engine.fleet.queue import lease_tasks
from evalwright.engine.fleet.worker import Worker, WorkerSettings
from evalwright.engine.history import History
from evalwright.store.postgres import address
from evalwright.store.protocol import NewEvent
from fleet.test_fencing import BEGIN, HandWorker, events_of_task, right
from fleet.test_fleet_orders import event
from fleet.workers_here import CLOCK, PATIENCE_SECONDS, Fleet, GivenEquipment, until

PAUSE = event(RunPaused("now", "immediate"))
CANCEL = event(RunCancelled("enough", "test"))
_BLOCKED = (
    "SELECT count(*) > 0 FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def is_blocked(fleet: Fleet) -> bool:
    """Whether somebody waits for a lock."""
    return bool((await asyncio.to_thread(fleet.ask, _BLOCKED))[0][0])


@asynccontextmanager
async def twelve_due(fleet: Fleet) -> AsyncIterator[tuple[Any, str]]:
    """A run whose tasks are all due; `task-10` comes before `task-2`, and after it in the queue."""
    async with fleet.database() as database:
        run_id = await fleet.hand_over(database, fleet.plan(a_suite(12), right, concurrency=12))
        await database.fetch("SELECT * FROM fleet_fill(NULL, 12)")
        yield database, run_id
        await fleet.runs(database).end(run_id, [CANCEL])


async def beside(
    fleet: Fleet,
    database: Any,
    first: Callable[[Any], Awaitable[Any]],
    order: Coroutine[Any, Any, bool],
    second: Callable[[Any], Awaitable[Any]],
) -> bool:
    """One transaction does two things, and an order is given in between; what it says."""
    async with asyncio.timeout(30), database.transaction() as connection:
        await first(connection)
        given = asyncio.create_task(order)
        await until(lambda: is_blocked(fleet))
        await second(connection)
    return await given


@pytest.mark.parametrize("order", ["pause", "cancel"])
def test_an_order_waits_for_tasks_in_the_order_in_which_they_are_begun(
    fleet: Fleet, order: str
) -> None:
    async def work() -> bool:
        async with twelve_due(fleet) as (database, run_id):
            worker, runs = HandWorker(database, right), fleet.runs(database)
            given = (
                runs.pause(run_id, PAUSE, immediately=True)
                if order == "pause"
                else runs.end(run_id, [CANCEL])
            )
            return await beside(  # as in one call, which goes through tasks by their ids
                fleet,
                database,
                lambda c: c.fetch(BEGIN, worker.worker, [run_id], ["task-10"]),
                given,
                lambda c: c.fetch(BEGIN, worker.worker, [run_id], ["task-2"]),
            )

    assert asyncio.run(work())


def test_a_worker_held_within_a_transaction_keeps_its_tasks(fleet: Fleet) -> None:
    """The end of one task waits for its loop, which another task's agent holds."""

    async def work() -> list[int]:
        async with twelve_due(fleet) as (database, _run_id):
            held, other = uuid.uuid4(), uuid.uuid4()
            (lane,) = {row["lane"] for row in await database.fetch("SELECT lane FROM fleet_shares")}
            await database.fetch(
                "INSERT INTO fleet_workers (worker, name, concurrency) VALUES ($1, 'held', 12)",
                held,
            )

            async def taken(by: uuid.UUID) -> int:
                async with database.connection() as connection:
                    return len(await lease_tasks(connection, by, [lane], 12, 1.0))

            counts = [await taken(held)]
            heartbeats = HeartbeatProcess(database.url, held, 0.05)
            seen = "SELECT seen_at FROM fleet_workers WHERE worker = $1"
            before = (await database.fetchrow(seen, held))[0]
            try:
                async with asyncio.timeout(30), database.transaction() as connection:
                    await connection.execute("SELECT FROM attempts WHERE state = 1 FOR UPDATE")
                    await asyncio.to_thread(heartbeats.start)

                    async def is_heard_of_for_longer_than_a_lease() -> bool:
                        passed = (await database.fetchrow(seen, held))[0] - before
                        return bool(passed.total_seconds() > 1.5)

                    await until(is_heard_of_for_longer_than_a_lease)
                counts.append(await taken(other))
            finally:
                heartbeats.close()

            async def is_free() -> bool:
                return await taken(other) == 12

            await until(is_free)
            return counts

    assert asyncio.run(work()) == [12, 0]


def test_a_worker_that_says_it_is_there_is_not_heard_of_at_an_earlier_time_than_before(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop was held within a transaction while another process sent heartbeats for it."""
    seen = "SELECT seen_at > $2 FROM fleet_workers WHERE worker = $1"

    async def work() -> list[bool]:
        async with fleet.database() as database:
            worker = Worker(database, GivenEquipment(right), WorkerSettings("held"))
            await worker._register()
            async with database.transaction() as begun_before:
                await begun_before.fetchval("SELECT now()")
                later = await begun_before.fetchval("SELECT clock_timestamp()")
                use = contextlib.nullcontext(begun_before)
                with monkeypatch.context() as patched:
                    patched.setattr(database, "connection", lambda: use)
                    await worker._register()
            return [row[0] for row in await database.fetch(seen, worker.worker, later)]

    assert asyncio.run(work()) == [True]


def test_a_worker_takes_no_task_that_it_has_even_if_it_was_not_heard_of(fleet: Fleet) -> None:
    async def work() -> list[int]:
        async with twelve_due(fleet) as (database, _run_id):
            worker, other = uuid.uuid4(), uuid.uuid4()
            (lane,) = {row["lane"] for row in await database.fetch("SELECT lane FROM fleet_shares")}
            register = "INSERT INTO fleet_workers (worker, name, concurrency) VALUES ($1, '', 12)"
            await database.fetch(register, worker)
            async with database.connection() as connection:
                return [
                    len(await lease_tasks(connection, by, [lane], 12, 0.0))
                    for by in (worker, worker, other)
                ]

    assert asyncio.run(work()) == [12, 0, 12]


def test_hosts_that_hand_over_runs_of_the_same_tenants_do_not_wait_in_a_circle(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that are created at a moment are one transaction, in whatever order they came."""
    applied: list[str] = []
    apply = HandOver.apply

    async def note(handed: HandOver, connection: Any) -> None:
        applied.append(handed.locks)
        await apply(handed, connection)

    monkeypatch.setattr(HandOver, "apply", note)

    async def work() -> None:
        async with fleet.database() as database:
            plan = fleet.plan(a_suite(1), right)

            def create(owner: str) -> Awaitable[Any]:
                history = History(f"run-of-{owner}", plan, CLOCK.now_us())
                handed: Any = HandOver(history, owner, owner)
                opening = [NewEvent("run.started", None, CLOCK.now_us(), b"{}")]
                log = fleet.log.for_tenant(owner)
                return asyncio.wrap_future(log.request(history.run_id, opening, [handed]))

            async with database.transaction() as connection:
                await connection.execute(
                    "SELECT FROM fleet_owners WHERE owner = 'local' FOR UPDATE"
                )
                created = [create("local")]
                await until(lambda: is_blocked(fleet))
                created += [create(owner) for owner in ("zeno", "mill")]
            await asyncio.gather(*created)
            for owner in ("local", "zeno", "mill"):
                assert await fleet.runs(database).end(f"run-of-{owner}", [CANCEL])

    fleet.ask("INSERT INTO fleet_owners (owner) VALUES ('local') ON CONFLICT DO NOTHING")
    asyncio.run(work())
    assert applied == ["local", "mill", "zeno"], "the two that waited for the first are one write"


# What is left behind.


def test_an_attempt_that_was_taken_away_is_not_written_with_the_next_one(fleet: Fleet) -> None:
    async def work() -> tuple[str, set[str]]:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(2), right, concurrency=2))
            worker, runs = HandWorker(database, right), fleet.runs(database)
            assert await worker.begin(run_id, "task-1") == ("go", 1)
            first = await worker.work(run_id, "task-1", 1)
            assert await runs.pause(run_id, PAUSE, immediately=True)
            assert await runs.resume(run_id, event(RunResumed(None)))
            assert await worker.begin(run_id, "task-1") == ("go", 2)
            second = await worker.work(run_id, "task-1", 2)
            at_work = (await worker.runs.load(run_id)).at_work  # type: ignore[union-attr]
            written = await worker.ending.end(at_work, [second, first])
            await runs.end(run_id, [CANCEL])
            return run_id, written

    run_id, written = asyncio.run(work())
    assert written == {"task-1"}
    assert events_of_task(fleet, run_id, "task-1").count("eval.scored") == 1


@pytest.fixture
def soon_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that look after the queue all the time."""
    monkeypatch.setattr(worker_module, "RECONCILE_SECONDS", 0.1)
    monkeypatch.setattr(worker_module, "MOST_BEAT_SECONDS", 0.1)
    monkeypatch.setattr(repair, "APART_SECONDS", 0)


@pytest.mark.usefixtures("soon_repaired")
def test_a_task_that_its_worker_gave_up_is_done_though_the_worker_lives(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker lives, so nobody else takes the task from it."""
    asked: list[str] = []
    end = Ending.end

    async def fail_once(ending: Ending, *values: Any) -> set[str]:
        if not asked[1:]:
            raise ValueError("nobody expected that")
        return await end(ending, *values)

    monkeypatch.setattr(Ending, "end", fail_once)

    def answer(task: Any) -> str:
        asked.append(task.id)
        return "yes"

    async def work() -> History:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(1), answer))
            async with fleet.workers(GivenEquipment(answer), count=1):
                return await fleet.ended(run_id)

    assert asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS)).scored == {"task-1"}
    assert asked == ["task-1"] * 2


def test_whoever_is_stopped_while_connecting_leaves_no_connection_open(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    connect = address.connect

    async def slow_to_prepare(*given: Any, **named: Any) -> Any:
        connection = await connect(*given, **named)
        made.append(connection)
        monkeypatch.setattr(type(connection), "execute", lambda *_: asyncio.sleep(60))
        return connection

    async def work() -> None:
        async with fleet.database() as database:
            monkeypatch.setattr(address, "connect", slow_to_prepare)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await database.fetch("SELECT 1")

    asyncio.run(work())
    assert [connection.is_closed() for connection in made] == [True]
