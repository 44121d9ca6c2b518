"""The runs that this host executes: started, paused, cancelled, and gone on with after a stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import CannotEvaluate, EvalwrightError, RunBusy, RunFailed
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    ErrorDetail,
    Event,
    Payload,
    RunCancelled,
    RunPaused,
    RunResumed,
    RunStarted,
)
from evalwright.contracts.events import RunFailed as RunFailedEvent
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock, new_run_id
from evalwright.engine.execution import Means
from evalwright.engine.history import History, read_history
from evalwright.engine.model_pool import ModelPool
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.run import recall_answers
from evalwright.engine.session import gather_means
from evalwright.host.errors import ApiError, unavailable
from evalwright.host.evaluation import PlannedEvaluation, Planner
from evalwright.host.limits import ConcurrencyLimit
from evalwright.host.principal import tenant_of
from evalwright.host.status import ENDED, Status, edges_of, is_evaluation, open_status
from evalwright.host.work import Evaluation, Work
from evalwright.host.workflows import WORKFLOWS, Progress, WorkflowRun, read_progress
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

STOP_RETRY_SECONDS = 5  # after which another process may serve

_logger = logging.getLogger(__name__)

Changes = Callable[[str], Sequence[RecordChange]]  # that go with a run, by its id


class _Running:
    """A run that is being executed here; it gives its places back when it ends."""

    def __init__(self, run_id: str, log: EventLog, work: Work, places: ExitStack) -> None:
        self.run_id = run_id
        self.log = log
        self.work = work
        self.places = places
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
        places: ConcurrencyLimit,
        tools: str | None = None,
    ) -> None:
        self._log = log
        self._planner = planner
        self._models = models
        self._redactor = redactor
        self._clock = clock
        self._places = places
        self._tools = tools  # the file that describes live tools; no tenant's log names it
        self._running: dict[str, _Running] = {}
        self._waking: set[str] = set()  # paused runs on their way back into the above
        self._is_stopping = False

    async def start(
        self,
        log: EventLog,
        tenant: str,
        planned: PlannedEvaluation,
        changes: Changes = lambda _: (),
    ) -> str:
        """Create a run, durably and together with changes, and execute it; gives its id."""
        history = History(new_run_id(self._clock), planned.plan, self._clock.now_us())
        return await self.begin(log, tenant, history, planned.agent, (), changes)

    async def begin(
        self,
        log: EventLog,
        tenant: str,
        history: History,
        agent: Agent,
        facts: Sequence[NewEvent] = (),
        changes: Changes = lambda _: (),
    ) -> str:
        """Create a run that may take over facts of another, and execute it."""

        async def prepare() -> Work:
            work = await self._evaluation(log, agent, history)
            await work.open(facts, changes(history.run_id))
            return work

        return await self._launch(log, tenant, history.run_id, prepare)

    async def start_workflow(
        self, log: EventLog, tenant: str, started: RunStarted, changes: Changes = lambda _: ()
    ) -> str:
        """Create a run of one of the workflows, as `start` does one of a suite."""
        run_id, workflow = new_run_id(self._clock), WORKFLOWS[started.workflow_id]
        progress = Progress(workflow, started.inputs or {}, self._clock.now_us())

        async def prepare() -> Work:
            recorder = Recorder(log, run_id, self._clock, self._redactor)
            recorder.open([started], (), changes(run_id))
            await recorder.flush()
            return WorkflowRun(recorder, self._clock, progress)

        return await self._launch(log, tenant, run_id, prepare)

    async def _launch(
        self, log: EventLog, tenant: str, run_id: str, prepare: Callable[[], Awaitable[Work]]
    ) -> str:
        self._refuse_while_stopping()
        with self._held_for(tenant) as held:
            work = await prepare()
            self._execute(_Running(run_id, log, work, held.pop_all()))
        return run_id

    def _held_for(self, tenant: str) -> ExitStack:
        """A place for one run of a tenant; raises `ApiError` where there is none."""
        with ExitStack() as held:
            held.enter_context(self._places.hold())
            held.enter_context(self._places.hold_for(tenant))
            return held.pop_all()

    def _execute(self, running: _Running) -> None:
        self._running[running.run_id] = running
        running.task = asyncio.create_task(self._attend(running), name=running.run_id)

    async def _attend(self, running: _Running) -> None:
        """Execute a run to its end, or to where it is stopped."""
        try:
            with running.places, running.log.claim(running.run_id):
                try:
                    await running.work.run()
                except asyncio.CancelledError:
                    if running.cancelled is None:  # the host goes down; the run goes on later
                        raise
                    await running.work.cancel(running.cancelled)
        except asyncio.CancelledError:
            pass
        except RunFailed:
            pass  # its log says so
        except (EvalwrightError, ApiError) as error:
            _logger.error("run %s stopped: %s", running.run_id, type(error).__name__)  # noqa: TRY400
        except Exception as error:  # noqa: BLE001 - a fault in one run is not the host's end
            _logger.error("run %s broke: %s", running.run_id, type(error).__name__)  # noqa: TRY400
            await self._fail(running, error)
        finally:
            self._running.pop(running.run_id, None)
            await running.work.close()

    async def finish(self, run_id: str) -> None:
        """Wait until a run is no longer executed here."""
        running = self._running.get(run_id)
        if running is not None and running.task is not None:
            await asyncio.wait((running.task,))

    async def _fail(self, running: _Running, error: Exception) -> None:
        detail = ErrorDetail("internal_error", f"the host failed: {type(error).__name__}")
        await self._record(running.log, running.run_id, RunFailedEvent(detail))

    async def _evaluation(self, log: EventLog, agent: Agent, history: History) -> Evaluation:
        means = await self._means(history.plan)
        return Evaluation(log, agent, history, self._clock, means)

    async def _means(self, plan: Plan) -> Means:
        tools, panel = self._tools if plan.is_live else None, plan.panel
        judges = self._models.panel(panel.judges, panel.samples) if panel else None
        try:
            return await gather_means(self._models, judges, tools, live=plan.is_live)
        except EvalwrightError as error:  # it names files and commands of the operator
            _logger.error("the live tools cannot be loaded: %s", error)  # noqa: TRY400
            message = "the live tools of the host cannot be loaded; ask its operator"
            raise CannotEvaluate(message) from None

    # Stopping, pausing and going on.

    async def cancel(self, log: EventLog, run_id: str, reason: str | None, by: str) -> Status:
        """Give a run up; raises `ApiError` 409 for one that has ended."""
        status = self.status(log, run_id)
        if status in ENDED:
            raise _conflict(f"the run is {status}", status)
        ending = RunCancelled(mask_reason(reason), by)
        running = self._running.get(run_id)
        if running is None:
            await self._end_idle(log, run_id, ending)
            return "cancelled"
        assert running.task is not None
        if running.cancelled is None:  # a second time would break off what records the first
            running.cancelled = ending
            running.task.cancel()
        done, _ = await asyncio.wait((running.task,), timeout=2)
        return "cancelled" if done else "cancelling"

    async def _end_idle(self, log: EventLog, run_id: str, ending: RunCancelled) -> None:
        try:
            with log.claim(run_id):
                await self._record(log, run_id, ending)
        except RunBusy:
            raise _conflict("the run is executed by another process", "running") from None

    async def pause(
        self, log: EventLog, run_id: str, reason: str | None, *, immediately: bool = False
    ) -> Event:
        """Begin nothing new; raises `ApiError` 409 where that cannot be.

        What is under way is finished first; immediately means to break it off, if that can be.
        """
        status = self.status(log, run_id)
        running = self._running.get(run_id)
        if status != "running" or running is None:
            raise _conflict(f"the run is {status}, and only a running one can be paused", status)
        paused = RunPaused(mask_reason(reason))
        if running.work.pause(paused, immediately=immediately):
            return await self._record(log, run_id, paused)
        return self._event(run_id, paused)

    async def resume(self, log: EventLog, partition: str, run_id: str, reason: str | None) -> Event:
        """Let a paused run go on; raises `ApiError` 409 for any other."""
        self._refuse_while_stopping()
        status = self.status(log, run_id)
        if status != "paused":
            raise _conflict(f"the run is {status}, not paused", status)
        running = self._running.get(run_id)
        resumed = RunResumed(mask_reason(reason))
        if running is None:
            return await self._wake(log, partition, run_id, resumed)
        running.work.resume()  # at once: whoever asks next finds it running
        return await self._record(log, run_id, resumed)

    async def _wake(self, log: EventLog, partition: str, run_id: str, resumed: RunResumed) -> Event:
        """Go on with a run that was paused when an earlier process ended."""
        self._waking.add(run_id)
        try:
            with self._held_for(tenant_of(partition)) as held:
                recorded = await self._record(log, run_id, resumed)
                await self._go_on(log, partition, run_id, held)
        finally:
            self._waking.discard(run_id)
        return recorded

    def status(self, log: EventLog, run_id: str) -> Status:
        """How a run stands; raises `RunNotFound`."""
        last = edges_of(log, run_id)[-1]
        if last.type in TERMINAL_TYPES:
            ended: Status = last.type.removeprefix("run.")  # type: ignore[assignment]
            return ended
        running = self._running.get(run_id)
        if running is not None and running.cancelled is not None:
            return "cancelling"
        if running is not None:
            return "paused" if running.work.is_paused else "running"  # a long log is not read
        return "running" if run_id in self._waking else open_status(log, run_id)

    async def _record(self, log: EventLog, run_id: str, payload: Payload) -> Event:
        event = self._event(run_id, payload)
        log.append(run_id, [NewEvent(event.type, None, event.at_us, event.body)])
        await asyncio.wrap_future(log.flush(run_id))
        return event

    def _event(self, run_id: str, payload: Payload) -> Event:
        body = self._redactor.redact(msgspec.json.encode(payload))
        return Event(run_id, -1, payload.TYPE, None, self._clock.now_us(), body)

    # The host's own beginning and end.

    async def recover(self, announce: Callable[[EventLog, str], None]) -> int:
        """Go on with the runs of this host that a crash or a stop interrupted; gives how many."""
        count = 0
        for run_id, partition in self._log.open_runs():
            log = self._log.for_tenant(partition)
            if not _can_go_on(log, run_id) or open_status(log, run_id) != "running":
                continue
            try:
                announce(log, run_id)
                count += await self._go_on(log, partition, run_id, ExitStack())
            except msgspec.DecodeError:  # one run that cannot be read must not keep the host down
                _logger.error("run %s is left as it is: its log cannot be read", run_id)  # noqa: TRY400
        return count

    async def _go_on(self, log: EventLog, partition: str, run_id: str, places: ExitStack) -> bool:
        tenant = tenant_of(partition)
        try:
            with log.claim(run_id):
                work = await self._recalled(log, tenant, run_id)
        except RunBusy:
            return False
        except EvalwrightError as error:
            await self._record(
                log, run_id, RunFailedEvent(ErrorDetail("cannot_resume", str(error), None, True))
            )
            return False
        self._execute(_Running(run_id, log, work, places.pop_all()))
        return True

    async def _recalled(self, log: EventLog, tenant: str, run_id: str) -> Work:
        """The rest of the work on a run, from its log."""
        progress = read_progress(log, run_id)
        if progress is not None:
            recorder = Recorder(log, run_id, self._clock, self._redactor)
            return WorkflowRun(recorder, self._clock, progress)
        history = read_history(log, run_id)
        recall_answers(log, history)
        agent = self._planner.agent_of(tenant, history.plan)
        return await self._evaluation(log, agent, history)

    async def stop(self, seconds: float) -> None:
        """Stop all runs where they are; they go on at the next start."""
        self._is_stopping = True
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for running in self._running.values():
            if running.task is not None and running.cancelled is None:
                running.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _refuse_while_stopping(self) -> None:
        if self._is_stopping:
            raise unavailable("the host is being stopped", STOP_RETRY_SECONDS)


def _can_go_on(log: EventLog, run_id: str) -> bool:
    """Whether a run is one that hosts execute, and not of the command line or of people."""
    if read_progress(log, run_id) is not None:
        return True
    edges = log.edges(run_id)
    try:
        started = edges[0].decode(RunStarted)
    except msgspec.DecodeError:
        return False
    return started.owner is not None and is_evaluation(edges)


def _conflict(message: str, status: str) -> ApiError:
    return ApiError(409, "conflict", message, {"runStatus": status})
