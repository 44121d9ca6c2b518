"""The plan of a run: which modes, which agent, which settings; refused before anything starts."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec

from evalwright import __version__
from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.events import (
    EvalStarted,
    Planned,
    RunStarted,
)
from evalwright.contracts.messages import OptionText, Text, phrase
from evalwright.contracts.run_plan import (
    CURRENT_RULE,
    DEFAULT_SETTINGS,
    AgentFacts,
    AgentId,
    Baseline,
    Group,
    JudgePanel,
    Origin,
    RunOptions,
    RunSettings,
    SuiteSource,
    TaskSelection,
)
from evalwright.contracts.suite import Mode, ModelClass, Suite, Task
from evalwright.engine.judge_prompt import PROMPT_VERSION
from evalwright.engine.provenance import Provenance
from evalwright.engine.task_names import TaskNames

if TYPE_CHECKING:
    from evalwright.attacks.derived import Attack
    from evalwright.engine.checks import PlannedChecks
    from evalwright.models.run_defaults import RunDefaults

MAX_TAGS = 100
MAX_TAG_LENGTH = 256
DEFAULT_MODES: tuple[Mode, ...] = ("golden", "rubric", "adversarial")
SCORING_MODES: frozenset[str] = frozenset(("golden", "rubric"))


AnySettings = TypeVar("AnySettings", bound=RunSettings)


def merged(chosen: RunSettings, before: RunSettings) -> RunSettings:
    """The settings that were chosen; where nothing was, those before."""
    names = RunSettings.__struct_fields__
    return RunSettings(*[getattr(chosen, name) or getattr(before, name) for name in names])


def limited(chosen: AnySettings, most: RunSettings) -> AnySettings:
    """The same settings, with every number in `most` as the upper limit, and as the default."""
    limits = {name: getattr(most, name) for name in most.__struct_fields__}
    within = {
        name: min(getattr(chosen, name) or limit, limit) for name, limit in limits.items() if limit
    }
    return msgspec.structs.replace(chosen, **within)


def refuse_combinations(options: RunOptions, *, is_resumed: bool = False) -> None:
    """Refuse options that mean nothing without another one, or beside it; raises `BadInput`."""
    if options.record and options.cassette is None and not is_resumed:
        raise BadInput(phrase("{@record} needs {@cassette:FILE}"))
    if options.judge_samples and not options.judges:
        raise BadInput(phrase("{@judge_samples} needs {@judges}"))
    if options.task_cost_usd and options.max_cost_usd is None and not is_resumed:
        raise BadInput(phrase("{@task_cost_usd} needs {@max_cost_usd}"))
    if options.flaky_as and options.repeat == 1 and not is_resumed:
        raise BadInput(phrase("{@flaky_as} needs {@repeat}"))
    if "none" in options.fail_on and len(set(options.fail_on)) > 1:
        message = "{@fail_on:none} cannot be combined with other {@fail_on}"
        raise BadInput(phrase(message))


class Plan(msgspec.Struct, frozen=True):
    """A run that may start."""

    suite: Suite
    modes: list[Mode]
    agent: AgentFacts
    settings: RunSettings
    tags: list[str] = []
    panel: JudgePanel | None = None
    baseline: Baseline | None = None
    group: Group | None = None
    origin: Origin | None = None
    source: SuiteSource | None = None
    selection: TaskSelection | None = None  # where it is of a part of the suite
    rescored_from: str | None = None  # the run whose answers are scored again
    traces: str | None = None  # the recording whose answers are scored as they are
    checks: "PlannedChecks | None" = None  # ready to be run; not recorded
    scoring: int = CURRENT_RULE  # by which it is scored, also where it is resumed later
    lacking: list[str] = []  # of recorded answers: what there is none of, so that it cannot pass
    provenance: Provenance | None = None  # where a command was started; hosts know their callers

    @property
    def is_live(self) -> bool:
        """Whether live tools are called in place of fixtures."""
        return "live-shadow" in self.modes

    @property
    def is_recorded(self) -> bool:
        """Whether the answers were there before the run, which invokes nobody."""
        return self.rescored_from is not None or self.traces is not None

    @property
    def is_adversarial(self) -> bool:
        """Whether safety findings are looked for."""
        return "adversarial" in self.modes

    @property
    def attacks(self) -> "Mapping[str, Attack]":
        """The tasks that are attacks on others, where the suite was derived from another one."""
        from evalwright.attacks.derived import attacks_in  # adversarial runs alone have some

        return attacks_in(self.suite.suite_id, [task.task_id for task in self.suite.tasks])

    def opening(self, resumed_from: str | None = None) -> tuple[RunStarted, EvalStarted, Planned]:
        """The events that every run begins with; a resumed run rebuilds the plan from the last."""
        suite, baseline, origin = self.suite, self.baseline, self.origin
        metadata: dict[str, Any] = {"resumedFrom": resumed_from} if resumed_from else {}
        if self.group is not None:
            metadata["group"] = self.group.id
        if self.rescored_from is not None:
            metadata["rescoredFrom"] = self.rescored_from
        if self.traces is not None:
            metadata["scoredTraces"] = self.traces
        if self.provenance is not None:
            metadata["provenance"] = msgspec.to_builtins(self.provenance)
        started = RunStarted(
            workflow_id=suite.suite_id,
            inputs={
                "evalSuiteRef": f"{suite.suite_id}@{suite.version}",
                "agentId": self.agent.agent_id,
                "evalModes": self.modes,
            },
            transport=origin.transport if origin else None,
            engine_version=__version__,
            owner=origin.owner if origin else None,
            tags=self.tags or None,
            metadata=origin.metadata if origin else metadata or None,
        )
        opened = EvalStarted(
            suite.suite_id,
            suite.version,
            len(suite.tasks),
            self.modes,
            baseline.run_id if baseline and baseline.left_out is None else None,
        )
        planned = Planned(
            suite,
            self.agent,
            self.settings,
            self.panel,
            baseline,
            self.group,
            origin,
            self.source,
            self.selection,
            self.scoring,
            self.lacking or None,
        )
        return started, opened, planned


def plan_run(
    suite: Suite,
    name: str,
    agent: Agent,
    options: RunOptions,
    baseline: Baseline | None = None,
    group: Group | None = None,
    source: SuiteSource | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    is_recorded: bool = False,
) -> Plan:
    """Check suite, agent and options against each other; all problems at once.

    Of answers that are `recorded`, nobody is asked for any.
    """
    from evalwright.engine.checks import plan_checks  # which know of plans

    checks, problems = plan_checks(suite, source, functions, with_worlds=not is_recorded)
    asked = options.modes
    if not asked and suite.has_checks:
        asked = check_modes(suite, options)
    modes, unfit = _choose_modes(suite, asked, baseline)
    problems += unfit
    if not problems:
        problems += _unscorable_tasks(suite, modes)
        problems += _option_problems(modes, agent, options, baseline, checks, suite)
        if not is_recorded:
            problems += _user_problems(suite, options)
    problems += _agent_problems(agent)
    # The protocol bounds tags.
    fits = len(options.tags) <= MAX_TAGS and all(
        0 < len(tag) <= MAX_TAG_LENGTH and tag.isprintable() for tag in options.tags
    )
    if not fits:
        most = f"at most {MAX_TAGS} tags of 1 to {MAX_TAG_LENGTH} printable characters are allowed"
        problems.append(_of_option(phrase("{@tags}"), most))
    if not options.allow_mismatch:
        problems += _mismatches(suite, agent)
    if problems:
        raise InvalidDocument(name, problems)
    return Plan(
        suite=suite,
        modes=modes,
        agent=msgspec.convert(
            {
                "agentId": agent.agent_id,
                "ref": agent.ref,
                "modelClass": agent.model_class,
                "model": options.model,
                "tools": options.agent_tools,
                "usage": options.agent_usage,
            },
            AgentFacts,
        ),
        settings=merged(options, DEFAULT_SETTINGS),
        tags=list(options.tags),
        panel=(
            JudgePanel(list(options.judges), PROMPT_VERSION, options.judge_samples or 1)
            if options.judges
            else None
        ),
        baseline=baseline,
        group=group,
        source=source,
        checks=checks,
    )


def check_modes(suite: Suite, options: RunOptions) -> tuple[str, ...]:
    """The modes of a suite with checks, where none were asked for."""
    from evalwright.attacks.derived import is_derived

    usual = ["golden", "rubric"] if options.judges else ["golden"]
    if is_derived(suite.suite_id):
        usual.append("adversarial")
    return tuple(mode for mode in usual if mode in suite.modes)


def _of_option(option: OptionText, message: str, remedy: Text = "") -> Problem:
    return Problem("$", message, remedy, option)


def _choose_modes(
    suite: Suite, asked: Sequence[str], baseline: Baseline | None
) -> tuple[list[Mode], list[Problem]]:
    """A baseline makes the mode `regression`, which compares runs of the same suite and version."""
    wanted = dict.fromkeys(asked or (mode for mode in DEFAULT_MODES if mode in suite.modes))
    has_baseline = baseline is not None and baseline.left_out is None
    if has_baseline:
        wanted["regression"] = None
    problems = []
    for mode in (each for each in wanted if each not in suite.modes):
        declared = ", ".join(suite.modes)
        message = f"mode {mode!r} is not declared by the suite, which declares {declared}"
        remedy = phrase("choose a declared mode with {@modes}")
        if mode == "regression":
            remedy = phrase("add it to the suite's modes, or leave out {@baseline}")
        problems.append(Problem("$.modes", message, remedy))
    if "regression" in wanted and not has_baseline:
        message = "mode 'regression' needs a run of the same suite and version to compare with"
        problems.append(Problem("$.modes", message, phrase("name it with {@baseline}")))
    if not wanted:
        message = f"the suite declares only {', '.join(suite.modes)}, which run only on request"
        problems.append(Problem("$.modes", message, phrase("name a mode with {@modes}")))
    return [mode for mode in suite.modes if mode in wanted], problems


def looks_for_findings(suite: Suite, asked: Sequence[str]) -> bool:
    """Whether a run is adversarial; a suite with checks allows that, and does it on request.

    One that was derived from another is about nothing else.
    """
    if asked:
        return "adversarial" in asked
    if not suite.has_checks:
        return "adversarial" in suite.modes
    return "adversarial" in (check_modes(suite, RunOptions()) or suite.modes)


def is_judged(suite: Suite, asked: Sequence[str]) -> bool:
    """Whether judges have anything to say in a run of a suite in these modes, or its usual ones."""
    from evalwright.engine.checks import plan_checks  # which know of plans

    if looks_for_findings(suite, asked):
        return True
    return plan_checks(suite, None, with_code=False)[0].judged is not None


def _unscorable_tasks(suite: Suite, modes: Sequence[Mode]) -> list[Problem]:
    """Adversarial, regression and live-shadow score a task by its kind, whichever that is."""
    if not SCORING_MODES.issuperset(modes):
        return []
    return [
        Problem(
            f"$.tasks[{index}].expected.kind",
            f"task {task.task_id!r} is scored by mode {task.expected.kind!r}, not in this run",
            phrase(
                "the run has {modes}; add {@modes:{kind}}",
                modes=", ".join(modes),
                kind=task.expected.kind,
            ),
        )
        for index, task in enumerate(suite.tasks)
        if task.expected.kind not in (*modes, "checks")
    ]


def _option_problems(
    modes: Sequence[Mode],
    agent: Agent,
    options: RunOptions,
    baseline: Baseline | None,
    checks: "PlannedChecks",
    suite: Suite,
) -> list[Problem]:
    problems = _judge_problems(modes, options, checks.judged)
    if checks.embedded and not options.embedding_model:
        message = f"task {checks.embedded!r} has a check by meaning, which needs embeddings"
        remedy = phrase("name a model with {@embedding_model}, or leave out `by: embedding`")
        problems.append(_of_option(phrase("{@embedding_model}"), message, remedy))
    if options.read_only and "live-shadow" not in modes:
        message = "only live tools can write, and this run has none"
        problems.append(
            _of_option(phrase("{@read_only}"), message, phrase("use it with {@modes:live-shadow}"))
        )
    if agent.is_outside and not options.gateway:  # then nobody sees its tool calls
        message = "this agent calls its tools in its own process, so this would change nothing"
        remedy = phrase("offer it the tools with {@gateway}")
        given = {"{@read_only}": options.read_only, "{@tools}": options.tools}
        problems += [
            _of_option(phrase(name), message, remedy) for name, value in given.items() if value
        ]
    if agent.is_outside and not options.gateway and "live-shadow" not in modes:
        needing = next((task for task in suite.tasks if task.world or task.faults), None)
        if needing is not None:
            what = "a world" if needing.world else "faults"
            message = f"task {needing.task_id!r} has {what}, which this agent would not meet"
            remedy = phrase("offer it the tools with {@gateway}")
            problems.append(_of_option(phrase("{@gateway}"), message, remedy))
    talk = next((task for task in suite.tasks if task.is_conversation), None)
    if talk is not None and not agent.converses:
        message = f"task {talk.task_id!r} is a conversation, and this agent takes single turns"
        problems.append(_of_option(phrase("{@agent}"), message, "name another agent"))
    if "findings" in options.fail_on and "adversarial" not in modes:
        message = "only an adversarial run looks for findings, so this could never fail"
        problems.append(
            _of_option(
                phrase("{@fail_on:findings}"), message, phrase("use it with {@modes:adversarial}")
            )
        )
    compares = [gate for gate in options.fail_on if gate.endswith("regression")]
    if compares and baseline is None:
        message = "without a baseline this could never fail"
        problems.append(
            _of_option(
                phrase("{@fail_on:{gate}}", gate=compares[0]),
                message,
                phrase("name one with {@baseline}"),
            )
        )
    return problems


def _judge_problems(
    modes: Sequence[Mode], options: RunOptions, judged: Task | None
) -> list[Problem]:
    """`judged` is the first task, if there is one, with a check that asks a judge."""
    problems = []
    if judged is not None and not options.judges:
        by = "scored by a rubric" if judged.expected.rubric else "judged by a check"
        name = TaskNames.of_tasks([judged]).name_of(judged.task_id)
        message = f"task {name!r} is {by}, which needs a judge"
        remedy = phrase("name a model with {@judges:provider:model}")
        problems.append(_of_option(phrase("{@judges}"), message, remedy))
    if judged is None and options.judges and "adversarial" not in modes:
        message = "nothing in this run is judged: no task has a rubric, and it is not adversarial"
        problems.append(_of_option(phrase("{@judges}"), message, "leave it out"))
    if options.model in options.judges and not options.allow_self_judge:
        message = f"{options.model} would judge its own answers"
        remedy = phrase("name another judge, or allow it with {@allow_self_judge}")
        problems.append(_of_option(phrase("{@judges}"), message, remedy))
    return problems


def _user_problems(suite: Suite, options: RunOptions) -> list[Problem]:
    unplayed = (task for task in suite.tasks if task.user is not None and not task.user.model)
    if options.user_model is not None or (task := next(unplayed, None)) is None:
        return []
    message = f"task {task.task_id!r} has a goal of a user, and no model to play it"
    remedy = phrase("name one with {@user_model:provider:model}, or as `model` of its `user`")
    return [_of_option(phrase("{@user_model}"), message, remedy)]


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
        problems.append(_of_option(phrase("{@agent}"), message, phrase("name it with {@agent_id}")))
    classes = get_args(ModelClass)
    if agent.model_class is not None and agent.model_class not in classes:
        message = f"model class {agent.model_class!r} is not one of {', '.join(classes)}"
        problems.append(_of_option(phrase("{@model_class}"), message))
    return problems


def _mismatches(suite: Suite, agent: Agent) -> list[Problem]:
    problems = []
    target = suite.target_agent_id
    if target is not None and target != agent.agent_id:
        message = f"the suite is written for agent {target!r}, not {agent.agent_id!r}"
        remedy = phrase("set its id with {@agent_id}, or run anyway with {@allow_mismatch}")
        problems.append(Problem("$.targetAgentId", message, remedy))
    allowed = suite.allowed_models
    if allowed is not None and agent.model_class not in allowed:
        given = f"is {agent.model_class!r}" if agent.model_class else "is not known"
        message = f"the suite is valid for {', '.join(allowed)}; the agent's model class {given}"
        remedy = phrase("set it with {@model_class}, or run anyway with {@allow_mismatch}")
        problems.append(Problem("$.allowedModels", message, remedy))
    return problems


def with_defaults(
    defaults: "RunDefaults", agent: str | None, options: RunOptions, suite: Suite
) -> tuple[str | None, RunOptions]:
    """The agent, and the options with what the settings file says that fits a suite.

    What the command line or the suite says counts first. What the settings claim of their agent
    holds for that one only.
    """
    from evalwright.agents.load import is_outside, is_python  # whoever loads agents has it

    if agent in (None, defaults.agent):
        options = msgspec.structs.replace(
            options,
            agent_tools=options.agent_tools or defaults.agent_tools,
            agent_usage=options.agent_usage or defaults.agent_usage,
        )
    named = agent or defaults.agent
    if defaults.isolate and named is not None and is_python(named):
        options = msgspec.structs.replace(options, isolate=True)
    options = msgspec.structs.replace(
        options,
        observe=options.observe or defaults.observe,
        max_tokens_total=options.max_tokens_total or defaults.max_tokens_total,
    )
    if defaults.otlp and named is not None and is_outside(named):
        options = msgspec.structs.replace(options, otlp=True)
    if any(task.user for task in suite.tasks):
        user_model = options.user_model or defaults.user_model
        options = msgspec.structs.replace(options, user_model=user_model)
    if defaults.judges and not options.judges and is_judged(suite, options.modes):
        options = msgspec.structs.replace(options, judges=defaults.judges)
    if defaults.fail_on and not options.fail_on:
        usable = [
            gate
            for gate in defaults.fail_on
            if (gate != "findings" or looks_for_findings(suite, options.modes))
            and (not gate.endswith("regression") or options.baseline is not None)
        ]
        options = msgspec.structs.replace(options, fail_on=tuple(usable))
    return named, options


def without_spare_judges(options: RunOptions, suite: Suite) -> RunOptions:
    """The options for one of several suites, or a part of one, where others may need judges."""
    if not options.judges or is_judged(suite, options.modes):
        return options
    return msgspec.structs.replace(options, judges=(), judge_samples=None)
