"""The runs that this host executes: started, paused, cancelled, and resumed after a restart."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import CannotEvaluate, EvalwrightError, RunBusy, RunFailed
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
from evalwright.engine.continuation import recall_answers
from evalwright.engine.execution import Means
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.session import ModelPool, gather_means
from evalwright.host.errors import ApiError, unavailable
from evalwright.host.evaluation import PlannedEvaluation, Planner
from evalwright.host.executors import EvaluationExecutor, RunExecutor
from evalwright.host.extension import Workflow
from evalwright.host.limits import ConcurrencyLimit
from evalwright.host.run_handle import ENDED, RunHandle, Status, is_evaluation
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent, RunFacts
from evalwright.store.records import RecordChange

STOP_RETRY_SECONDS = 5  # after which another process may serve
CANCEL_SECONDS = 2  # that a request waits for the end of the run it cancels

_logger = logging.getLogger(__name__)


class _Running:
    """A run that is being executed here; it counts as running until it ends."""

    def __init__(self, run: RunHandle, executor: RunExecutor, counted: ExitStack) -> None:
        self.run = run
        self.executor = executor
        self.counted = counted
        self.task: asyncio.Task[None] | None = None
        self.cancelled: RunCancelled | None = None  # how it is to end


class Runs:
    """Executes runs in the background of one event loop."""

    def __init__(
        self,
        log: EventLog,
        planner: Planner,
        models: ModelPool,
        redactor: Redactor,
        clock: Clock,
        limit: ConcurrencyLimit,
        tools: str | None = None,
        workflows: Mapping[str, Workflow] | None = None,
    ) -> None:
        self._log = log
        self._planner = planner
        self._models = models
        self._redactor = redactor
        self._clock = clock
        self._limit = limit
        self._tools = tools  # the file that describes live tools; no tenant's log names it
        self._workflows = workflows or {}
        self._running: dict[str, _Running] = {}
        self._waking: set[str] = set()  # paused runs that are about to be running again
        self._is_stopping = False

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
        """Create an evaluation that may copy facts of another, and execute it.

        The agent is closed with the run, or at once if there will be none.
        """
        async with AsyncExitStack() as unused:
            unused.push_async_callback(agent.close)
            with self._counted(run) as counted:
                executor = await self._evaluation(run, agent, history)
                unused.pop_all()  # the executor closes the agent too
                unused.push_async_callback(executor.close)
                await executor.open(facts, changes)
                self._execute(_Running(run, executor, counted.pop_all()))
                unused.pop_all()

    async def start_workflow(
        self, run: RunHandle, started: RunStarted, changes: Sequence[RecordChange] = ()
    ) -> None:
        """Create a run of a workflow, durably and together with changes, and execute it."""
        with self._counted(run) as counted:
            recorder = Recorder(run.log, run.run_id, self._clock, self._redactor)
            recorder.open([started], (), changes)
            await recorder.flush()
            executor = await self._workflow(run, started)
            assert executor is not None, "only workflows of the host are started"
            self._execute(_Running(run, executor, counted.pop_all()))

    def _counted(self, run: RunHandle) -> ExitStack:
        """Count a run of a tenant; raises `ApiError` if there are too many, or the host stops."""
        self._refuse_while_stopping()
        with ExitStack() as held:
            held.enter_context(self._limit.hold())
            held.enter_context(self._limit.hold_for(run.tenant))
            return held.pop_all()

    def _execute(self, running: _Running) -> None:
        run_id = running.run.run_id
        self._running[run_id] = running
        running.task = asyncio.create_task(self._attend(running), name=run_id)

    async def _attend(self, running: _Running) -> None:
        """Execute a run until it ends or the host stops."""
        run = running.run
        try:
            with running.counted, run.log.claim(run.run_id):
                try:
                    await running.executor.run()
                except asyncio.CancelledError:
                    if running.cancelled is None:  # the host stops; the run is resumed later
                        raise
                    await running.executor.cancel(running.cancelled)
        except asyncio.CancelledError:
            pass
        except RunFailed:
            pass  # its log says so
        except (EvalwrightError, ApiError) as error:
            _logger.error("run %s stopped: %s", run.run_id, type(error).__name__)  # noqa: TRY400
        except Exception as error:  # noqa: BLE001 - a fault in one run must not end the host
            kind = type(error).__name__
            _logger.error("run %s failed: internal error %s", run.run_id, kind)  # noqa: TRY400
            detail = ErrorDetail("internal_error", f"internal error of the host: {kind}")
            await self._record(run, RunFailure(detail))
        finally:
            self._running.pop(run.run_id, None)
            await running.executor.close()

    async def finish(self, run: RunHandle) -> None:
        """Wait until a run is no longer executed here."""
        running = self._running.get(run.run_id)
        if running is not None and running.task is not None:
            await asyncio.wait((running.task,))

    async def _evaluation(
        self, run: RunHandle, agent: Agent, history: History
    ) -> EvaluationExecutor:
        means = await self._means(history.plan)
        return EvaluationExecutor(run.log, agent, history, self._clock, means)

    async def _means(self, plan: Plan) -> Means:
        tools, panel = self._tools if plan.is_live else None, plan.panel
        judges = self._models.panel(panel.judges, panel.samples) if panel else None
        try:
            return await gather_means(self._models, judges, tools, live=plan.is_live)
        except EvalwrightError as error:  # it names files and commands of the operator
            _logger.error("the live tools cannot be loaded: %s", error)  # noqa: TRY400
            message = "the live tools of the host cannot be loaded; ask its operator"
            raise CannotEvaluate(message) from None

    async def _workflow(self, run: RunHandle, started: RunStarted) -> RunExecutor | None:
        """The executor of a run of a workflow; None for a run of anything else."""
        workflow = self._workflows.get(started.workflow_id)
        if workflow is None or started.owner is None:
            return None
        recorder = Recorder(run.log, run.run_id, self._clock, self._redactor)
        events = await run.beside(lambda: list(run.log.read(run.run_id)))
        return workflow.executor(recorder, self._clock, events, self._planner.limits)

    # Cancelling, pausing and resuming.

    async def cancel(self, run: RunHandle, reason: str | None, by: str) -> Status:
        """Cancel a run; raises `ApiError` 409 if it has ended."""
        status = await self.status(run)
        if status in ENDED:
            raise _conflict(f"the run is {status}", status)
        ending = RunCancelled(mask_reason(reason), by)
        running = self._running.get(run.run_id)
        if running is None:
            await self._end_idle(run, ending)
            return "cancelled"
        assert running.task is not None
        if running.cancelled is None:  # a second time would interrupt the recording of the first
            running.cancelled = ending
            running.task.cancel()
        done, _ = await asyncio.wait((running.task,), timeout=CANCEL_SECONDS)
        return "cancelled" if done else "cancelling"

    async def _end_idle(self, run: RunHandle, ending: RunCancelled) -> None:
        try:
            with run.log.claim(run.run_id):
                await self._record(run, ending)
        except RunBusy:
            message = "the run is being executed by another process"
            raise _conflict(message, "running") from None

    async def pause(
        self, run: RunHandle, reason: str | None, *, immediately: bool = False
    ) -> Event:
        """Pause a running run; raises `ApiError` 409 for any other.

        What is in progress ends first; `immediately` interrupts it where the executor can.
        """
        status = await self.status(run)
        running = self._running.get(run.run_id)
        if status != "running" or running is None:
            message = f"the run is {status}; only a running run can be paused"
            raise _conflict(message, status)
        policy: DrainPolicy = "immediate" if immediately else "drain-current-node"
        paused = RunPaused(mask_reason(reason), policy)
        if running.executor.pause(paused, immediately=immediately):
            return await self._record(run, paused)
        return self._event(run, paused)

    async def resume(self, run: RunHandle, reason: str | None) -> Event:
        """Resume a paused run; raises `ApiError` 409 for any other."""
        self._refuse_while_stopping()
        status = await self.status(run)
        if status != "paused":
            raise _conflict(f"the run is {status}, not paused", status)
        running = self._running.get(run.run_id)
        resumed = RunResumed(mask_reason(reason))
        if running is None:
            return await self._wake(run, resumed)
        running.executor.resume()  # at once, so that the next request finds it running
        return await self._record(run, resumed)

    async def _wake(self, run: RunHandle, resumed: RunResumed) -> Event:
        """Resume a run that was paused when an earlier process ended."""
        self._waking.add(run.run_id)
        try:
            with self._counted(run) as counted:
                recorded = await self._record(run, resumed)
                await self._go_on(run, counted)
        finally:
            self._waking.discard(run.run_id)
        return recorded

    async def status(self, run: RunHandle) -> Status:
        """The status of a run; raises `RunNotFound`."""
        last = (await run.look())[-1]
        if last.type in TERMINAL_TYPES:
            ended: Status = last.type.removeprefix("run.")  # type: ignore[assignment]
            return ended
        executed = self._executed_status(run.run_id)
        if executed is not None:
            return executed
        return self.status_of(await run.beside(lambda: run.log.facts(run.run_id)))

    def status_of(self, run: RunFacts) -> Status:
        """The status of a run whose facts are known."""
        status: Status = run.status  # type: ignore[assignment]
        return status if status in ENDED else self._executed_status(run.run_id) or status

    def _executed_status(self, run_id: str) -> Status | None:
        """The status of a run that this process executes, which is ahead of the log."""
        running = self._running.get(run_id)
        if running is None:
            return "running" if run_id in self._waking else None
        if running.cancelled is not None:
            return "cancelling"
        return "paused" if running.executor.is_paused else "running"

    async def _record(self, run: RunHandle, payload: Payload) -> Event:
        event = self._event(run, payload)
        await run.append([NewEvent(event.type, None, event.at_us, event.body)])
        return event

    def _event(self, run: RunHandle, payload: Payload) -> Event:
        body = self._redactor.redact(msgspec.json.encode(payload))
        return Event(run.run_id, -1, payload.TYPE, None, self._clock.now_us(), body)

    # Start and stop of the host.

    async def recover(self, announce: Callable[[RunHandle], None]) -> int:
        """Resume the runs that a crash or a stop interrupted; returns how many."""
        count = 0
        for run_id, partition in self._log.open_runs():
            run = RunHandle.find(self._log, partition, run_id)
            if not self._can_go_on(run) or run.open_status() != "running":
                continue
            try:
                announce(run)
                count += await self._go_on(run, ExitStack())
            except msgspec.DecodeError:  # one unreadable run must not keep the host from starting
                _logger.error("run %s is not resumed: its log cannot be read", run_id)  # noqa: TRY400
        return count

    def _can_go_on(self, run: RunHandle) -> bool:
        """Whether a host executes such runs: not those of the command line or of deployments."""
        edges = run.edges()
        try:
            started = edges[0].decode(RunStarted)
        except msgspec.DecodeError:
            return False
        is_known = started.workflow_id in self._workflows or is_evaluation(edges)
        return started.owner is not None and is_known

    async def _go_on(self, run: RunHandle, counted: ExitStack) -> bool:
        try:
            with run.log.claim(run.run_id):
                executor = await self._recalled(run)
        except RunBusy:
            return False
        except EvalwrightError as error:
            detail = ErrorDetail("cannot_resume", str(error), None, True)
            await self._record(run, RunFailure(detail))
            return False
        self._execute(_Running(run, executor, counted.pop_all()))
        return True

    async def _recalled(self, run: RunHandle) -> RunExecutor:
        """The executor of the rest of a run, from its log."""
        executor = await self._workflow(run, (await run.look())[0].decode(RunStarted))
        if executor is not None:
            return executor
        history = await run.beside(lambda: _recalled_history(run))
        agent = self._planner.agent_of(run.tenant, history.plan)
        return await self._evaluation(run, agent, history)

    async def stop(self, seconds: float) -> None:
        """Stop all runs where they are; they are resumed at the next start."""
        self._is_stopping = True
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for running in self._running.values():
            if running.task is not None and running.cancelled is None:
                running.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _refuse_while_stopping(self) -> None:
        if self._is_stopping:
            raise unavailable("the host is shutting down", STOP_RETRY_SECONDS)


def _recalled_history(run: RunHandle) -> History:
    history = read_history(run.log, run.run_id)
    recall_answers(run.log, history)
    return history


def _conflict(message: str, status: str) -> ApiError:
    return ApiError(409, "conflict", message, {"runStatus": status})
