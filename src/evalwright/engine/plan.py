"""The plan of a run: which modes, which agent, which settings; refused before anything starts."""

from collections.abc import Sequence
from typing import get_args

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.events import AgentFacts, AgentId, EvalStarted, Planned, RunSettings
from evalwright.contracts.suite import Mode, ModelClass, Suite

AVAILABLE_MODES: tuple[Mode, ...] = ("golden",)
MAX_TAGS = 100
MAX_TAG_LENGTH = 256
DEFAULT_SETTINGS = RunSettings(concurrency=10, task_timeout_s=300.0)
DEFAULT_MODES: tuple[Mode, ...] = ("golden", "rubric", "adversarial")


class RunOptions(msgspec.Struct, frozen=True):
    """Everything a user can choose about a run."""

    modes: tuple[str, ...] = ()
    concurrency: int | None = None
    task_timeout_s: float | None = None
    run_timeout_s: float | None = None
    tags: tuple[str, ...] = ()
    allow_mismatch: bool = False

    def settings(self, before: RunSettings = DEFAULT_SETTINGS) -> RunSettings:
        """The settings that stood before, with those that were chosen in their place."""
        return RunSettings(
            concurrency=self.concurrency or before.concurrency,
            task_timeout_s=self.task_timeout_s or before.task_timeout_s,
            run_timeout_s=self.run_timeout_s or before.run_timeout_s,
        )


class Plan(msgspec.Struct, frozen=True):
    """A run that may start."""

    suite: Suite
    modes: list[Mode]
    agent: AgentFacts
    settings: RunSettings
    tags: list[str] = []

    def eval_started(self) -> EvalStarted:
        """The event that opens the evaluation."""
        suite = self.suite
        return EvalStarted(suite.suite_id, suite.version, len(suite.tasks), self.modes)

    def planned(self) -> Planned:
        """The event from which a resumed or replayed run rebuilds this plan."""
        return Planned(self.suite, self.agent, self.settings)


def plan_run(suite: Suite, name: str, agent: Agent, options: RunOptions) -> Plan:
    """Check suite, agent and options against each other; all problems at once."""
    modes, problems = _choose_modes(suite, options.modes)
    if not problems:
        problems += _unscorable_tasks(suite, modes)
    problems += _agent_problems(agent) + _tag_problems(options.tags)
    if not options.allow_mismatch:
        problems += _mismatches(suite, agent)
    if problems:
        raise InvalidDocument(name, problems)
    return Plan(
        suite=suite,
        modes=modes,
        agent=msgspec.convert(
            {"agentId": agent.agent_id, "ref": agent.ref, "modelClass": agent.model_class},
            AgentFacts,
        ),
        settings=options.settings(),
        tags=list(options.tags),
    )


def _choose_modes(suite: Suite, asked: Sequence[str]) -> tuple[list[Mode], list[Problem]]:
    wanted = dict.fromkeys(asked or (mode for mode in DEFAULT_MODES if mode in suite.modes))
    problems = [problem for mode in wanted for problem in _mode_problem(suite, mode)]
    if not wanted:
        message = f"the suite declares only {', '.join(suite.modes)}, which must be asked for"
        problems.append(Problem("$.modes", message, "name a mode with --mode"))
    return [mode for mode in suite.modes if mode in wanted], problems


def _mode_problem(suite: Suite, mode: str) -> list[Problem]:
    if mode not in suite.modes:
        declared = ", ".join(suite.modes)
        message = f"mode {mode!r} is not declared by the suite, which declares {declared}"
        return [Problem("$.modes", message, "choose a declared mode with --mode")]
    if mode == "regression":
        message = "mode 'regression' needs a baseline run, which this version cannot take"
        return [Problem("$.modes", message, "leave it out with --mode golden")]
    if mode not in AVAILABLE_MODES:
        message = f"mode {mode!r} is not available in this version"
        remedy = f"available: {', '.join(AVAILABLE_MODES)}; choose with --mode"
        return [Problem("$.modes", message, remedy)]
    return []


def _unscorable_tasks(suite: Suite, modes: Sequence[Mode]) -> list[Problem]:
    return [
        Problem(
            f"$.tasks[{index}].expected.kind",
            f"task {task.task_id!r} is scored by mode {task.expected.kind!r}, not in this run",
            f"the run has {', '.join(modes)}; add --mode {task.expected.kind}",
        )
        for index, task in enumerate(suite.tasks)
        if task.expected.kind not in modes
    ]


def _agent_problems(agent: Agent) -> list[Problem]:
    problems = []
    try:
        msgspec.convert(agent.agent_id, AgentId)
        msgspec.json.encode([agent.agent_id, agent.ref])
        is_fit = agent.agent_id.isprintable()
    except (msgspec.ValidationError, UnicodeEncodeError):
        is_fit = False
    if not is_fit:
        message = f"the agent id {agent.agent_id!r} must be 3 to 256 printable characters"
        problems.append(Problem("--agent", message, "name it with --agent-id"))
    classes = get_args(ModelClass)
    if agent.model_class is not None and agent.model_class not in classes:
        message = f"model class {agent.model_class!r} is none of {', '.join(classes)}"
        problems.append(Problem("--model-class", message))
    return problems


def _tag_problems(tags: Sequence[str]) -> list[Problem]:
    """Tags are bounded by the protocol: 100 of them, 256 characters each."""
    fits = len(tags) <= MAX_TAGS and all(0 < len(tag) <= MAX_TAG_LENGTH for tag in tags)
    if fits and all(tag.isprintable() for tag in tags):
        return []
    message = f"at most {MAX_TAGS} tags of 1 to {MAX_TAG_LENGTH} printable characters are allowed"
    return [Problem("--tag", message)]


def _mismatches(suite: Suite, agent: Agent) -> list[Problem]:
    problems = []
    target = suite.target_agent_id
    if target is not None and target != agent.agent_id:
        message = f"the suite is written for agent {target!r}, not {agent.agent_id!r}"
        remedy = "say who it is with --agent-id, or run all the same with --allow-mismatch"
        problems.append(Problem("$.targetAgentId", message, remedy))
    allowed = suite.allowed_models
    if allowed is not None and agent.model_class not in allowed:
        given = f"is {agent.model_class!r}" if agent.model_class else "is not known"
        message = f"the suite is valid for {', '.join(allowed)}; the agent's model class {given}"
        remedy = "say it with --model-class, or run all the same with --allow-mismatch"
        problems.append(Problem("$.allowedModels", message, remedy))
    return problems
