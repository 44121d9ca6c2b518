"""What executes a run: of an evaluation or a workflow, new or the rest of one in the log."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Protocol

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import CannotEvaluate, EvalwrightError, Problem
from evalwright.contracts.events import Event, RunCancelled, RunPaused, RunStarted
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import RunSettings
from evalwright.engine.clock import Clock
from evalwright.engine.continuation import recall_answers
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.runner import Runner
from evalwright.engine.session import ModelPool, gather_resources
from evalwright.engine.task_work import RunResources
from evalwright.host.access.limits import SLICES_PER_ROUND, FairSchedule
from evalwright.host.runs.handle import RunHandle, is_evaluation
from evalwright.host.runs.planning import Planner
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

SLICE_SECONDS = 0.0005  # that a run has the event loop for itself, if its tasks take no time


class RunExecutor(Protocol):
    """Executes one run; everything it does is recorded in the run's log."""

    @property
    def is_paused(self) -> bool:
        """Whether the run is paused."""

    async def run(self) -> None:
        """Execute the run to its end; raises `RunFailed` if the log ends with that."""

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:
        """Pause; False if that takes effect later, and the executor will record it then."""

    def resume(self) -> None:
        """Continue after a pause."""

    def drain(self) -> bool:
        """Start nothing more; `run` raises `Interrupted` when what is in progress has ended.

        False if there is nothing worth waiting for: then `run` is to be cancelled.
        """

    async def cancel(self, ending: RunCancelled) -> None:
        """Record the end of a cancelled run; called after `run` was cancelled."""

    async def close(self) -> None:
        """Release connections and the like."""


class Workflow(Protocol):
    """Something other than a suite that runs are started for."""

    def problem(self, inputs: dict[str, Any]) -> Problem | None:
        """Why a run cannot be started with these inputs, if it cannot."""

    def used(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Those of the inputs that it uses; only they are recorded."""

    def executor(
        self, recorder: Recorder, clock: Clock, events: Iterable[Event], limits: RunSettings
    ) -> RunExecutor:
        """The executor of a run with these recorded events, of which the first is `run.started`."""


class RunningRun:
    """A run that is being executed here; it counts as running until it ends."""

    def __init__(self, run: RunHandle, executor: RunExecutor, counted: ExitStack) -> None:
        self.run = run
        self.executor = executor
        self.counted = counted
        self.task: asyncio.Task[None] | None = None
        self.cancelled: RunCancelled | None = None  # how it is to end


class Pace:
    """When a run may begin its next task: not while it is paused, and when it is its turn.

    Within a slice of time it takes no other turn: tasks that take no time would wait in vain.
    """

    def __init__(self, schedule: FairSchedule, tenant: str) -> None:
        self._schedule = schedule
        self._share = schedule.new_share(tenant)
        self._slice_ends = 0.0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def wait(self) -> None:
        """Wait until a task may begin."""
        if not self.may_go_on.is_set():
            await self.may_go_on.wait()
        if time.perf_counter() >= self._slice_ends:
            await self._schedule.wait(self._share)
            self._slice_ends = time.perf_counter() + SLICE_SECONDS


class EvaluationExecutor:
    """Executes an evaluation: a pause lets running tasks end and starts no others."""

    def __init__(
        self,
        log: EventLog,
        agent: Agent,
        history: History,
        clock: Clock,
        resources: RunResources,
        pace: Pace,
    ) -> None:
        self._agent = agent
        self._toolbox = resources.surroundings.toolbox
        self._may_go_on = pace.may_go_on
        resources = msgspec.structs.replace(resources, may_go_on=pace)
        self._execution = Runner(log, agent, history, clock, resources)
        self._is_new = False

    async def open(self, facts: Sequence[NewEvent], changes: Sequence[RecordChange]) -> None:
        """Write the first events of the run, and wait until they are durable."""
        self._is_new = True
        await self._execution.create(facts, changes)

    @property
    def is_paused(self) -> bool:
        return not self._may_go_on.is_set()

    async def run(self) -> None:
        if not self._is_new:
            self._execution.close_interrupted()
        await self._execution.run()

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:  # noqa: ARG002
        self._may_go_on.clear()
        return True

    def resume(self) -> None:
        self._may_go_on.set()

    def drain(self) -> bool:
        self._execution.drain()
        self._may_go_on.set()  # workers that wait for the end of a pause are to end too
        return True

    async def cancel(self, ending: RunCancelled) -> None:
        await self._execution.cancel(ending.reason, ending.cancelled_by)

    async def close(self) -> None:
        """Release the agent and its tools, the tools too if the agent fails to close."""
        async with AsyncExitStack() as rest:
            rest.push_async_callback(self._toolbox.close)
            rest.push_async_callback(self._agent.close)


_logger = logging.getLogger(__name__)


class ExecutorMaker:
    """Makes executors from the agents, models, tools and workflows of a host."""

    def __init__(
        self,
        planner: Planner,
        models: ModelPool,
        redactor: Redactor,
        clock: Clock,
        tools: str | None,
        workflows: Mapping[str, Workflow],
    ) -> None:
        self._planner = planner
        self._models = models
        self._redactor = redactor
        self._clock = clock
        self._tools = tools  # the file that describes live tools; no tenant's log names it
        self._workflows = workflows
        self._schedule = FairSchedule(SLICES_PER_ROUND)  # of runs

    def knows(self, run: RunHandle) -> bool:
        """Whether a host executes such runs: not those of the command line or of deployments."""
        edges = run.edges()
        try:
            started = edges[0].decode(RunStarted)
        except msgspec.DecodeError:
            return False
        is_known = started.workflow_id in self._workflows or is_evaluation(edges)
        return started.owner is not None and is_known

    async def recalled(self, run: RunHandle) -> RunExecutor:
        """The executor of the rest of a run, from its log."""
        executor = await self.workflow(run, (await run.read_edges())[0].decode(RunStarted))
        if executor is not None:
            return executor

        def recalled() -> History:
            history = read_history(run.log, run.run_id)
            recall_answers(run.log, history)
            return history

        history = await run.in_reader(recalled)
        agent = await run.in_reader(lambda: self._planner.agent_of(run.tenant, history.plan))
        return await self.evaluation(run, agent, history)

    async def evaluation(
        self, run: RunHandle, agent: Agent, history: History
    ) -> EvaluationExecutor:
        """The executor of an evaluation, as far as its history goes."""
        # A log may have been moved here: the code that it names is not run.
        history.plan = msgspec.structs.replace(history.plan, source=None)
        resources = await self.resources(history.plan)
        pace = Pace(self._schedule, run.tenant)
        return EvaluationExecutor(run.log, agent, history, self._clock, resources, pace)

    async def resources(self, plan: Plan) -> RunResources:
        """What an evaluation has besides its agent: live tools, and judges."""
        tools, panel = self._tools if plan.is_live else None, plan.panel
        judges = self._models.panel(panel.judges, panel.samples) if panel else None
        try:
            return await gather_resources(self._models, judges, tools, live=plan.is_live)
        except EvalwrightError as error:  # it names files and commands of the operator
            _logger.error("the live tools cannot be loaded: %s", error)  # noqa: TRY400
            message = "the live tools of the host cannot be loaded; ask its operator"
            raise CannotEvaluate(message) from None

    async def workflow(self, run: RunHandle, started: RunStarted) -> RunExecutor | None:
        """The executor of a run of a workflow; None for a run of anything else."""
        workflow = self._workflows.get(started.workflow_id)
        if workflow is None or started.owner is None:
            return None
        recorder = Recorder(run.log, run.run_id, self._clock, self._redactor)
        events = await run.in_reader(lambda: list(run.log.read(run.run_id)))
        return workflow.executor(recorder, self._clock, events, self._planner.limits)
