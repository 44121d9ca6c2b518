"""A worker: leases tasks that are due, works on them, and writes what came of them."""

import asyncio
import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from evalwright.contracts.errors import EvalwrightError
from evalwright.engine.clock import Clock, SystemClock
from evalwright.engine.fleet.database import FleetDatabase, persistently
from evalwright.engine.fleet.endings import BegunAttempt, Ending
from evalwright.engine.fleet.equipment import Equipper
from evalwright.engine.fleet.heartbeat import HeartbeatProcess
from evalwright.engine.fleet.queue import (
    BEATS_PER_LEASE,
    LEASE_SECONDS,
    LeasedTask,
    TaskQueue,
    return_tasks,
)
from evalwright.engine.fleet.repair import end_overdue, reconcile
from evalwright.engine.fleet.runs_at_work import LoadedRun, RunsAtWork
from evalwright.engine.single_task import FinishedTask, TakenAway
from evalwright.store.protocol import NewEvent

MOST_BEAT_SECONDS = 2.0  # however long leases are: others count who was heard of lately
POLL_SECONDS = 0.5  # after which a worker with nothing to do looks again
RECONCILE_SECONDS = 15.0
LATER_SECONDS = 1.0  # after which a task that must not begin beside another is looked at again
LEAVE_SECONDS = 2.0  # that it takes at most to tell the others
MOST_ENDING = 4  # times its concurrency: more tasks than that do not wait for the database
_logger = logging.getLogger(__name__)
_BEGIN = "SELECT * FROM fleet_begin($1, $2, $3)"
# By the clock: a loop that is held after it has sent what to prepare, and before what to execute,
# began its transaction long ago, and would set back what was sent in its place meanwhile.
_REGISTER = """
INSERT INTO fleet_workers (worker, name, concurrency, tenants) VALUES ($1, $2, $3, $4)
ON CONFLICT (worker) DO UPDATE SET seen_at = clock_timestamp()
"""


class WorkerSettings(NamedTuple):
    """What the operator decides about a worker."""

    name: str
    concurrency: int = 10
    tenants: tuple[str, ...] = ()  # whose runs it works on; empty: all
    most_attempts: int = 5  # at a task, before it counts as failed
    drain_s: float = 30.0  # that tasks have to end when the worker is told to stop
    lease_s: float = LEASE_SECONDS

    @property
    def beat_s(self) -> float:
        """The time between two heartbeats."""
        return min(self.lease_s / BEATS_PER_LEASE, MOST_BEAT_SECONDS)


class _BegunTask(NamedTuple):
    """A task that is worked on."""

    run: LoadedRun
    taken: LeasedTask
    attempt: int
    lost: int  # attempts before it that ended with their workers
    at: float  # when it was begun

    @property
    def key(self) -> BegunAttempt:
        """The attempt."""
        return BegunAttempt(self.run.run_id, self.taken.task_id, self.attempt)


class Worker:
    """Works on tasks of any runs, in one event loop."""

    def __init__(
        self,
        database: FleetDatabase,
        equipper: Equipper,
        settings: WorkerSettings,
        clock: Clock | None = None,
        *,
        may_be_held: bool = False,
    ) -> None:
        self.worker = uuid.uuid4()
        self.settings = settings
        self._heartbeats = (  # in its place while its loop is held
            HeartbeatProcess(database.url, self.worker, settings.beat_s) if may_be_held else None
        )
        self._database = database
        self._clock = clock or SystemClock()
        self._ending = Ending(database, self.worker, self._clock)
        self._runs = RunsAtWork(database, equipper, self._clock)
        self._tenants = list(settings.tenants) or None
        self._queue = TaskQueue(database, self.worker, self._tenants, settings.lease_s)
        self._held: dict[LeasedTask, asyncio.Task[None]] = {}  # everything that was taken
        self._begun: dict[BegunAttempt, asyncio.Task[None]] = {}
        self._orphans: set[BegunAttempt] = set()  # attempts that nobody here worked on of late
        self._working = 0  # tasks whose agents are at work
        self._endings: dict[str, list[tuple[FinishedTask, LeasedTask]]] = {}  # by run
        self._writes: dict[str, asyncio.Task[None]] = {}  # that write them, by run
        self._woken = asyncio.Event()
        self._beats_now = asyncio.Event()
        self._is_draining = False
        self.tasks_done = 0
        self.leases_lost = 0

    async def run(self) -> None:
        """Work until told to stop, then let tasks end."""
        await self._database.patiently(self._register)
        if self._heartbeats is not None:
            await asyncio.to_thread(self._heartbeats.start)
        beside = [
            asyncio.create_task(persistently(each))
            for each in (self._beat, self._reconcile, partial(self._database.listen, self._on_due))
        ]
        try:
            while not self._is_draining:
                await self._lease_tasks()
            # Let tasks end; those that are not begun are taken by others.
            deadline = time.monotonic() + self.settings.drain_s
            while self._held and time.monotonic() < deadline:
                held = set(self._held.values())
                await asyncio.wait(held, timeout=deadline - time.monotonic())
        finally:
            for each in [*beside, *self._held.values()]:
                each.cancel()
            await asyncio.gather(*beside, *self._held.values(), return_exceptions=True)
            await self._runs.close()
            if self._heartbeats is not None:
                self._heartbeats.close()
            try:  # others have at once what is left
                async with asyncio.timeout(LEAVE_SECONDS), self._database.connection() as c:
                    await c.execute("DELETE FROM fleet_workers WHERE worker = $1", self.worker)
            except Exception as error:  # noqa: BLE001 - others find out
                _logger.warning("the fleet was not told: %s", error)

    @property
    def at_work(self) -> int:
        """How many tasks were begun, or are being begun."""
        return self._working

    def drain(self) -> None:
        """Take no more tasks; `run` returns when those that were taken have ended."""
        self._is_draining = True
        self._woken.set()

    # Taking tasks.

    async def _lease_tasks(self) -> None:
        """Lease as many tasks as there is room for, or wait."""
        self._woken.clear()
        is_jammed = len(self._held) >= MOST_ENDING * self.settings.concurrency
        room = 0 if is_jammed else self.settings.concurrency - self._working

        async def lease() -> list[LeasedTask]:
            return [] if self._is_draining else await self._queue.lease(room)  # since an outage

        taken = await self._database.patiently(lease) if room > 0 else []
        runs: dict[str, list[LeasedTask]] = {}
        for each in taken:
            runs.setdefault(each.run_id, []).append(each)
        self._working += len(taken)
        for run_id, tasks in runs.items():
            self._held |= dict.fromkeys(tasks, asyncio.create_task(self._begin(run_id, tasks)))
        if not taken:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                self._queue.forget_lanes()

    def _on_due(self, lanes: Sequence[str]) -> None:
        """Tasks became due, here or elsewhere."""
        if not lanes:  # or something else happened
            self._queue.forget_lanes()
            self._beats_now.set()
        self._queue.add_lanes(lanes)
        self._woken.set()

    async def _begin(self, run_id: str, tasks: Sequence[LeasedTask]) -> None:
        """Load what the run needs, begin its tasks, and work on them."""
        going: list[_BegunTask] = []
        try:
            run = await self._load(run_id)
            if run is not None:
                going = await self._database.patiently(lambda: self._lock(run, tasks))
            else:
                await self._database.patiently(lambda: self._return(tasks))
        except Exception:
            _logger.exception("run %s is left to other workers", run_id)
        finally:
            rest = set(tasks) - {each.taken for each in going}
            self._working -= len(rest)
            self._let_go(rest)
            self._woken.set()
        for begun in going:
            self._held[begun.taken] = self._begun[begun.key] = asyncio.create_task(
                self._work(begun)
            )

    def _let_go(self, taken: Iterable[LeasedTask]) -> None:
        """Hold tasks no longer, but for those that were begun again meanwhile."""
        for each in taken:
            if self._held.get(each) is asyncio.current_task():
                del self._held[each]

    async def _load(self, run_id: str) -> LoadedRun | None:
        """The run with what its tasks need; None if it has ended, or cannot be loaded here."""
        try:
            return await self._database.patiently(lambda: self._runs.load(run_id))
        except Exception as error:  # noqa: BLE001 - whatever is missing here, others may have
            is_known = isinstance(error, EvalwrightError)
            reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            lane = await self._runs.lane(run_id)
            if lane is not None:
                self._queue.refuse(lane)
                await self._database.refuse(run_id, self.worker, reason)
                _logger.warning("run %s is left to other workers: %s", run_id, reason)
            return None

    async def _return(self, tasks: Sequence[LeasedTask]) -> None:
        """Let others take tasks that were not begun; those of a run that has ended are gone."""
        lane = await self._runs.lane(tasks[0].run_id)
        if lane is not None:
            async with self._database.connection() as connection:
                await return_tasks(connection, self.worker, tasks, 0)
            self._database.announce([lane])

    async def _lock(self, run: LoadedRun, tasks: Sequence[LeasedTask]) -> list[_BegunTask]:
        """Begin attempts: lock first, look for scores second.

        A crash of the server may undo it: then this worker finds that the attempt is not its own.
        """
        async with self._database.connection(hurried=True) as connection:
            rows = await connection.fetch(
                _BEGIN, self.worker, [run.run_id] * len(tasks), [each.task_id for each in tasks]
            )
            found = {tasks[row["place"] - 1]: row for row in rows}
            later = [each for each, row in found.items() if row["verdict"] == "later"]
            await return_tasks(connection, self.worker, later, LATER_SECONDS)
        going, now = [], time.monotonic()
        for each, row in found.items():
            if row["verdict"] == "go":
                going.append(_BegunTask(run, each, row["number"], row["lost"], now))
            elif row["verdict"] == "paused":
                await self._ending.put_back(run.at_work, each, row["number"])
            elif row["verdict"] == "scored":
                await self._ending.count_scored(run.at_work, each, row["number"])
        return going

    # Working on tasks, and their end.

    async def _work(self, begun: _BegunTask) -> None:
        run, taken = begun.run, begun.taken
        finished = None
        try:
            finished = await self._finished(begun)
        except asyncio.CancelledError:
            run.forget(taken.task_id, begun.attempt)
            raise
        finally:
            self._working -= 1
            self._woken.set()
            del self._begun[begun.key]
            if finished is None:
                self._let_go((taken,))
        if finished is not None:  # it is written together with others of the run that end meanwhile
            self._endings.setdefault(run.run_id, []).append((finished, taken))
            if run.run_id not in self._writes:
                self._writes[run.run_id] = asyncio.create_task(self._write(run))
            self._held[taken] = self._writes[run.run_id]

    async def _finished(self, begun: _BegunTask) -> FinishedTask | None:
        """Work on a task; None if it is not to be done now."""
        run, taken, attempt, lost, begun_at = begun
        if attempt > 1:
            self.leases_lost += lost > 0
            if not await self._database.patiently(
                lambda: self._ending.lose(run.at_work, taken, attempt, is_lease=lost > 0)
            ):
                return None
        if lost >= self.settings.most_attempts:
            reason = f"{lost} attempts ended with their workers"
            return run.give_up(taken.task_id, attempt, reason)

        async def keep(events: list[NewEvent], own_from: int) -> None:
            facts = run.at_work, taken.task_id, attempt, events, own_from
            if not await self._database.patiently(lambda: self._ending.keep(*facts)):
                raise TakenAway

        try:
            return await run.work_on(taken.task_id, attempt, begun_at, keep)
        except TakenAway:
            run.forget(taken.task_id, attempt)
            return None
        except Exception as error:
            reason = f"internal error: {type(error).__name__}"
            _logger.exception("task %s of run %s: %s", taken.task_id, taken.run_id, reason)
            return run.give_up(taken.task_id, attempt, reason)

    async def _write(self, run: LoadedRun) -> None:
        endings = self._endings[run.run_id]

        def release(count: int) -> None:
            for finished, taken in endings[:count]:
                self._let_go((taken,))
                run.release(finished.task_id, finished.attempt)
            del endings[:count]

        try:
            while finished := [each for each, _ in endings]:
                end = partial(self._ending.end, run.at_work, finished)
                self.tasks_done += len(await self._database.patiently(end))
                release(len(finished))
                self._woken.set()
        except Exception:
            _logger.exception("tasks of run %s are left to other workers", run.run_id)
            release(len(endings))
        finally:
            del self._endings[run.run_id], self._writes[run.run_id]

    # Beside the work.

    async def _register(self) -> None:
        facts = self.worker, self.settings.name, self.settings.concurrency, self._tenants
        async with self._database.connection() as connection:
            await connection.execute(_REGISTER, *facts)

    async def _beat(self) -> None:
        """Say that this worker is there, and find out which tasks are no longer its own."""
        while True:
            if self._heartbeats is not None:
                self._heartbeats.report()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.beat_s):
                    await self._beats_now.wait()
            self._beats_now.clear()
            await self._database.patiently(self._beat_once)

    async def _beat_once(self) -> None:
        await self._register()
        async with self._database.connection() as connection:
            begun = dict(self._begun)
            mine = await self._ending.mine(connection)
            held = {(each.run_id, each.task_id) for each in self._held}
            orphans = {each for each in mine if each[:2] not in held}
            await self._ending.disown(connection, orphans & self._orphans)
            self._orphans = orphans
        for attempt in begun.keys() - {each for each, is_begun in mine.items() if is_begun}:
            # Others have them, or their runs have ended.
            begun[attempt].cancel()
        await end_overdue(self._database, self._clock)

    async def _reconcile(self) -> None:
        """Repair what the fleet counts: at the start, and now and then."""
        repair = partial(reconcile, self._database)
        while True:
            if await self._database.patiently(repair):
                self._queue.forget_lanes()
                self._woken.set()
            await asyncio.sleep(RECONCILE_SECONDS)
            repair = partial(reconcile, self._database, at_once=False)
