"""Planning a requested evaluation: everything is checked before the run exists."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import (
    AgentBroken,
    BadInput,
    DamagedEventLog,
    InvalidDocument,
    MissingKey,
    Problem,
    RunNotFound,
)
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import Baseline, Origin, RunOptions
from evalwright.contracts.suite import Mode, Suite
from evalwright.engine.baselines import read_baseline
from evalwright.engine.isolation import EXPLANATIONS, isolation_marks, memory_warnings
from evalwright.engine.plan import Plan, is_judged, limited, plan_run
from evalwright.host.access.keys import place_of, tenant_of
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.http.settings import HostSettings
from evalwright.host.library.catalogue import Catalogue, RegisteredAgent
from evalwright.store.protocol import EventLog

ALL_MODES: tuple[Mode, ...] = ("golden", "rubric", "adversarial", "regression", "live-shadow")


_logger = logging.getLogger(__name__)


class EvalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested evaluation, independent of the version of the API."""

    suite_ref: str
    agent_id: str
    origin: Origin
    options: RunOptions = RunOptions()
    agent_version: str | None = None
    agent_channel: str | None = None
    judges: tuple[str, ...] = ()  # some of the operator's; all, if none is named


class PlannedEvaluation(NamedTuple):
    """A plan and its agent, and what to warn of in the response."""

    plan: Plan
    agent: Agent
    warnings: Sequence[Problem] = ()


def modes_of(settings: HostSettings) -> list[Mode]:
    """The modes that this host can run, depending on the operator's judges and live tools."""
    lacking = set()
    if not settings.judges:
        lacking.add("rubric")
    if settings.tools is None:
        lacking.add("live-shadow")
    return [mode for mode in ALL_MODES if mode not in lacking]


class Planner:
    """Plans requested evaluations, for one host."""

    def __init__(self, settings: HostSettings, catalogue: Catalogue, redactor: Redactor) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._redactor = redactor
        self.modes = modes_of(settings)
        self.limits = settings.limits

    def plan(self, log: EventLog, partition: str, request: EvalRequest) -> PlannedEvaluation:
        """Check everything; raises `ApiError` 400 if the run is not possible."""
        tenant = tenant_of(partition)
        suite = self._catalogue.suite(place_of(partition), request.suite_ref)
        if suite is None:
            message = "no such suite; give suiteId@version"
            raise _refused([Problem("$.evalSuiteRef", message)])
        most = self._settings.max_tasks_per_suite
        if len(suite.tasks) > most:
            message = f"the suite has {len(suite.tasks)} tasks; this host allows {most}"
            raise _refused([Problem("$.evalSuiteRef", message)])
        unable = [mode for mode in request.options.modes if mode not in self.modes]
        if unable:
            supported = ", ".join(self.modes)
            message = f"this host does not support {', '.join(unable)}; it supports {supported}"
            raise _refused([Problem("$.configurable.evalModes", message)])
        registered = self._catalogue.agent(tenant, request.agent_id, request.agent_version)
        if registered is None:
            raise _refused([Problem("$.agentId", "no such agent; GET /v1/agents lists them")])
        baseline = self._baseline(log, suite, request)
        try:
            agent = self._load(tenant, registered)
        except BadInput as error:
            raise _refused([Problem("$.agentId", str(error))]) from None
        try:
            plan = plan_run(
                suite, request.suite_ref, agent, self._options(suite, registered, request), baseline
            )
        except InvalidDocument as error:
            raise _refused(error.problems) from None
        if plan.is_adversarial:
            import evalwright.engine.findings  # noqa: F401 - here, as the event loop would wait
        _check_inputs(suite, agent)
        facts = msgspec.structs.replace(
            plan.agent,
            ref=f"host:{registered.key}",
            version=registered.version,
            channel=request.agent_channel,
        )
        given = [tag for tag in plan.tags if tag not in EXPLANATIONS]  # a mark is the host's to set
        tags = [*given, *isolation_marks(plan, agent)]
        plan = msgspec.structs.replace(plan, agent=facts, origin=request.origin, tags=tags)
        warnings = [] if plan.is_live else memory_warnings(suite, agent)
        return PlannedEvaluation(plan, agent, warnings)

    def agent_of(self, tenant: str, plan: Plan) -> Agent:
        """The agent of a run that is resumed; raises `BadInput` if it no longer exists."""
        registered = self._catalogue.agent(tenant, plan.agent.agent_id, plan.agent.version)
        if registered is None:
            raise BadInput(f"agent {plan.agent.agent_id}@{plan.agent.version} is not installed")
        return self._load(tenant, registered)

    def _load(self, tenant: str, registered: RegisteredAgent) -> Agent:
        """Load an agent; why an agent of the operator cannot be loaded goes only to the host's log.

        The reasons name files, commands and variables.
        """
        try:
            return self._catalogue.load(tenant, registered)
        except (BadInput, AgentBroken) as error:
            if registered.ref is None and not isinstance(error, MissingKey):
                raise
            _logger.error("cannot load agent %s: %s", registered.key, error)  # noqa: TRY400
            message = f"agent {registered.key} cannot be loaded; ask the operator of the host"
            raise BadInput(message) from None

    def _baseline(self, log: EventLog, suite: Suite, request: EvalRequest) -> Baseline | None:
        if request.options.baseline is None:
            return None
        try:
            baseline = read_baseline(log, request.options.baseline, suite, self._redactor)
        except (RunNotFound, BadInput, DamagedEventLog):
            baseline = None
        if baseline is None or baseline.left_out is not None:
            # One message for every reason: it must not reveal which runs other tenants have.
            message = "not a completed run of this suite and version"
            raise _refused([Problem("$.configurable.baselineRunId", message)])
        return baseline

    def _options(
        self, suite: Suite, registered: RegisteredAgent, request: EvalRequest
    ) -> RunOptions:
        settings, options = self._settings, request.options
        offered = request.judges or settings.judges
        judges = offered if is_judged(suite, options.modes) else ()
        model = self._catalogue.model_of(registered)
        return msgspec.structs.replace(
            limited(options, settings.limits),
            model=model,
            agent_tools=registered.tools,
            agent_usage=registered.usage,
            judges=judges,
            judge_samples=settings.judge_samples if judges else None,
            # The host pays for agents on its own models; what others pay it cannot know in full.
            known_costs_only=options.max_cost_usd is None and model is None,
        )


def _check_inputs(suite: Suite, agent: Agent) -> None:
    """Check the inputs of all tasks against the agent's task schema."""
    contract: Any = getattr(agent, "task_contract", None)
    if contract is None:
        return
    problems = [
        Problem(f"$.tasks[{index}].input", f"does not match the agent's taskSchemaRef: {broken}")
        for index, task in enumerate(suite.tasks)
        if (broken := contract.broken_by(task.input))
    ]
    if problems:
        raise _refused(problems)


def _refused(problems: Sequence[Problem]) -> ApiError:
    """The error for an invalid request; of the rules that options broke, by their places in it."""
    return invalid(
        [Problem(_PLACES.get(problem.path, problem.path), problem.message) for problem in problems]
    )


_PLACES = {"$.modes": "$.configurable.evalModes"}
