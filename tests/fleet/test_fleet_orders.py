"""What is asked of runs that workers have: pause, cancel, and what they wait for."""

import asyncio
from typing import Any

import msgspec

from builders import a_suite
from evalwright.contracts.events import RunCancelled, RunPaused, RunResumed
from evalwright.engine.fleet.repair import reconcile
from evalwright.engine.fleet.status import fleet_metrics, waiting_for
from evalwright.engine.history import History
from evalwright.store.protocol import NewEvent
from fleet.workers_here import CLOCK, Fleet, GivenEquipment, until


def event(payload: Any) -> NewEvent:
    return NewEvent(payload.TYPE, None, CLOCK.now_us(), msgspec.json.encode(payload))


class Gate:
    """An agent that answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.opens = asyncio.Event()

    async def answer(self, task: Any) -> str:
        self.asked.append(task.id)
        await self.opens.wait()
        return "yes"


def test_a_paused_run_begins_no_more_tasks_until_it_is_resumed(fleet: Fleet) -> None:
    async def work() -> tuple[list[str], History]:
        gate = Gate()
        plan = fleet.plan(a_suite(6), gate.answer, concurrency=2)
        async with fleet.database() as database, fleet.workers(GivenEquipment(gate.answer)):
            run_id = await fleet.hand_over(database, plan)
            await until(lambda: asyncio.sleep(0, len(gate.asked) == 2))
            paused = RunPaused("lunch", "drain-current-node")
            assert await fleet.runs(database).pause(run_id, event(paused))
            assert not await fleet.runs(database).pause(run_id, event(paused)), "once is enough"
            gate.opens.set()
            scored = "SELECT count(*) FROM attempts WHERE state IN (2, 3)"
            await until(lambda: _holds(database, f"SELECT ({scored}) = 2"))
            assert await waiting_for(database, run_id) == "the run is paused"
            asked = list(gate.asked)
            assert await fleet.runs(database).resume(run_id, event(RunResumed(None)))
            return asked, await fleet.ended(run_id)

    asked, history = asyncio.run(work())
    assert sorted(asked) == ["task-1", "task-2"]
    assert history.status == "completed"
    assert len(history.scored) == 6


def test_a_run_that_is_paused_at_once_gives_its_tasks_up_and_does_them_later(fleet: Fleet) -> None:
    async def work() -> tuple[int, History]:
        gate = Gate()
        plan = fleet.plan(a_suite(4), gate.answer, concurrency=2)
        equipment = GivenEquipment(gate.answer)
        async with fleet.database() as database, fleet.workers(equipment) as two:
            run_id = await fleet.hand_over(database, plan)
            await until(lambda: asyncio.sleep(0, len(gate.asked) == 2))
            paused = event(RunPaused("now", "immediate"))
            assert await fleet.runs(database).pause(run_id, paused, immediately=True)
            await until(lambda: asyncio.sleep(0, not any(worker.at_work for worker in two)))
            gate.opens.set()
            at_work = "SELECT count(*) = 0 FROM attempts WHERE state <> 0"
            assert await _holds(database, at_work), "nothing came of what was interrupted"
            asked = len(gate.asked)
            assert await fleet.runs(database).resume(run_id, event(RunResumed(None)))
            return asked, await fleet.ended(run_id)

    asked, history = asyncio.run(work())
    assert asked == 2
    assert history.status == "completed"
    assert len(history.scored) == 4


def test_orders_that_interrupt_a_task_are_no_attempts_that_it_lost(fleet: Fleet) -> None:
    async def work() -> tuple[int, History]:
        gate = Gate()
        plan = fleet.plan(a_suite(1), gate.answer)
        equipment = GivenEquipment(gate.answer)
        async with (
            fleet.database() as database,
            fleet.workers(equipment, count=1, most_attempts=1) as (worker,),
        ):
            runs, run_id = fleet.runs(database), await fleet.hand_over(database, plan)
            for times in (1, 2, 3):
                await until(lambda times=times: asyncio.sleep(0, len(gate.asked) == times))  # type: ignore[misc]
                paused = event(RunPaused("now", "immediate"))
                assert await runs.pause(run_id, paused, immediately=True)
                await until(lambda: asyncio.sleep(0, not worker.at_work))
                assert await runs.resume(run_id, event(RunResumed(None)))
            gate.opens.set()
            return worker.leases_lost, await fleet.ended(run_id)

    leases_lost, history = asyncio.run(work())
    assert history.status == "completed"
    assert history.tally.passed_count == 1
    assert history.attempts == {"task-1": 4}, "all of them are in the log"
    assert leases_lost == 0


async def _holds(database: Any, question: str) -> bool:
    row = await database.fetchrow(question)
    return bool(row[0])


def test_a_cancelled_run_keeps_its_scores_and_its_tasks_are_given_up(fleet: Fleet) -> None:
    async def work() -> tuple[Gate, History]:
        gate = Gate()
        plan = fleet.plan(a_suite(4), gate.answer, concurrency=2)
        async with fleet.database() as database, fleet.workers(GivenEquipment(gate.answer)) as two:
            run_id = await fleet.hand_over(database, plan)
            await until(lambda: asyncio.sleep(0, len(gate.asked) == 2))
            ending = event(RunCancelled("enough", "test"))
            assert await fleet.runs(database).end(run_id, [ending])
            await until(lambda: asyncio.sleep(0, not any(worker.at_work for worker in two)))
            assert not await fleet.runs(database).end(run_id, [ending])
            return gate, await fleet.ended(run_id)

    gate, history = asyncio.run(work())
    assert history.status == "cancelled"
    assert len(gate.asked) == 2
    assert fleet.ask("SELECT count(*) FROM attempts")[0][0] == 0


def test_a_run_is_left_to_workers_that_can_load_its_agent(fleet: Fleet) -> None:
    async def work() -> tuple[str | None, str | None, History]:
        plan = fleet.plan(a_suite(3), lambda _task: "yes")
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            alone = await waiting_for(database, run_id)
            unable = GivenEquipment(lambda _task: "no", refusal="agent.py: no such file")
            async with fleet.workers(unable, count=1):

                async def is_refused() -> bool:
                    return "cannot" in (await waiting_for(database, run_id) or "")

                await until(is_refused)
                refused = await waiting_for(database, run_id)
                async with fleet.workers(GivenEquipment(lambda _task: "yes"), count=1):
                    return alone, refused, await fleet.ended(run_id)

    alone, refused, history = asyncio.run(work())
    assert alone == "a worker for tenant local: none is running"
    assert refused == (
        "a worker that can load what it needs; the only worker cannot: "
        "worker-1: agent.py: no such file"
    )
    assert history.tally.passed_count == 3


def test_counts_that_are_wrong_are_corrected_from_the_attempts(fleet: Fleet) -> None:
    async def work() -> History:
        plan = fleet.plan(a_suite(5), lambda _task: "yes", concurrency=5)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            await database.fetch("UPDATE fleet_owners SET released = 77")
            await database.fetch("UPDATE fleet_shares SET released = 0, waiting = 0")
            await reconcile(database)
            async with fleet.workers(GivenEquipment(lambda _task: "yes"), count=1):
                return await fleet.ended(run_id)

    assert asyncio.run(work()).status == "completed"


def test_metrics_tell_how_the_fleet_stands(fleet: Fleet) -> None:
    async def work() -> tuple[bytes, bytes]:
        async with fleet.database() as database:
            plan = fleet.plan(a_suite(3), lambda _task: "yes")
            run_id = await fleet.hand_over(database, plan, "acme")
            named = await fleet_metrics(database, with_tenants=True)
            plain = await fleet_metrics(database, with_tenants=False)
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return named, plain

    named, plain = asyncio.run(work())
    assert b"\nevalwright_fleet_queue_depth 1.0\n" in named
    assert b'\nevalwright_fleet_tenant_tasks{tenant="acme"} 1.0\n' in named
    assert b"acme" not in plain


def test_a_run_that_takes_too_long_ends_as_failed(fleet: Fleet) -> None:
    async def work() -> History:
        gate = Gate()
        plan = fleet.plan(a_suite(2), gate.answer, run_timeout_s=0.2)
        async with (
            fleet.database() as database,
            fleet.workers(GivenEquipment(gate.answer), count=1, lease_s=1.0),
        ):
            return await fleet.ended(await fleet.hand_over(database, plan))

    failure = asyncio.run(work()).failure()
    assert failure is not None
    assert (failure.error.code, failure.error.message) == (
        "run_timeout",
        "the run took longer than 0.2 s",
    )


def test_a_worker_for_a_tenant_finds_what_is_due_in_its_workspaces(fleet: Fleet) -> None:
    async def work() -> str:
        plan = fleet.plan(a_suite(1), lambda _: "yes")
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan, "acme", workspace="/team")
        # Nobody tells of the task any more: the worker finds it where it looks.
        async with fleet.workers(GivenEquipment(lambda _: "yes"), 1, tenants=("acme",)):
            await fleet.ended(run_id, "acme/team")
            return run_id

    assert fleet.log.facts(asyncio.run(work())).status == "completed"
