"""Hosts that hand their runs to workers: clients notice nothing but who does the work."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from builders import a_suite, a_task
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.worker import Worker, WorkerSettings
from evalwright.host.runs.fleet import FleetLimits, HostEquipper
from evalwright.models.config import Config
from evalwright.store.postgres.log import PostgresLog
from host.caller import Caller
from host.server import AGENTS, GATED, ServedHost, running_host
from postgres_server import PostgresServer
from subjects.waiting import Journal

WAITING = a_suite([a_task("one", input="wait"), a_task("two"), a_task("three", input="wait")])


class WorkerThread(threading.Thread):
    """A worker with the agents of the host, until it is told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__(name="worker")
        self._log = PostgresLog(address)
        self._loop = asyncio.new_event_loop()
        self._config = Config(host={"agents": AGENTS})
        self._worker: Worker | None = None
        self.start()

    def run(self) -> None:
        self._loop.run_until_complete(self._work())
        self._loop.close()
        self._log.close()

    async def _work(self) -> None:
        database = FleetDatabase(self._log.address, self._log)
        limits = FleetLimits(database, self._config)
        equipper = HostEquipper(self._log, self._config, limits)
        self._worker = Worker(database, equipper, WorkerSettings("one", lease_s=1.0, drain_s=5.0))
        await self._worker.run()
        await database.close()

    def stop(self) -> None:
        assert self._worker is not None
        self._loop.call_soon_threadsafe(self._worker.drain)
        self.join()


@pytest.fixture(scope="module")
def host(postgres: PostgresServer) -> Iterator[ServedHost]:
    address = postgres.new_database()
    with running_host(address, settings={"workers": True}) as host:
        yield host
    postgres.drop_database(address)


@pytest.fixture
def caller(host: ServedHost, request: pytest.FixtureRequest) -> Caller:
    return Caller(host.url, host.key(request.node.name.replace("_", "-")[:40]))


@pytest.fixture(scope="module")
def worker(host: ServedHost) -> Iterator[WorkerThread]:
    worker = WorkerThread(host.log.address)
    yield worker
    worker.stop()


def test_without_a_worker_a_run_waits_and_says_for_what(host: ServedHost, caller: Caller) -> None:
    run_id = caller.start(WAITING, GATED)
    answer = caller.get(f"/v1/runs/{run_id}")
    assert answer.json()["status"] == "running"
    assert "none is running" in answer.headers["evalwright-waits-for"]
    assert b"evalwright_fleet_queue_depth 1" in caller.get("/v1/host/metrics").body
    assert caller.post(f"/v1/runs/{run_id}/cancel", {}).status in (200, 202)
    assert caller.get(f"/v1/runs/{run_id}").json()["status"] == "cancelled"


def test_a_worker_does_what_the_host_would(
    caller: Caller, worker: WorkerThread, gate: Journal
) -> None:
    run_id = caller.start(WAITING, GATED)
    gate.open_gate()
    frames = caller.frames(run_id)
    assert [frame.id for frame in frames] == list(range(len(frames)))
    assert frames[-1].name == "run.completed"


def test_a_run_is_paused_resumed_and_cancelled_through_the_host(
    caller: Caller, worker: WorkerThread, gate: Journal
) -> None:
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(1)
    assert caller.post(f"/v1/runs/{run_id}:pause", {}).status in (200, 202)
    assert caller.get(f"/v1/runs/{run_id}").json()["status"] == "paused"
    assert caller.post(f"/v1/runs/{run_id}:resume", {}).status in (200, 202)
    assert caller.get(f"/v1/runs/{run_id}").json()["status"] == "running"
    assert caller.post(f"/v1/runs/{run_id}/cancel", {}).status in (200, 202)
    assert caller.get(f"/v1/runs/{run_id}").json()["status"] == "cancelled"


@pytest.mark.parametrize(("mode", "invoked"), [("replay", 0), ("branch", 3)])
def test_a_fork_is_worked_on_by_workers_and_a_replay_invokes_nobody(
    caller: Caller, worker: WorkerThread, gate: Journal, mode: str, invoked: int
) -> None:
    gate.open_gate()
    source = caller.start(WAITING, GATED)
    assert caller.frames(source)[-1].name == "run.completed"
    fork = caller.post(f"/v1/runs/{source}:fork", {"mode": mode, "fromSeq": 0}).json()["runId"]
    names = [frame.name for frame in caller.frames(fork)]
    assert names[-1] == "run.completed"
    assert names.count("eval.scored") == 3
    assert len(gate.lines()) == 3 + invoked
