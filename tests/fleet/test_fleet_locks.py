"""Who works on a run and who gives it orders never wait for each other in a circle."""

import asyncio
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
from evalwright.engine.fleet.queue import DueTask, TakenTask
from evalwright.engine.fleet.repair import reconcile
from evalwright.engine.history import History
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
        async with database.transaction() as connection:
            due = await database.due(connection, "SELECT * FROM fleet_fill(NULL, 12)")
            await database.queue.put(connection, due)
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


def test_an_order_waits_for_heartbeats_in_the_order_in_which_they_go_through_the_queue(
    fleet: Fleet,
) -> None:
    async def work() -> bool:
        async with twelve_due(fleet) as (database, run_id):
            rows = await database.fetch("SELECT id, dedupe_key FROM pgqueuer")
            places = {row["dedupe_key"].rpartition("/")[2]: row["id"] for row in rows}
            assert places["task-2"] < places["task-10"]

            def beat(task: str) -> Callable[[Any], Awaitable[Any]]:
                taken = [TakenTask(places[task], run_id, task)]
                return lambda connection: database.queue.keep(connection, taken)

            async with database.connection() as connection:
                await beat("task-2")(connection)  # which moves it behind the others in its table
            order = fleet.runs(database).pause(run_id, PAUSE, immediately=True)
            return await beside(fleet, database, beat("task-2"), order, beat("task-10"))

    assert asyncio.run(work())


def test_a_worker_held_within_a_transaction_keeps_the_tasks_that_the_transaction_is_not_about(
    fleet: Fleet,
) -> None:
    """The end of one task waits for its loop, which another task's agent holds."""
    late = "SELECT count(*) FROM pgqueuer WHERE heartbeat < $1"

    async def work() -> None:
        async with twelve_due(fleet) as (database, _run_id):
            worker, lanes = uuid.uuid4(), await database.fetch("SELECT lane FROM fleet_shares")
            async with database.connection() as connection:
                held = await database.queue.take(connection, worker, [lanes[0]["lane"]], 12)
            first = min(held, key=lambda each: each.row)  # heartbeats go through them in order
            heartbeats = HeartbeatProcess(database.url, worker, 0.05)
            try:
                async with asyncio.timeout(30), database.transaction() as connection:
                    await database.queue.drop(connection, [first])
                    taken_at = await connection.fetchval("SELECT clock_timestamp()")
                    await asyncio.to_thread(heartbeats.start)

                    async def all_are_kept() -> bool:
                        return (await database.fetchrow(late, taken_at))[0] == 1

                    await until(all_are_kept)
            finally:
                heartbeats.close()

    asyncio.run(work())


def test_a_cancel_holds_nothing_in_the_queue_while_it_waits_and_leaves_nothing_there(
    fleet: Fleet,
) -> None:
    """As when a task ends: its tenant is locked, others of its tasks are released, one is done."""

    async def work() -> tuple[bool, int]:
        async with fleet.database() as database:
            plan = fleet.plan(a_suite(12), right, concurrency=12)
            run_id = await fleet.hand_over(database, plan)
            (row,) = await database.fetch("SELECT id, dedupe_key FROM pgqueuer")
            done = [TakenTask(row["id"], run_id, "task-1")]

            async def release(connection: Any) -> None:
                await connection.execute("SELECT FROM fleet_owners FOR UPDATE")
                due = await database.due(connection, "SELECT * FROM fleet_release('local', 5)")
                assert len(due) == 5
                await database.queue.put(connection, due)

            said = await beside(
                fleet,
                database,
                release,
                fleet.runs(database).end(run_id, [CANCEL]),
                lambda connection: database.queue.drop(connection, done),
            )
            return said, (await database.fetchrow("SELECT count(*) FROM pgqueuer"))[0]

    assert asyncio.run(work()) == (True, 0)


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
                handed: Any = HandOver(history, owner, owner, database.queue)
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
            taken = [TakenTask(row, run_id, "task-1") for row in (1, 2)]
            written = await worker.ending.end(at_work, [second, first], taken)
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
def test_a_task_that_its_worker_gave_up_is_done_though_its_row_in_the_queue_is_gone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker lives, so nobody else takes the task from it."""
    asked: list[str] = []
    end = Ending.end

    async def fail_once(ending: Ending, *values: Any) -> set[str]:
        if not asked[1:]:
            await asyncio.to_thread(fleet.ask, "DELETE FROM pgqueuer")
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


@pytest.mark.usefixtures("soon_repaired")
def test_a_task_at_work_goes_on_though_the_queue_is_dropped_and_filled_again(fleet: Fleet) -> None:
    asked: list[str] = []

    async def all_asked() -> bool:
        return len(asked) >= 30

    async def answer(task: Any) -> str:
        asked.append(task.id)
        if len(asked) == 1:
            await asyncio.to_thread(fleet.ask, "DROP TABLE pgqueuer, pgqueuer_log CASCADE")
            await until(all_asked)
        return "yes"

    async def work() -> History:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(30), answer))
            async with fleet.workers(GivenEquipment(answer), count=2):
                return await fleet.ended(run_id)

    assert len(asyncio.run(work()).scored) == 30
    assert len(set(asked)) == len(asked) == 30, "each is invoked once"


def test_rows_of_runs_that_have_left_are_swept_from_the_queue(fleet: Fleet) -> None:
    async def work() -> list[str]:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(1), right))
            async with database.transaction() as connection:
                await database.queue.put(connection, [DueTask("run-gone", "a/b", "local|0")])
            await reconcile(database)
            rows = await database.fetch("SELECT dedupe_key FROM pgqueuer")
            await fleet.runs(database).end(run_id, [CANCEL])
            return [row[0].removeprefix(run_id) for row in rows]

    assert asyncio.run(work()) == ["/task-1"]
