"""The runs that a worker has tasks of, and what they need, loaded once."""

import asyncio
import time
from typing import TypeVar

import msgspec

from evalwright.engine.clock import Clock
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.endings import RunAtWork
from evalwright.engine.fleet.equipment import Equipment, Equipper
from evalwright.engine.fleet.handover import HandedPlan, recorded_history
from evalwright.engine.history import History
from evalwright.engine.single_task import FinishedTask, Keep, SingleTasks

T = TypeVar("T")

IDLE_SECONDS = 30.0  # after which a run that has no task here is forgotten
MOST_EQUIPMENT = 32  # agents that stay loaded

_FIND = (
    "SELECT f.tenant, f.owner, f.lane, f.plan, r.run FROM fleet_runs f"
    " JOIN runs r ON r.run_id = f.run_id WHERE f.run_id = $1"
)


class LoadedRun:
    """A run with its equipment; tasks that were tried before have a fresh memory."""

    def __init__(
        self,
        at_work: RunAtWork,
        lane: str,
        equipment: Equipment,
        history: History,
        clock: Clock,
        read_at: float,
    ) -> None:
        self.run_id = at_work.run_id
        self.at_work = at_work
        self.lane = lane
        self.used_at = time.monotonic()
        self._equipment = equipment
        self._clock = clock
        self._work = SingleTasks(equipment.agent, history, equipment.resources, clock)
        self._read_at = read_at  # its history, which other workers may have added answers to since
        self._reading = asyncio.Lock()
        # An attempt that was taken away may go on for a while beside the next one.
        self._at_work_on: dict[tuple[str, int], SingleTasks] = {}

    @property
    def tasks(self) -> int:
        """How many tasks are at work."""
        return len(self._at_work_on)

    async def work_on(
        self, task_id: str, attempt: int, begun_at: float, keep: Keep
    ) -> FinishedTask:
        """Work on a task."""
        self.used_at = time.monotonic()
        async with self._reading:
            may_be_answered = attempt > 1 and self._read_at < begun_at
            if may_be_answered or self._work.has_tried(task_id):
                read_at = time.monotonic()
                history = await asyncio.to_thread(recorded_history, self.at_work.log, self.run_id)
                history.plan = self.at_work.plan
                equipment = self._equipment
                self._work = SingleTasks(equipment.agent, history, equipment.resources, self._clock)
                self._read_at = read_at
            work = self._at_work_on[task_id, attempt] = self._work
        return await work.work_on(task_id, attempt, keep)

    def give_up(self, task_id: str, attempt: int, reason: str) -> FinishedTask:
        """The result of a task that is not begun once more."""
        work = self._at_work_on.setdefault((task_id, attempt), self._work)
        work.forget(task_id)
        return work.give_up(task_id, attempt, reason)

    def forget(self, task_id: str, attempt: int) -> None:
        """A task is no longer worked on here, and nothing came of it."""
        if (work := self._at_work_on.get((task_id, attempt))) is not None:
            work.forget(task_id)
            self.release(task_id, attempt)

    def release(self, task_id: str, attempt: int) -> None:
        """A task has ended."""
        self._at_work_on.pop((task_id, attempt), None)
        self.used_at = time.monotonic()

    def end(self) -> None:
        """Let go of the run."""
        self._work.end()


class RunsAtWork:
    """Loads runs and their equipment, each once however many tasks ask for it."""

    def __init__(self, database: FleetDatabase, equipper: Equipper, clock: Clock) -> None:
        self._database = database
        self._equipper = equipper
        self._clock = clock
        self._loading: dict[str, asyncio.Future[LoadedRun | None]] = {}
        self._equipment: dict[str, asyncio.Future[Equipment]] = {}  # by lane, the oldest first

    async def load(self, run_id: str) -> LoadedRun | None:
        """A run with its equipment; None if it is no longer in the fleet."""
        loading = self._loading.get(run_id)
        if loading is None:
            await self._forget_idle()
            loading = self._loading[run_id] = asyncio.ensure_future(self._load(run_id))
        run = None
        try:
            run = await asyncio.shield(loading)
        finally:
            if run is None:
                self._loading.pop(run_id, None)
        return run

    async def lane(self, run_id: str) -> str | None:
        """The lane of a run that is in the fleet."""
        row = await self._database.patiently(lambda: self._database.fetchrow(_FIND, run_id))
        return None if row is None else str(row["lane"])

    async def _load(self, run_id: str) -> LoadedRun | None:
        row = await self._database.patiently(lambda: self._database.fetchrow(_FIND, run_id))
        if row is None:
            return None
        log, read_at = self._database.log.for_tenant(row["tenant"]), time.monotonic()
        history = await asyncio.to_thread(recorded_history, log, run_id)
        history.plan = msgspec.json.decode(row["plan"], type=HandedPlan).applied_to(history.plan)
        if history.plan.origin is not None:  # a host runs no code that a log names
            history.plan = msgspec.structs.replace(history.plan, source=None)
        lane = row["lane"]
        if lane not in self._equipment:
            equipping = self._equipper.equip(row["owner"], history.plan)
            self._equipment[lane] = asyncio.ensure_future(equipping)
        try:
            equipment = await asyncio.shield(self._equipment[lane])
        except Exception:
            self._equipment.pop(lane, None)
            raise
        redactor = equipment.resources.surroundings.redactor
        facts = run_id, row["run"], log, history.plan, history.started_at_us, redactor
        return LoadedRun(RunAtWork(*facts), lane, equipment, history, self._clock, read_at)

    async def _forget_idle(self) -> None:
        """Let go of runs that have had no task for a while, and of equipment nobody uses."""
        before = time.monotonic() - IDLE_SECONDS
        used = set()
        for run_id, loading in list(self._loading.items()):
            run = _loaded(loading)
            if run is not None and not run.tasks and run.used_at < before:
                del self._loading[run_id]
                run.end()
            elif run is not None:
                used.add(run.lane)
        if len(self._equipment) > MOST_EQUIPMENT and all(map(_loaded, self._loading.values())):
            for lane in [each for each in self._equipment if each not in used]:
                await self._close(self._equipment.pop(lane))

    async def _close(self, loading: "asyncio.Future[Equipment]") -> None:
        if (equipment := _loaded(loading)) is not None:
            await equipment.close()
        loading.cancel()

    async def close(self) -> None:
        """Let go of everything."""
        for loading in self._loading.values():
            if (run := _loaded(loading)) is not None:
                run.end()
            loading.cancel()
        for equipment in self._equipment.values():
            await self._close(equipment)


def _loaded(loading: "asyncio.Future[T]") -> T | None:
    """What was loaded, if it was."""
    is_loaded = loading.done() and not loading.cancelled() and loading.exception() is None
    return loading.result() if is_loaded else None
