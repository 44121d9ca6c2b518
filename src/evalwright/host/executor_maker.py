"""Makes what executes a run: of a new run, or of the rest of one that is in the log."""

import logging
from collections.abc import Mapping

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import CannotEvaluate, EvalwrightError
from evalwright.contracts.events import RunStarted
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.engine.continuation import recall_answers
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.session import ModelPool, gather_resources
from evalwright.engine.task_work import RunResources
from evalwright.host.access.limits import SLICES_PER_ROUND, FairSchedule
from evalwright.host.executors import EvaluationExecutor, Pace, RunExecutor
from evalwright.host.http.extension import Workflow
from evalwright.host.runs.handle import RunHandle, is_evaluation
from evalwright.host.runs.planning import Planner

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
        history = await run.in_reader(lambda: _recalled_history(run))
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


def _recalled_history(run: RunHandle) -> History:
    history = read_history(run.log, run.run_id)
    recall_answers(run.log, history)
    return history
