"""Parts of a worker, each by itself: what it hears, what it waits for, and what it keeps loaded."""

import asyncio
import logging
import time
import uuid
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.events import RunCancelled
from evalwright.engine.fleet import database as database_module
from evalwright.engine.fleet import runs_at_work
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.queue import TaskQueue
from evalwright.engine.fleet.runs_at_work import RunsAtWork
from fleet.test_fencing import HandWorker
from fleet.test_fleet_orders import event
from fleet.workers_here import CLOCK, Fleet, GivenEquipment, until


def right(_task: Any) -> str:
    return "yes"


def test_everybody_hears_where_tasks_are_due_and_that_something_has_ended(fleet: Fleet) -> None:
    here: list[tuple[str, ...]] = []
    there: list[tuple[str, ...]] = []

    def note(place: list[tuple[str, ...]]) -> Any:
        return lambda lanes: place.append(tuple(lanes))

    async def heard(*wanted: tuple[str, ...]) -> None:
        for place in (here, there):
            await until(lambda place=place: asyncio.sleep(0, len(place) >= len(wanted)))  # type: ignore[misc]
            assert place == list(wanted)
            place.clear()

    async def work() -> None:
        async with fleet.database() as one, fleet.database() as other:
            listening = [
                asyncio.create_task(database.listen(note(place)))
                for database, place in ((one, here), (other, there))
            ]
            await heard(())  # what happened before
            one._on_due = lambda lanes: None  # it hears of its own like everybody
            run_id = await fleet.hand_over(one, fleet.plan(a_suite(1), right))
            (lane,) = [row["lane"] for row in await one.fetch("SELECT lane FROM fleet_shares")]
            await heard((lane,))
            one.announce(())
            one.announce(["b|2", "a|1"])
            await heard(("a|1", "b|2"))
            one._on_due = note(here)
            one.announce(["c|3"])
            assert here == [("c|3",)], "at once where it happens"
            here.clear()
            await heard(("c|3",))
            one.announce_end()
            assert here == [()]
            here.clear()
            await heard(())
            one.announce(["d|4"])
            here.clear()
            await heard(("d|4",))  # the end was told once
            await fleet.runs(one).end(run_id, [event(RunCancelled(None, "test"))])
            for each in listening:
                each.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    asyncio.run(work())


def test_that_the_database_is_away_is_said_once_and_that_it_is_back_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_module, "FIRST_DELAY_SECONDS", 0.001)
    monkeypatch.setattr(database_module, "LONGEST_DELAY_SECONDS", 0.002)
    tries = 0

    def failing(times: int) -> Any:
        async def work() -> int:
            nonlocal tries
            tries += 1
            if tries % (times + 1):
                raise ConnectionRefusedError("no server")
            return tries

        return work

    async def scene() -> None:
        nonlocal tries
        database = FleetDatabase("postgresql://nobody@127.0.0.1:1/none", None)  # type: ignore[arg-type]
        for times in (0, 2, 5, 5):
            tries = 0
            assert await database.patiently(failing(times)) == times + 1
        with pytest.raises(ValueError, match="no such table"):
            await database.patiently(_refused)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    away = "the database is out of reach, trying again: no server"
    assert caplog.messages == [away, "the database is within reach again"] * 2


async def _refused() -> None:
    raise ValueError("no such table")


def test_connections_that_were_idle_while_the_database_was_away_are_not_used_again(
    fleet: Fleet,
) -> None:
    async def work() -> tuple[int, int]:
        failures = [ConnectionResetError("gone")]

        async def once() -> None:
            if failures:
                raise failures.pop()

        async with fleet.database() as database:
            pid = "SELECT pg_backend_pid()"
            before = (await database.fetchrow(pid))[0]
            assert (await database.fetchrow(pid))[0] == before, "it is kept"
            await database.patiently(once)
            after = (await database.fetchrow(pid))[0]
            await database.close()
            assert database._idle == {False: [], True: []}
            assert (await database.fetchrow("SELECT 1"))[0] == 1, "it opens again"
            return before, after

    before, after = asyncio.run(work())
    assert before != after


def test_a_worker_for_some_tenants_hears_of_no_other() -> None:
    own = TaskQueue(None, uuid.uuid4(), ["acme", "a|b"])  # type: ignore[arg-type]
    own.add_lanes(["acme|1", "other|1", "a|b|2", "|3"])
    assert own._lanes == {"acme|1", "a|b|2"}
    own.forget_lanes()
    assert own._lanes == set()
    anybody = TaskQueue(None, uuid.uuid4(), None)  # type: ignore[arg-type]
    anybody.add_lanes(["acme|1"])
    anybody.add_lanes(["|3"])
    assert anybody._lanes == {"acme|1", "|3"}


def test_only_what_was_loaded_counts_as_loaded() -> None:
    async def scene() -> list[Any]:
        futures = [asyncio.get_running_loop().create_future() for _ in "1234"]
        futures[1].cancel()
        futures[2].set_exception(ValueError())
        futures[3].set_result("run")
        return [runs_at_work._loaded(each) for each in futures]

    assert asyncio.run(scene()) == [None, None, None, "run"]


def test_runs_without_tasks_are_forgotten_after_a_while_and_equipment_where_there_is_too_much(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_at_work, "MOST_EQUIPMENT", 1)
    closed: list[str] = []

    class Counted(GivenEquipment):
        async def equip(self, tenant: str, plan: Any) -> Any:
            async def close() -> None:
                closed.append(plan.suite.suite_id)

            return (await super().equip(tenant, plan))._replace(close=close)

    async def work() -> None:
        async with fleet.database() as database:
            worker = HandWorker(database, right)
            runs = worker.runs = RunsAtWork(database, Counted(right), CLOCK)
            one, two = [
                await fleet.hand_over(database, fleet.plan(a_suite(1, suite_id=name), right, **own))
                for name, own in (("a.evals.one", {}), ("a.evals.two", {"model_timeout_s": 9.0}))
            ]
            assert await worker.begin(one, "task-1") == ("go", 1)
            finished = await worker.work(one, "task-1", 1)
            loaded = await runs.load(one)
            assert loaded is not None
            loaded.used_at = 0.0
            assert (await runs.load(one), loaded.tasks) == (loaded, 1), "its task is at work"
            assert await runs.load(two) is not None
            loaded.release("task-1", 1)
            assert loaded.tasks == 0
            assert time.monotonic() - loaded.used_at < 20
            await runs._forget_idle()
            assert await runs.load(one) is loaded
            loaded.used_at -= 2 * runs_at_work.IDLE_SECONDS
            await runs._forget_idle()
            assert closed == ["a.evals.one"], "the other run needs what it has"
            again = await runs.load(one)
            assert again is not loaded
            assert await runs.load("run_unknown") is None
            assert await worker.ending.end(again.at_work, [finished]) == {"task-1"}  # type: ignore[union-attr]
            await fleet.runs(database).end(two, [event(RunCancelled(None, "test"))])
            await runs.close()
            assert sorted(closed) == ["a.evals.one", "a.evals.one", "a.evals.two"]

    asyncio.run(work())
