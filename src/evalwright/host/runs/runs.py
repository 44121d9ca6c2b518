"""The runs that this host executes: started, paused, cancelled, and resumed after a restart."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import TYPE_CHECKING

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import (
    EvalwrightError,
    Interrupted,
    LogConflict,
    RunBusy,
    RunFailed,
    StoreError,
    StoreUnavailable,
)
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    DrainPolicy,
    ErrorDetail,
    Event,
    Payload,
    RunCancelled,
    RunFailure,
    RunPaused,
    RunResumed,
    RunStarted,
)
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.engine.history import History
from evalwright.engine.recorder import Recorder
from evalwright.host.access.limits import ConcurrencyLimit
from evalwright.host.async_store import claimed
from evalwright.host.http.errors import ApiError, unavailable
from evalwright.host.runs.executor import ExecutorMaker, RunningRun
from evalwright.host.runs.handle import ENDED, ExecutedElsewhere, RunHandle, Status
from evalwright.host.runs.planning import PlannedEvaluation
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent, RunFacts
from evalwright.store.records import RecordChange

if TYPE_CHECKING:
    from evalwright.engine.fleet.database import FleetDatabase

STOP_RETRY_SECONDS = 5  # after which another process may serve
GO_ON_SECONDS = 2  # after which a run that the store stopped is likely to go on
BREAK_OFF_SECONDS = 2  # that runs have to end when they are broken off
FIRST_DELAY_SECONDS = 0.5  # before a run is taken up again; it doubles each time that fails
LONGEST_DELAY_SECONDS = 60.0
CANCEL_SECONDS = 2  # that a request waits for the end of the run it cancels

_logger = logging.getLogger(__name__)


class Runs:
    """Executes runs in the background of one event loop."""

    def __init__(
        self,
        log: EventLog,
        maker: ExecutorMaker,
        redactor: Redactor,
        clock: Clock,
        limit: ConcurrencyLimit,
        fleet: "FleetDatabase | None" = None,
    ) -> None:
        self._log = log
        self._maker = maker
        self._redactor = redactor
        self._clock = clock
        self._limit = limit
        self._fleet = fleet  # whose workers execute evaluations in place of this process
        self._running: dict[str, RunningRun] = {}
        self._waking: set[str] = set()  # paused runs that are about to be running again
        self._retries: dict[str, asyncio.Task[None]] = {}  # of runs that the store has stopped
        self._delays: dict[str, float] = {}  # of runs that were stopped before
        self._is_stopping = False
        self._broken_off = asyncio.Event()  # stopping must take no longer

    async def start(
        self, run: RunHandle, planned: PlannedEvaluation, changes: Sequence[RecordChange] = ()
    ) -> None:
        """Create an evaluation, durably and together with changes, and execute it."""
        history = History(run.run_id, planned.plan, self._clock.now_us())
        await self.begin(run, history, planned.agent, (), changes)

    async def begin(
        self,
        run: RunHandle,
        history: History,
        agent: Agent,
        facts: Sequence[NewEvent] = (),
        changes: Sequence[RecordChange] = (),
    ) -> None:
        """Create an evaluation that may copy facts of another, and have it executed.

        The agent is closed with the run, or at once if there will be none here.
        """
        async with AsyncExitStack() as unused:
            unused.push_async_callback(agent.close)
            with self._counted(run) as counted:
                if self._fleet is not None:
                    from evalwright.engine.fleet.handover import hand_over

                    parties = (run.partition, run.tenant), self._redactor, self._clock
                    await hand_over(self._fleet, history, *parties, facts, changes)
                    return
                executor = await self._maker.evaluation(run, agent, history)
                unused.pop_all()  # the executor closes the agent too
                unused.push_async_callback(executor.close)
                await executor.open(facts, changes)
                self._execute(RunningRun(run, executor, counted.pop_all()))
                unused.pop_all()

    async def start_workflow(
        self, run: RunHandle, started: RunStarted, changes: Sequence[RecordChange] = ()
    ) -> None:
        """Create a run of a workflow, durably and together with changes, and execute it."""
        with self._counted(run) as counted:
            recorder = Recorder(run.log, run.run_id, self._clock, self._redactor)
            await recorder.create([started], (), changes)
            executor = await self._maker.workflow(run, started)
            assert executor is not None, "only workflows of the host are started"
            self._execute(RunningRun(run, executor, counted.pop_all()))

    def _counted(self, run: RunHandle) -> ExitStack:
        """Count a run of a tenant; raises `ApiError` if there are too many, or the host stops."""
        self._refuse_while_stopping()
        with ExitStack() as held:
            held.enter_context(self._limit.hold())
            held.enter_context(self._limit.hold_for(run.tenant))
            return held.pop_all()

    def _execute(self, running: RunningRun) -> None:
        run_id = running.run.run_id
        self._running[run_id] = running
        running.task = asyncio.create_task(self._attend(running), name=run_id)

    async def _attend(self, running: RunningRun) -> None:
        """Execute a run until it ends or the host stops."""
        run, is_stranded = running.run, False
        try:
            with running.counted:
                async with claimed(run.log, run.run_id):
                    try:
                        await running.executor.run()
                    except asyncio.CancelledError:
                        if running.cancelled is not None:
                            await running.executor.cancel(running.cancelled)
                        # Else the host stops; the run is resumed later.
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - a fault in one run must not end the host
            is_stranded = await self._report(run, error)
        finally:
            self._running.pop(run.run_id, None)
            if is_stranded:
                self._retry_later(run)
            else:
                self._delays.pop(run.run_id, None)
            await running.executor.close()

    async def _report(self, run: RunHandle, error: Exception) -> bool:
        """Log why a run stopped, or record it; returns whether the run is to be taken up again."""
        match error:
            case Interrupted() | RunFailed():
                return False  # the host stops, or the log of the run says so
            case StoreUnavailable() | LogConflict():
                _logger.error("run %s stopped, and is taken up again: %s", run.run_id, error)
                return True
            case EvalwrightError() | ApiError():
                _logger.error("run %s stopped: %s", run.run_id, type(error).__name__)
                return False
        kind = type(error).__name__
        _logger.error("run %s failed: internal error %s", run.run_id, kind)
        detail = ErrorDetail("internal_error", f"internal error of the host: {kind}")
        await self._fail(run, detail)
        return False

    async def _fail(self, run: RunHandle, detail: ErrorDetail) -> None:
        """End a run that cannot go on, as soon as that can be recorded."""
        event = self.event(run, RunFailure(detail))
        await run.keep(NewEvent(event.type, None, event.at_us, event.body))

    def executes(self, run_id: str) -> bool:
        """Whether this process executes a run."""
        return run_id in self._running

    def knows(self, run_id: str) -> bool:
        """Whether this process executes a run, or is about to do so again."""
        return run_id in self._running or run_id in self._retries

    async def finish(self, run: RunHandle) -> None:
        """Wait until a run is no longer executed here."""
        running = self._running.get(run.run_id)
        if running is not None and running.task is not None:
            await asyncio.wait((running.task,))

    # Cancelling, pausing and resuming.

    async def cancel(self, run: RunHandle, reason: str | None, by: str) -> Status:
        """Cancel a run; raises `ApiError` 409 if it has ended."""
        await self._try_store()
        status = await self.status(run)
        if status in ENDED:
            raise _conflict(f"the run is {status}", status)
        ending = RunCancelled(mask_reason(reason), by)
        running = self._running.get(run.run_id)
        if running is None:
            try:
                async with claimed(run.log, run.run_id):
                    await self._record(run, ending)
            except RunBusy:
                raise ExecutedElsewhere from None
            return "cancelled"
        assert running.task is not None
        if running.cancelled is None:  # a second time would interrupt the recording of the first
            running.cancelled = ending
            running.task.cancel()
        done, _ = await asyncio.wait((running.task,), timeout=CANCEL_SECONDS)
        if not done:
            return "cancelling"
        status = await self.status(run)
        if status == "cancelled":
            return status
        if status in ENDED:
            raise _conflict(f"the run is {status}", status)
        raise unavailable("the run could not be cancelled", GO_ON_SECONDS)

    async def pause(
        self, run: RunHandle, reason: str | None, *, immediately: bool = False
    ) -> Event:
        """Pause a running run; raises `ApiError` 409 for any other.

        What is in progress ends first; `immediately` interrupts it where the executor can.
        """
        await self._try_store()
        status = await self.status(run)
        if status != "running":
            message = f"the run is {status}; only a running run can be paused"
            raise _conflict(message, status)
        running = self._running.get(run.run_id)
        if running is None:
            if run.run_id in self._retries:
                raise unavailable("the run is about to be taken up again", GO_ON_SECONDS)
            raise ExecutedElsewhere
        policy: DrainPolicy = "immediate" if immediately else "drain-current-node"
        paused = RunPaused(mask_reason(reason), policy)
        if not running.executor.pause(paused, immediately=immediately):
            return self.event(run, paused)
        try:
            return await self._record(run, paused)
        except StoreError:
            running.executor.resume()
            raise

    async def _try_store(self) -> None:
        """Raise `StoreUnavailable` before anything is done that could not be recorded."""
        await asyncio.wrap_future(self._log.try_out())

    async def resume(self, run: RunHandle, reason: str | None) -> Event:
        """Resume a paused run; raises `ApiError` 409 for any other."""
        self._refuse_while_stopping()
        await self._try_store()
        status = await self.status(run)
        if status != "paused":
            raise _conflict(f"the run is {status}, not paused", status)
        running = self._running.get(run.run_id)
        resumed = RunResumed(mask_reason(reason))
        self._waking.add(run.run_id)  # it counts as running: no other request resumes it too
        try:
            if running is not None:
                recorded = await self._record(run, resumed)
                running.executor.resume()
                return recorded
            # It was paused when an earlier process ended.
            with self._counted(run) as counted:
                try:
                    async with claimed(run.log, run.run_id):
                        recorded = await self._record(run, resumed)
                except RunBusy:
                    raise ExecutedElsewhere from None
                await self._go_on(run, counted)
            return recorded
        finally:
            self._waking.discard(run.run_id)

    async def status(self, run: RunHandle) -> Status:
        """The status of a run; raises `RunNotFound`."""
        last = (await run.read_edges())[-1]
        if last.type in TERMINAL_TYPES:
            ended: Status = last.type.removeprefix("run.")  # type: ignore[assignment]
            return ended
        executed = self._executed_status(run.run_id)
        if executed is not None:
            return executed
        return self.status_of(await run.in_reader(lambda: run.log.facts(run.run_id)))

    def status_of(self, run: RunFacts) -> Status:
        """The status of a run whose facts are known."""
        status: Status = run.status  # type: ignore[assignment]
        return status if status in ENDED else self._executed_status(run.run_id) or status

    def _executed_status(self, run_id: str) -> Status | None:
        """The status of a run that this process executes, which is ahead of the log."""
        running = self._running.get(run_id)
        if running is not None and running.cancelled is not None:
            return "cancelling"
        if run_id in self._waking:
            return "running"
        if running is None:
            return None
        return "paused" if running.executor.is_paused else "running"

    async def _record(self, run: RunHandle, payload: Payload) -> Event:
        event = self.event(run, payload)
        await run.append([NewEvent(event.type, None, event.at_us, event.body)])
        return event

    def event(self, run: RunHandle, payload: Payload) -> Event:
        """An event as it is recorded, without its sequence."""
        body = self._redactor.redact(msgspec.json.encode(payload))
        return Event(run.run_id, -1, payload.TYPE, None, self._clock.now_us(), body)

    # Start and stop of the host.

    async def recover(self, run: RunHandle) -> bool:
        """Go on with a run that a crash or a stop interrupted; False if that is not possible."""
        return await self._go_on(run, ExitStack())

    async def _go_on(self, run: RunHandle, counted: ExitStack) -> bool:
        try:
            async with claimed(run.log, run.run_id):
                executor = await self._maker.recalled(run)
        except RunBusy:
            return False
        except StoreUnavailable:
            self._retry_later(run)
            return False
        except EvalwrightError as error:
            await self._fail(run, ErrorDetail("cannot_resume", str(error), None, True))
            return False
        self._execute(RunningRun(run, executor, counted.pop_all()))
        return True

    def _retry_later(self, run: RunHandle) -> None:
        """Go on soon with a run that the store has stopped; later, if it was stopped before."""
        if not self._is_stopping:
            delay = self._delays.get(run.run_id, FIRST_DELAY_SECONDS)
            self._delays[run.run_id] = min(2 * delay, LONGEST_DELAY_SECONDS)
            self._retries[run.run_id] = asyncio.create_task(self._retry(run, delay))

    async def _retry(self, run: RunHandle, delay: float) -> None:
        while True:
            await asyncio.sleep(delay)
            with suppress(StoreError):
                await asyncio.wrap_future(run.log.try_out())
                break
        try:
            run.log.clear_failure(run.run_id)
            if not self._is_stopping and await self.status(run) == "running":
                await self._go_on(run, ExitStack())
        except StoreError:
            self._retry_later(run)
        if self._retries.get(run.run_id) is asyncio.current_task():
            del self._retries[run.run_id]

    async def stop(self, seconds: float) -> None:
        """Stop all runs, and let calls in flight end for so long; the next start resumes them."""
        self._is_stopping = True
        for retry in self._retries.values():
            retry.cancel()
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for running in tuple(self._running.values()):
            is_idle = running.cancelled is None and not running.executor.drain()
            if is_idle and running.task is not None:
                running.task.cancel()
        if not tasks:
            return
        ended = asyncio.ensure_future(asyncio.wait(tasks))
        hurry = asyncio.ensure_future(self._broken_off.wait())
        await asyncio.wait((ended, hurry), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        hurry.cancel()
        for running in tuple(self._running.values()):
            if running.task is not None and running.cancelled is None:
                running.task.cancel()
        await asyncio.wait(tasks, timeout=BREAK_OFF_SECONDS)

    def break_off(self) -> None:
        """Wait for calls in flight no longer."""
        self._broken_off.set()

    def _refuse_while_stopping(self) -> None:
        if self._is_stopping:
            raise unavailable("the host is shutting down", STOP_RETRY_SECONDS)


def _conflict(message: str, status: str) -> ApiError:
    return ApiError(409, "conflict", message, {"runStatus": status})
