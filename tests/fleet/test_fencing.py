"""Attempts at tasks: locked first, looked at second, and written only by who has the last one."""

import asyncio
import os
import signal
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest

import evalwright as ew
from builders import a_suite
from evalwright.contracts.errors import StoreUnavailable
from evalwright.contracts.events import RunCancelled
from evalwright.contracts.redaction import NOTHING_SECRET
from evalwright.engine.fleet import database as database_module
from evalwright.engine.fleet import endings
from evalwright.engine.fleet import worker as worker_module
from evalwright.engine.fleet.endings import Ending, RunAtWork
from evalwright.engine.fleet.handover import HandOver, hand_over, recorded_history
from evalwright.engine.fleet.queue import lease_tasks
from evalwright.engine.fleet.repair import reconcile
from evalwright.engine.fleet.runs_at_work import RunsAtWork
from evalwright.engine.history import History
from evalwright.engine.single_task import FinishedTask
from evalwright.reports.run.stories import read_stories
from evalwright.store.postgres import address
from evalwright.store.protocol import NewEvent
from evalwright.store.records import LOCAL_TENANT
from fleet.test_fleet_orders import event
from fleet.workers_here import CLOCK, PATIENCE_SECONDS, Fleet, GivenEquipment, until

BEGIN = "SELECT * FROM fleet_begin($1, $2, $3)"


class HandWorker:
    """A worker whose every step a test decides."""

    def __init__(self, database: Any, agent: Any) -> None:
        self.worker = uuid.uuid4()
        self.database = database
        self.ending = Ending(database, self.worker, CLOCK)
        equipment = agent if isinstance(agent, GivenEquipment) else GivenEquipment(agent)
        self.runs = RunsAtWork(database, equipment, CLOCK)

    async def begin(self, run_id: str, task_id: str) -> tuple[str, int]:
        """Begin an attempt: what the log says to that, and its number."""
        row = await self.database.fetchrow(BEGIN, self.worker, [run_id], [task_id])
        return row["verdict"], row["number"]

    async def work(self, run_id: str, task_id: str, number: int) -> FinishedTask:
        run = await self.runs.load(run_id)
        assert run is not None

        async def keep(events: list[NewEvent], own_from: int) -> None:
            assert await self.ending.keep(run.at_work, task_id, number, events, own_from)

        return await run.work_on(task_id, number, time.monotonic(), keep)

    async def end(self, finished: FinishedTask) -> set[str]:
        """Write what came of a task; the tasks that were still this worker's."""
        run: RunAtWork = (await self.runs.load(finished.run_id)).at_work  # type: ignore[union-attr]
        return await self.ending.end(run, [finished])


def right(_task: Any) -> str:
    return "yes"


def events_of_task(fleet: Fleet, run_id: str, task_id: str) -> list[str]:
    log = fleet.log.for_tenant("local")
    return [each.type for each in log.read(run_id) if each.task_id == task_id]


def test_a_worker_that_was_stopped_and_wakes_up_writes_nothing_after_the_score(
    fleet: Fleet,
) -> None:
    async def work() -> str:
        plan = fleet.plan(a_suite(2), right, concurrency=2)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            stopped, other = HandWorker(database, right), HandWorker(database, right)
            assert await stopped.begin(run_id, "task-1") == ("go", 1)
            old = await stopped.work(run_id, "task-1", 1)
            # It is stopped here. Its lease is over, and another worker takes the task.
            assert await other.begin(run_id, "task-1") == ("go", 2)
            new = await other.work(run_id, "task-1", 2)
            assert await other.end(new) == {"task-1"}
            # It wakes up.
            assert await stopped.end(old) == set()
            assert await stopped.begin(run_id, "task-1") == ("gone", 0)
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return run_id

    kinds = events_of_task(fleet, asyncio.run(work()), "task-1")
    assert kinds.count("eval.scored") == 1
    assert kinds[-1] == "eval.scored"
    assert kinds[:3] == ["agent.invocation.started", "agent.decided", "agent.invocation.completed"]
    assert len(kinds) == 7, "the attempt that was lost, the one that counts, and the score"


def test_a_worker_that_wakes_up_before_the_other_has_finished_writes_nothing_either(
    fleet: Fleet,
) -> None:
    async def work() -> str:
        plan = fleet.plan(a_suite(2), right, concurrency=2)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            stopped, other = HandWorker(database, right), HandWorker(database, right)
            await stopped.begin(run_id, "task-1")
            old = await stopped.work(run_id, "task-1", 1)
            assert await other.begin(run_id, "task-1") == ("go", 2)
            assert await stopped.end(old) == set()
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return run_id

    assert events_of_task(fleet, asyncio.run(work()), "task-1") == []


def test_an_end_that_was_committed_unheard_is_not_written_again(fleet: Fleet) -> None:
    async def work() -> str:
        plan = fleet.plan(a_suite(2), right, concurrency=2)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            worker = HandWorker(database, right)
            await worker.begin(run_id, "task-1")
            finished = await worker.work(run_id, "task-1", 1)
            assert await worker.end(finished) == {"task-1"}
            assert await worker.end(finished) == set()
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return run_id

    assert events_of_task(fleet, asyncio.run(work()), "task-1").count("eval.scored") == 1


def test_a_task_that_loses_its_worker_each_time_ends_as_failed_with_the_reason(
    fleet: Fleet,
) -> None:
    async def work() -> Any:
        plan = fleet.plan(a_suite(2), right, concurrency=2)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            for number in (1, 2, 3):
                killed = HandWorker(database, right)
                assert await killed.begin(run_id, "task-1") == ("go", number)
            async with fleet.workers(GivenEquipment(right), count=1, most_attempts=3):
                return await fleet.ended(run_id)

    history = asyncio.run(work())
    assert history.tally.results["task-1"].passed is False
    assert history.tally.results["task-2"].passed is True
    log = fleet.log.for_tenant("local")
    decided = [each.to_json() for each in log.read(history.run_id) if each.task_id == "task-1"]
    assert b"3 attempts ended with their workers" in b"".join(decided)
    (told,) = read_stories(log, history.run_id, {"task-1"})
    assert told.error is not None
    assert told.error["code"] == "task_lost", "not how its last attempt ended"


def test_a_task_that_is_due_though_the_log_has_its_score_is_counted_and_its_run_ends(
    fleet: Fleet,
) -> None:
    asked: list[str] = []

    def asking(task: Any) -> str:
        asked.append(task.id)
        return "yes"

    async def work() -> str:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(2), asking))
            worker = HandWorker(database, asking)
            assert await worker.begin(run_id, "task-1") == ("go", 1)
            await worker.end(await worker.work(run_id, "task-1", 1))
            # As if its end had been lost from what the fleet knows.
            await asyncio.to_thread(
                fleet.ask,
                f"UPDATE attempts SET state = 1 WHERE run_id = '{run_id}' AND task_id = 'task-1'",
                f"UPDATE fleet_runs SET remaining = 2 WHERE run_id = '{run_id}'",
            )
            async with fleet.workers(GivenEquipment(asking), count=1):
                await fleet.ended(run_id)
            return run_id

    run_id = asyncio.run(work())
    assert sorted(asked) == ["task-1", "task-2"]
    assert events_of_task(fleet, run_id, "task-1").count("eval.scored") == 1
    assert fleet.log.facts(run_id).status == "completed"
    assert fleet.ask("SELECT sum(released), sum(runs) FROM fleet_owners")[0] == (0, 0)


def test_a_worker_told_to_stop_gives_up_ends_that_wait_for_those_before_them(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spinning meanwhile, though the tasks themselves are done."""
    waits = 0
    wait = asyncio.wait

    async def count(*values: Any, **options: Any) -> Any:
        nonlocal waits
        waits += 1
        return await wait(*values, **options)

    async def work() -> None:
        may_answer, may_end, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
        begun: list[str] = []
        ends: list[str] = []

        async def answer(task: Any) -> str:
            begun.append(task.id)
            if len(begun) > 1:
                await may_answer.wait()
            return "yes"

        async def end(_ending: Any, _run: Any, finished: Any) -> set[str]:
            ends.append(finished[0].task_id)
            may_answer.set()
            await (may_end if len(ends) == 1 else never).wait()
            return {finished[0].task_id}

        monkeypatch.setattr(Ending, "end", end)
        monkeypatch.setattr(worker_module.asyncio, "wait", count)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(2), answer, concurrency=2))
            async with fleet.workers(GivenEquipment(answer), 1, drain_s=0.3) as (worker,):
                await until(lambda: _holds(lambda: len(begun) == 2 and worker.at_work == 0))
                may_end.set()
                await until(lambda: _holds(lambda: len(ends) == 2))
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])

    asyncio.run(work())
    assert waits < 10, waits


async def _holds(question: Any) -> bool:
    return bool(question())


def test_tasks_that_lost_their_workers_together_go_on_apart(fleet: Fleet) -> None:
    async def work() -> list[tuple[str, int]]:
        plan = fleet.plan(a_suite(3), right, concurrency=3)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            await database.fetchrow("SELECT count(*) FROM fleet_fill(NULL, 3)")  # all are due
            for _ in range(2):
                killed = HandWorker(database, right)
                for task in ("task-1", "task-2", "task-3"):
                    await killed.begin(run_id, task)
            first, second = HandWorker(database, right), HandWorker(database, right)
            begun = [
                await first.begin(run_id, "task-1"),
                await first.begin(run_id, "task-2"),
                await second.begin(run_id, "task-2"),
                await first.begin(run_id, "task-1"),
            ]
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return begun

    assert asyncio.run(work()) == [("go", 3), ("later", 0), ("go", 3), ("go", 4)]


def test_a_conversation_goes_on_where_its_worker_was_killed(fleet: Fleet) -> None:
    asked: list[tuple[int, Any]] = []
    hangs = {2, 3}

    async def agent(message: str, session: dict[str, Any], task: Any) -> str:
        asked.append((task.turn, session.get("last")))
        if task.turn in hangs:
            hangs.remove(task.turn)
            await asyncio.Event().wait()
        session["last"] = message
        task.report_usage(provider="a", model="m", input_tokens=1, output_tokens=1, cost_usd=0.5)
        return message.upper()

    turns = [ew.turn(each, checks=[ew.equals(each.upper())]) for each in ("a", "b", "c")]
    talk = ew.Task("talk", turns=turns, checks=[ew.at_most(tokens=6)])
    other = ew.Task("other", input="x", checks=[ew.equals("X")])
    suite = ew.Suite("s", tasks=[talk, other]).subject().suite

    async def work() -> str:
        plan = fleet.plan(suite, agent, max_cost_usd=10.0)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            for number in (1, 2):
                killed = HandWorker(database, agent)
                assert await killed.begin(run_id, "talk") == ("go", number)
                at_work = asyncio.create_task(killed.work(run_id, "talk", number))
                await until(lambda turn=number + 1: _holds(lambda: turn not in hangs))
                at_work.cancel()
                await asyncio.wait([at_work])
            last = HandWorker(database, agent)
            assert await last.begin(run_id, "talk") == ("go", 3)
            assert await last.end(await last.work(run_id, "talk", 3)) == {"talk"}
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return run_id

    run_id = asyncio.run(work())
    assert asked == [(1, None), (2, "a"), (2, "a"), (3, "b"), (3, "b")]
    kinds = events_of_task(fleet, run_id, "talk")
    assert kinds.count("eval.scored") == 1
    assert kinds.count("agent.invocation.started") == kinds.count("agent.invocation.completed") == 3
    log = fleet.log.for_tenant("local")
    checked = next(each.payload() for each in log.read(run_id, ("evalwright.checked",)))
    assert checked["passed"], checked


def test_a_run_and_its_tasks_are_there_together_or_not_at_all(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = HandOver.apply

    async def fail(handed: HandOver, connection: Any) -> None:
        await apply(handed, connection)
        raise ValueError("nobody expected that")

    monkeypatch.setattr(HandOver, "apply", fail)

    async def work() -> int:
        before = len(fleet.log.run_ids())
        async with fleet.database() as database:
            try:
                await fleet.hand_over(database, fleet.plan(a_suite(2), right))
            except Exception:  # noqa: BLE001 - whatever it is
                return len(fleet.log.run_ids()) - before
        return -1

    assert asyncio.run(work()) == 0
    assert fleet.ask("SELECT count(*) FROM fleet_runs")[0][0] == 0


def test_a_budget_counts_attempts_that_ended_with_their_workers(fleet: Fleet) -> None:
    """As much as a task may cost: the ceiling holds however often workers are killed."""
    paid: list[str] = []

    def costing(task: Any) -> str:
        paid.append(task.id)
        task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=0.4)
        return "yes"

    async def work() -> Any:
        plan = fleet.plan(a_suite(6), costing, concurrency=1, max_cost_usd=2.0)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            first = HandWorker(database, costing)
            assert await first.begin(run_id, "task-1") == ("go", 1)
            await first.end(await first.work(run_id, "task-1", 1))
            for number in (1, 2):
                killed = HandWorker(database, costing)
                assert await killed.begin(run_id, "task-2") == ("go", number)
                await killed.work(run_id, "task-2", number)  # paid for, and never written
            async with fleet.workers(GivenEquipment(costing), count=2):
                return await fleet.ended(run_id)

    history = asyncio.run(work())
    failure = history.failure()
    assert failure is not None
    assert failure.error.code == "budget_exhausted"
    assert len(paid) * 0.4 <= 2.0, paid
    assert history.scored == {"task-1", "task-2", "task-3"}


async def end_of_one_task(fleet: Fleet, database: Any) -> tuple[HandWorker, FinishedTask]:
    """A run of one task that a worker has done and not written yet."""
    run_id = await fleet.hand_over(database, fleet.plan(a_suite(1), right))
    worker = HandWorker(database, right)
    assert await worker.begin(run_id, "task-1") == ("go", 1)
    return worker, await worker.work(run_id, "task-1", 1)


def test_a_run_ends_though_its_log_takes_longer_to_read_than_a_transaction_may_be_idle(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(address._SETTINGS, "idle_in_transaction_session_timeout", "1s")
    monkeypatch.setattr(endings, "SIGN_SECONDS", 0.02)
    read_history = endings.read_history

    def read_slowly(*place: Any) -> Any:
        time.sleep(1.2)
        return read_history(*place)

    monkeypatch.setattr(endings, "read_history", read_slowly)

    async def work() -> str:
        async with fleet.database() as database:
            worker, finished = await end_of_one_task(fleet, database)
            assert await worker.end(finished) == {"task-1"}
            return finished.run_id

    assert fleet.log.facts(asyncio.run(work())).status == "completed"


def test_a_worker_that_the_log_has_forgotten_is_known_again_and_its_task_scored(
    fleet: Fleet,
) -> None:
    async def work() -> str:
        async with fleet.database() as database:
            worker, finished = await end_of_one_task(fleet, database)
            # As it is done to those that were not heard of for a day.
            await asyncio.to_thread(fleet.ask, "DELETE FROM writers")
            assert await worker.end(finished) == {"task-1"}
            return finished.run_id

    run_id = asyncio.run(work())
    assert events_of_task(fleet, run_id, "task-1").count("eval.scored") == 1
    assert fleet.log.facts(run_id).status == "completed"


def test_connections_that_nobody_needs_any_more_are_closed_but_for_the_last(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0)

    async def work() -> tuple[int, int]:
        async with fleet.database() as database:
            async with database.connection(), database.connection(), database.connection():
                most = len(await asyncio.to_thread(fleet.ask, "SELECT FROM writers"))
            for _ in range(3):
                await database.fetch("SELECT 1")
            left = "SELECT FROM writers"
            await until(lambda: asyncio.sleep(0, len(database._closing) == 0))
            return most, len(await asyncio.to_thread(fleet.ask, left))

    most, left = asyncio.run(work())
    assert most - left == 2


def test_a_worker_stays_heard_of_whatever_fails_beside_its_tasks(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise ValueError("a plan that cannot be read")

    monkeypatch.setattr(worker_module, "end_overdue", fail)
    seen = "SELECT count(*) FROM fleet_workers WHERE seen_at > started_at + interval '1.5 s'"

    async def work() -> None:
        async with fleet.database() as database, fleet.workers(GivenEquipment(right), 1, lease_s=1):
            await until(lambda: _is_true(database, f"SELECT ({seen}) = 1"))

    asyncio.run(work())


def test_a_worker_told_to_stop_while_the_database_is_away_stops(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def refuse(*_: Any, **__: Any) -> Any:
        tried.append(1)
        raise ConnectionRefusedError("nobody listens")

    async def work() -> None:
        async with fleet.database() as database, fleet.workers(GivenEquipment(right), 1):
            await until(lambda: _is_true(database, "SELECT count(*) = 1 FROM fleet_workers"))
            monkeypatch.setattr(database_module.FleetDatabase, "connection", refuse)
            await until(lambda: asyncio.sleep(0, len(tried) > 3))

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))


def test_a_server_that_falls_silent_within_a_transaction_is_given_up(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "STATEMENT_SECONDS", 0.5)
    silent: list[int] = []

    async def ask_in_vain(database: Any) -> None:
        async with database.transaction() as connection:
            silent.append(connection.get_server_pid())
            os.kill(silent[0], signal.SIGSTOP)
            await connection.fetchval("SELECT 1")

    async def work() -> int:
        async with fleet.database() as database:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await ask_in_vain(database)
            return int((await database.fetchrow("SELECT pg_backend_pid()"))[0])

    try:
        assert asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS)) not in silent
    finally:
        for each in silent:
            os.kill(each, signal.SIGCONT)


def held_back() -> tuple[Any, asyncio.Event, asyncio.Event]:
    """An agent, when it was asked first, and when it may answer."""
    begun, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(_task: Any) -> str:
        begun.set()
        await may_answer.wait()
        return "yes"

    return answer, begun, may_answer


def test_what_is_due_is_done_as_soon_as_a_server_that_was_away_is_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "RECONCILE_SECONDS", 600)
    cut_off = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'evalwright' AND datname = current_database()"
    )

    async def work() -> Any:
        answer, begun, may_answer = held_back()
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(4), answer, concurrency=4))
            async with fleet.workers(GivenEquipment(answer), 1, concurrency=1):
                await begun.wait()
                await asyncio.to_thread(fleet.ask, cut_off)
                may_answer.set()
                return await fleet.ended(run_id)

    assert len(asyncio.run(work()).scored) == 4


async def _is_true(database: Any, question: str) -> bool:
    return bool((await database.fetchrow(question))[0])


def test_a_task_is_taken_once_while_its_worker_is_heard_of_and_again_when_it_is_not(
    fleet: Fleet,
) -> None:
    seen = "UPDATE fleet_workers SET seen_at = now() - $2::interval WHERE worker = $1"

    async def work() -> list[int]:
        async with fleet.database() as database:
            plan = fleet.plan(a_suite(4), right, concurrency=4)
            run_id = await fleet.hand_over(database, plan)
            (lane,) = {row["lane"] for row in await database.fetch("SELECT lane FROM fleet_shares")}
            await database.fetch("SELECT * FROM fleet_fill(NULL, 4)")
            first, other = HandWorker(database, right), HandWorker(database, right)
            for each in (first, other):
                await database.fetch(
                    "INSERT INTO fleet_workers (worker, name, concurrency) VALUES ($1, 'one', 4)",
                    each.worker,
                )

            async def taken(by: HandWorker, most: int = 9) -> int:
                async with database.connection() as connection:
                    return len(await lease_tasks(connection, by.worker, [lane], most, 8.0))

            counts = [await taken(first, 3), await taken(other), await taken(first)]
            assert await other.begin(run_id, "task-1") == ("gone", 0), "it is the other's"
            assert await first.begin(run_id, "task-1") == ("go", 1)
            await database.fetch(seen, first.worker, timedelta(seconds=9))
            counts += [await taken(other), await taken(first)]
            assert await other.begin(run_id, "task-1") == ("go", 2)
            await fleet.runs(database).end(run_id, [event(RunCancelled(None, "test"))])
            return counts

    assert asyncio.run(work()) == [3, 1, 0, 3, 0]


@pytest.mark.parametrize("lost", ["attempts", "attempts, fleet_runs, fleet_shares"])
def test_a_run_whose_rows_are_lost_is_handed_over_again_from_its_log(
    fleet: Fleet, lost: str
) -> None:
    async def work() -> tuple[list[str], History]:
        asked: list[str] = []

        def answer(task: Any) -> str:
            asked.append(task.id)
            return "yes"

        plan = fleet.plan(a_suite(5), answer, concurrency=5)
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            worker = HandWorker(database, answer)
            assert await worker.begin(run_id, "task-1") == ("go", 1)
            await worker.end(await worker.work(run_id, "task-1", 1))
            await asyncio.to_thread(
                fleet.ask, *(f"DELETE FROM {each}" for each in lost.split(", "))
            )
            await reconcile(database)
            log = fleet.log.for_tenant(LOCAL_TENANT)
            with log.claim(run_id):
                history = await asyncio.to_thread(recorded_history, log, run_id)
                place = (LOCAL_TENANT, LOCAL_TENANT)
                await hand_over(database, history, place, NOTHING_SECRET, CLOCK, is_open=True)
            async with fleet.workers(GivenEquipment(answer), count=1):
                return asked, await fleet.ended(run_id)

    asked, history = asyncio.run(work())
    assert history.status == "completed"
    assert sorted(asked) == [f"task-{n}" for n in range(1, 6)], "none is asked twice"
