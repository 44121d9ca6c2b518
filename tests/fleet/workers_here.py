"""Workers in this process, which share runs in a real PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from evalwright.contracts import errors
from evalwright.contracts.errors import BadInput
from evalwright.contracts.redaction import NOTHING_SECRET
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.baselines import read_baseline
from evalwright.engine.clock import SystemClock, new_run_id
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.equipment import Equipment
from evalwright.engine.fleet.handover import FleetRuns, hand_over
from evalwright.engine.fleet.worker import Worker, WorkerSettings
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan, plan_run
from evalwright.engine.replay import project, rebuilt
from evalwright.engine.task_work import RunResources
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.records import LOCAL_TENANT
from postgres_server import execute
from subjects.runs import Recording, as_agent

PATIENCE_SECONDS = 240
CLOCK = SystemClock()


class GivenEquipment:
    """Gives every run the same agent, unless the test says that it cannot be loaded."""

    def __init__(
        self, agent: Any, resources: RunResources | None = None, refusal: str = ""
    ) -> None:
        self.agent = as_agent(agent)
        self.resources = resources or RunResources()
        self.refusal = refusal
        self.loaded = 0

    async def equip(self, tenant: str, plan: Plan) -> Equipment:
        if self.refusal:
            raise BadInput(self.refusal)
        self.loaded += 1

        async def leave_open() -> None: ...

        return Equipment(self.agent, self.resources, leave_open)


class Fleet:
    """A database, and what is done in it; all of it within one event loop."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.log = PostgresLog(address)

    def ask(self, *statements: str) -> list[Any]:
        """Rows, as the superuser sees them."""
        return execute(self.address, *statements)

    def plan(self, suite: Suite, agent: Any, **options: Any) -> Plan:
        baseline = options.get("baseline")
        compared = read_baseline(self.log, baseline, suite) if baseline else None
        return plan_run(suite, "suite.json", as_agent(agent), RunOptions(**options), compared)

    @asynccontextmanager
    async def database(self) -> Any:
        database = FleetDatabase(self.address, self.log)
        try:
            yield database
        finally:
            await database.close()

    async def hand_over(
        self, database: FleetDatabase, plan: Plan, tenant: str = LOCAL_TENANT, workspace: str = ""
    ) -> str:
        """A new run in the fleet."""
        history = History(new_run_id(CLOCK), plan, CLOCK.now_us())
        place = (f"{tenant}{workspace}", tenant)
        await hand_over(database, history, place, NOTHING_SECRET, CLOCK)
        return history.run_id

    @asynccontextmanager
    async def workers(
        self, equipment: GivenEquipment, count: int = 2, concurrency: int = 3, **settings: Any
    ) -> Any:
        """So many workers, each with connections of its own, until the context ends."""
        databases = [FleetDatabase(self.address, self.log) for _ in range(count)]
        workers = [
            Worker(database, equipment, WorkerSettings(f"worker-{n}", concurrency, **settings))
            for n, database in enumerate(databases, 1)
        ]
        at_work = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.drain()
            await asyncio.gather(*at_work)
            for database in databases:
                await database.close()

    async def ended(self, run_id: str, tenant: str = LOCAL_TENANT) -> History:
        """The history of a run, once it has ended."""
        log = self.log.for_tenant(tenant)
        await until(lambda: asyncio.to_thread(lambda: log.facts(run_id).ended_us is not None))
        return await asyncio.to_thread(read_history, log, run_id)

    def run(
        self,
        suite: Suite,
        agent: Any,
        resources: RunResources | None = None,
        workers: int = 2,
        **options: Any,
    ) -> Recording:
        """A run by a fleet, from its hand-over to its end."""
        plan = self.plan(suite, agent, **options)

        async def work() -> History:
            async with self.database() as database:
                run_id = await self.hand_over(database, plan)
                async with self.workers(GivenEquipment(agent, resources), workers):
                    return await self.ended(run_id)

        history = asyncio.run(work())
        try:
            if history.failure() is None:
                rebuilt(history, "the log")
            return Recording(self.log, project(history), None)  # type: ignore[arg-type]
        except errors.RunFailed as failure:
            return Recording(self.log, None, failure)  # type: ignore[arg-type]

    def runs(self, database: FleetDatabase) -> FleetRuns:
        return FleetRuns(database, CLOCK)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110 - it comes true in another process
            await asyncio.sleep(0.02)


@contextmanager
def a_fleet(address: str) -> Iterator[Fleet]:
    fleet = Fleet(address)
    try:
        yield fleet
    finally:
        fleet.log.close()


def without_times(summary: Any) -> Any:
    """A summary without how long answers took."""
    plain = msgspec.json.decode(msgspec.json.encode(summary))
    for task in plain["tasks"]:
        task.pop("latencyMs", None)
    return plain


def kinds_by_task(recording: Recording) -> dict[str, list[str]]:
    """The types of events of each task, in order."""
    found: dict[str, list[str]] = {}
    for event in recording.events:
        if event.get("nodeId"):
            found.setdefault(event["nodeId"], []).append(event["type"])
    return found
