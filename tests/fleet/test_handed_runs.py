"""What a command does with a run that workers have: hand it over, follow it, and tell of it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from builders import a_suite
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import RunCancelled, RunPaused
from evalwright.contracts.redaction import NOTHING_SECRET
from evalwright.engine.fleet import handover
from evalwright.engine.fleet.equipment import ReferenceEquipper
from evalwright.engine.fleet.handover import HandedRuns, recorded_history
from evalwright.engine.fleet.status import run_status, serve_metrics, waiting_for
from evalwright.engine.history import read_history
from evalwright.engine.rescore import Rescore
from evalwright.models.config import Config
from evalwright.store.protocol import NewEvent
from fleet.test_fleet_orders import Gate, event
from fleet.workers_here import Fleet, GivenEquipment, until


class Desk:
    """Whoever hands runs over: it notes what it is told, and when its session was closed."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.closed = 0
        self.told: list[str] = []
        self.seen: list[str] = []
        models = SimpleNamespace(redactor=NOTHING_SECRET)
        session: Any = SimpleNamespace(models=models, close=self._close)
        self.runs = HandedRuns(session, fleet.address, lambda text: self.told.append(str(text)))

    async def _close(self) -> None:
        self.closed += 1

    def watch(self, run_id: str) -> None:
        def note(events: Sequence[NewEvent]) -> None:
            self.seen += (each.type for each in events)

        self.runs.watch(run_id, note)

    async def follow(self, *pending: Any) -> list[Any]:
        return await self.runs.run(self.fleet.log, pending, None)


def right(_task: Any) -> str:
    return "yes"


def test_runs_are_handed_over_and_followed_to_their_results(fleet: Fleet) -> None:
    async def work() -> tuple[Desk, list[Any]]:
        desk = Desk(fleet)
        plans = [fleet.plan(a_suite(count), right) for count in (2, 1)]
        following = asyncio.create_task(desk.follow(*plans))
        await until(lambda: asyncio.sleep(0, desk.closed == 1))  # before it follows
        assert len(desk.runs.handed) == 2
        desk.watch(desk.runs.handed[0])
        async with fleet.workers(GivenEquipment(right)):
            return desk, await following

    desk, outcomes = asyncio.run(work())
    assert [each.run_id for each in outcomes] == desk.runs.handed
    assert [len(each.summary.tasks) for each in outcomes] == [2, 1]
    assert all(each.summary.passed for each in outcomes)
    assert desk.seen.count("eval.scored") == 2
    assert desk.seen[-1] == "run.completed"
    assert desk.closed == 1


def test_a_run_that_nobody_works_on_is_wondered_about_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "WONDER_SECONDS", 2 * handover.POLL_SECONDS)

    async def work() -> tuple[Desk, str]:
        desk = Desk(fleet)
        following = asyncio.create_task(desk.follow(fleet.plan(a_suite(1), right)))
        await until(lambda: asyncio.sleep(0, len(desk.told) == 1))
        (run_id,) = desk.runs.handed
        async with fleet.database() as database:
            await fleet.runs(database).pause(run_id, event(RunPaused("lunch", "immediate")))
            await until(lambda: asyncio.sleep(0, len(desk.told) == 2))
            await fleet.runs(database).end(run_id, [event(RunCancelled("enough", "test"))])
        with pytest.raises(CannotEvaluate, match=f"^run {run_id} was cancelled; it has no result$"):
            await following
        return desk, run_id

    desk, run_id = asyncio.run(work())
    assert desk.told == [
        f"run {run_id} waits for a worker for tenant local: none is running",
        f"run {run_id} waits for the run is paused",
    ]


def test_an_open_run_is_followed_if_workers_have_it_and_else_handed_over_with_the_rest(
    fleet: Fleet,
) -> None:
    async def work() -> tuple[list[str], list[Any]]:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(3), right))
            assert await fleet.runs(database).has(run_id)
            has_it = read_history(fleet.log, run_id)
            desk = Desk(fleet)
            following = asyncio.create_task(desk.follow(has_it))
            await until(lambda: asyncio.sleep(0, desk.closed == 1))
            async with fleet.workers(GivenEquipment(right), count=1):
                first = await following
            cut = await fleet.hand_over(database, fleet.plan(a_suite(2), right))
            for table in ("attempts", "fleet_runs", "fleet_shares"):  # a restore of the log alone
                await database.fetch(f"DELETE FROM {table}")
            await database.fetch(f"UPDATE runs SET claimed_until = NULL WHERE run_id = '{cut}'")
            again = Desk(fleet)
            following = asyncio.create_task(again.follow(recorded_history(fleet.log, cut)))
            async with fleet.workers(GivenEquipment(right), count=1):
                second = await following
            assert (desk.runs.handed, again.runs.handed) == ([run_id], [cut])
            return [run_id, cut], [*first, *second]

    run_ids, outcomes = asyncio.run(work())
    assert [each.run_id for each in outcomes] == run_ids
    assert [each.summary.passed_count for each in outcomes] == [3, 2]


def test_recorded_answers_are_not_handed_over(fleet: Fleet) -> None:
    desk = Desk(fleet)
    pending = Rescore(fleet.plan(a_suite(1), right), [], [])
    with pytest.raises(BadInput, match="recorded answers are scored in this process"):
        asyncio.run(desk.follow(pending))
    assert (desk.closed, desk.runs.handed) == (1, [])


# What is told of a run, and of the fleet.


def test_the_state_of_a_run_is_told_as_a_sentence(fleet: Fleet) -> None:
    def status(run_id: str) -> str | None:
        return run_status(fleet.address, fleet.log, run_id)

    async def work() -> list[str | None]:
        gate, told = Gate(), []
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, fleet.plan(a_suite(1), gate.answer))
            told.append(await asyncio.to_thread(status, run_id))
            async with fleet.workers(GivenEquipment(gate.answer), count=1):
                await until(lambda: asyncio.sleep(0, bool(gate.asked)))
                assert await waiting_for(database, run_id) is None
                told.append(await asyncio.to_thread(status, run_id))
                gate.opens.set()
                await fleet.ended(run_id)
        return [*told, await asyncio.to_thread(status, "run_unknown")]

    waits = "it waits for a worker for tenant local: none is running"
    assert asyncio.run(work()) == [waits, "workers are executing it", None]


async def asked(place: str, request: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    host, port = place.removeprefix("http://").removesuffix("/metrics").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status, *fields = head.split(b"\r\n")
    return status, dict(each.split(b": ", 1) for each in fields), body


def test_a_worker_serves_its_metrics_and_whether_it_lives(fleet: Fleet) -> None:
    lines = b"x: y\r\n" * 3

    async def work() -> None:
        async with fleet.database() as database:
            async with serve_metrics(database, None) as nowhere:
                assert nowhere is None
            async with serve_metrics(database, ("127.0.0.1", 0)) as place:
                assert place is not None
                status, fields, body = await asked(
                    place, b"GET /metrics HTTP/1.1\r\n%s\r\n" % lines
                )
                assert status == b"HTTP/1.1 200 OK"
                assert fields == {
                    b"Content-Type": b"text/plain; version=0.0.4",
                    b"Connection": b"close",
                    b"Content-Length": str(len(body)).encode(),
                }
                assert b"\nevalwright_fleet_workers 0.0\n" in body
                found = [
                    await asked(place, request)
                    for request in (
                        b"GET /healthz HTTP/1.1\r\n\r\n",
                        b"GET /x HTTP/1.1\r\n\r\n",
                        b"\n\n",
                    )
                ]
                assert [(each[0], each[2]) for each in found] == [
                    (b"HTTP/1.1 200 OK", b"ok\n"),
                    (b"HTTP/1.1 404 Not Found", b""),
                    (b"HTTP/1.1 404 Not Found", b""),
                ]
                database.fetch = None  # as if it were out of reach
                status, _, body = await asked(place, b"GET /metrics HTTP/1.1\r\n\r\n")
                assert (status, body) == (b"HTTP/1.1 503 Service Unavailable", b"")

    asyncio.run(work())


# What a worker loads by itself.


def test_a_worker_loads_an_agent_by_its_reference_with_its_own_configuration(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clerk.py").write_text("def answer(task): return 'yes'\n")
    monkeypatch.chdir(tmp_path)
    config, limits, told, asked_for = Config(), object(), [], []

    def limits_of(tenant: str) -> Any:
        asked_for.append(tenant)
        return limits

    async def work() -> tuple[Any, Any]:
        plan = fleet.plan(a_suite(1), right)
        facts = msgspec.structs.replace(plan.agent, ref="clerk.py:answer")
        plan = msgspec.structs.replace(plan, agent=facts)
        equipper = ReferenceEquipper(config, told.append, limits_of)
        return plan, await equipper.equip("acme", plan)

    plan, equipment = asyncio.run(work())
    session = equipment.close.__self__
    assert session.models.config is config
    assert asked_for == ["acme"]
    assert (equipment.agent.agent_id, equipment.agent.model_class) == (
        plan.agent.agent_id,
        plan.agent.model_class,
    )
    assert equipment.agent is session.agent
    asyncio.run(equipment.close())
