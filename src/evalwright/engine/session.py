"""A session: an agent with its model, tools and judges, and the runs it executes into a log.

The command line, the host and the Python interface start runs through this module, so that none
of them assembles models, tools and judges itself:

    subject = read_subject("suite.yaml", "agent.py:answer")  # or a pack and its agent's id
    session = Session(subject.agent, RunOptions(concurrency=4, repeat=3))  # or an `Agent`
    plans = session.plan(subject.suite, "suite.yaml", log)  # raises BadInput; nothing has started
    outcomes = await session.run(log, plans)         # closes the session

`evalwright.engine.resume.resume(log, "latest")` gives a session with the runs that are left to do.
Nothing here prints; an `Observer` is notified of every run that begins and ends. A session
belongs to one event loop: it may be made anywhere, and `run` is awaited once.

A host keeps one `ModelPool` for all its runs and asks `gather_means` for the rest of each.
"""

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from evalwright.agents.load import TOKEN_VARIABLE, load_agent
from evalwright.agents.protocol import Agent, Surroundings
from evalwright.agents.span_capture import left_out, require_sdk
from evalwright.agents.toolbox import NO_TOOLS
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.messages import IN_LOGS, Text, phrase
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.run_plan import Group, RunOptions, SuiteSource, TaskSelection
from evalwright.contracts.suite import Suite
from evalwright.engine.clock import SystemClock, new_group_id
from evalwright.engine.continuation import resume_run
from evalwright.engine.history import History
from evalwright.engine.invocation import WatchOverTasks
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.judges import Panel
from evalwright.engine.plan import Plan, plan_run
from evalwright.engine.runner import start_run
from evalwright.engine.task_work import RunResources
from evalwright.engine.verdict import Outcome, reasons_against_repeats
from evalwright.models.config import Config, known_secrets, load_config
from evalwright.models.protocol import Model, RateLimiter, SharedModel
from evalwright.scoring.pass_bars import EVERY_TASK, let_through
from evalwright.scoring.repeats import summarise_repeats
from evalwright.store.protocol import EventLog

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway
    from evalwright.agents.span_receiver import SpanReceiver
    from evalwright.engine.rescore import Rescore
    from evalwright.engine.simulated_user import SimulatedUsers
    from evalwright.models.cassette import Cassette
    from evalwright.models.load import Providers
    from evalwright.models.providers import ModelName


def unheard(_notice: Text) -> None:
    """Ignore a notice."""


class ModelPool:
    """The models of a session, of a host, or of an evaluation of prompts.

    Models of one provider share its connections and limits. With a cassette they are answered
    from it. `redactor` removes every secret that the configuration and the environment name.
    `config` may be a file; without one it is what counts in the working folder. `notify` hears
    what does not count of it, and once of each provider that is not called at its own address.
    """

    def __init__(
        self,
        config: Config | str | Path | None = None,
        cassette: str | Path | None = None,
        *,
        record: bool = False,
        environment: Mapping[str, str] = os.environ,
        timeout_s: float | None = None,
        notify: Callable[[Text], None] = unheard,
        rate_limits: RateLimiter | None = None,
    ) -> None:
        if not isinstance(config, Config):
            config = load_config(named=config)
            for notice in config.notices:
                notify(notice)
        if timeout_s is not None:
            config = msgspec.structs.replace(config, model_timeout_s=timeout_s)
        self.config = config
        self.secrets = known_secrets(self.config, environment, [TOKEN_VARIABLE])
        self.redactor = Redactor(self.secrets) if self.secrets else NOTHING_SECRET
        self.is_used = cassette is not None  # whether there is anything to close
        self.cassette: Cassette | None = None
        if cassette is not None:
            from evalwright.models import cassette as cassettes

            self.cassette = cassettes.Cassette(cassette, record, self.redactor.redact_text)
        self._environment = environment
        self.notify = notify
        self._rate_limits = rate_limits
        if any(each.tokens_per_minute for each in config.models.values()) and rate_limits is None:
            from evalwright.models.rate_limits import own_rate_limits  # hardly anybody has one

            self._rate_limits = own_rate_limits(config)
        self._loaded: dict[str, Model] = {}

    @functools.cached_property
    def _providers(self) -> "Providers":
        from evalwright.models.load import Providers  # a run without models needs none

        return Providers(self.config, self._environment, self.notify)

    def name(self, name: str) -> "ModelName":
        """A model's name in full, `provider:model`; raises `BadInput`."""
        from evalwright.models.endpoints import known_providers
        from evalwright.models.providers import parse_name

        return parse_name(name, known_providers(self.config))

    def standing(self, name: str) -> "ModelName | None":
        """The model of a name, and where its provider is no more the same one elsewhere.

        None: it is offered nowhere that is configured. Raises `BadInput` for an unknown provider.
        """
        from evalwright.models.endpoints import is_retired, known_providers
        from evalwright.models.providers import same_model_elsewhere

        known, parsed = known_providers(self.config), self.name(name)
        if not is_retired(known[parsed.provider], self.config, self._environment):
            return parsed
        return next(filter(self.is_set_up, (parsed, *same_model_elsewhere(parsed))), None)

    def is_set_up(self, name: "ModelName") -> bool:
        """Whether a model can be asked with what is configured, or was recorded."""
        from evalwright.models import endpoints

        if self.cassette is not None and not self.cassette.record:
            return str(name) in self.cassette.models
        provider = endpoints.known_providers(self.config)[name.provider]
        return endpoints.is_set_up(provider, self.config, self._environment)

    def load(self, name: str) -> Model:
        """A model by its name; raises `BadInput` for an unknown provider or a missing key."""
        if name not in self._loaded:
            self.is_used = True
            self._loaded[name] = self._providers.load(name, self.cassette)
        return SharedModel(self._loaded[name], self._held_to)

    def load_embedder(self, name: str) -> Model:
        """A model of embeddings by its name; raises `BadInput` like `load`."""
        self.is_used = True
        model = self._loaded[f"{name} embeddings"] = self._providers.load(
            name, self.cassette, embeds=True
        )
        return SharedModel(model, self._held_to)

    @property
    def _held_to(self) -> RateLimiter | None:
        """The limits that count: a cassette answers at once."""
        return None if self.cassette is not None and not self.cassette.record else self._rate_limits

    def panel(self, judges: Sequence[str], samples: int) -> Panel:
        """The judges of a run."""
        return Panel([self.load(judge) for judge in judges], samples)

    async def close(self) -> None:
        """Close all connections, and the cassette."""
        try:
            await asyncio.gather(*(model.close() for model in self._loaded.values()))
        finally:
            if self.cassette is not None:
                self.cassette.close()


class Observer(Protocol):
    """Who wants to know of the runs of a session; called in the session's event loop."""

    def run_begins(self, history: History) -> None:
        """A run is about to be worked on; `history` says what of it is done already."""

    def run_ended(self, outcome: Outcome) -> None:
        """A run has its result, which is durable. Not called for a run that fails."""


class Session:
    """An agent and everything that works with it, for one or more runs in a row.

    `agent` is a reference, or an agent; an agent that is given is closed
    with the session. Models are named in `options`. Raises `BadInput` where anything is missing.
    """

    def __init__(
        self,
        agent: str | Agent,
        options: RunOptions,
        *,
        agent_id: str | None = None,
        model_class: str | None = None,
        config: Config | str | Path | None = None,
        notify: Callable[[Text], None] = unheard,
        rate_limits: RateLimiter | None = None,
    ) -> None:
        self.models = ModelPool(
            config,
            options.cassette,
            record=options.record,
            timeout_s=options.model_timeout_s,
            notify=notify,
            rate_limits=rate_limits,
        )
        if options.model or options.judges:
            options = msgspec.structs.replace(
                options,
                model=options.model and str(self.models.name(options.model)),
                judges=tuple(str(self.models.name(judge)) for judge in options.judges),
            )
        if options.user_model is not None:
            user_model = str(self.models.name(options.user_model))
            options = msgspec.structs.replace(options, user_model=user_model)
        if (scoring_s := options.scoring_s or self.models.config.limits.scoring_s) is not None:
            options = msgspec.structs.replace(options, scoring_s=scoring_s)
        self.options = options
        self._notify = notify
        if options.observe == "otel":
            require_sdk()
        self._gateway: Gateway | None = None
        if options.gateway:
            from evalwright.agents import gateway

            self._gateway = gateway.Gateway()
        self._receiver: SpanReceiver | None = None
        if options.otlp:
            from evalwright.agents import span_receiver

            self._receiver = span_receiver.SpanReceiver(notify)
        if isinstance(agent, str):
            model = self.models.load(options.model) if options.model else None
            agent = load_agent(
                agent,
                agent_id,
                model_class,
                model,
                self._gateway,
                self._receiver,
                isolate=options.isolate,
            )
        elif options.model or self._gateway or self._receiver:
            raise BadInput(
                phrase(
                    "a model, a gateway and {@otlp} are for an agent that is named by its reference"
                )
            )
        else:
            if options.isolate:
                from evalwright.agents.isolation.agent import isolated

                agent = isolated(agent)
            if agent_id is not None:
                agent.agent_id = agent_id
        self.agent: Agent = agent
        self._panel = None
        if options.judges:
            self._panel = self.models.panel(options.judges, options.judge_samples or 1)
        self._embedder = None
        if options.embedding_model is not None:
            self._embedder = self.models.load_embedder(options.embedding_model)
        self._toolbox = NO_TOOLS
        self.watch: WatchOverTasks | None = None

    def plan(
        self,
        suite: Suite,
        name: str,
        log: EventLog | None = None,
        *,
        source: SuiteSource | None = None,
        selection: TaskSelection | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> list[Plan]:
        """The runs of a suite, one for each repeat; raises `InvalidDocument` with all problems.

        `name` is how messages call the suite. A baseline is read from `log`. A suite with checks
        has a `source`, and one that is only a part of itself a `selection`. `functions` are own
        checks that are at hand, by what the suite calls them.
        """
        uses_chance = any(task.world or task.faults for task in suite.tasks)
        if self.options.seed is not None and selection is None and not uses_chance:
            raise BadInput(phrase("{@seed} needs {@sample}, or tasks with a world or faults"))
        baseline = None
        if self.options.baseline is not None:
            if log is None:
                message = "{@baseline}: a baseline is read from a log, and none is given"
                raise BadInput(phrase(message))
            from evalwright.engine.baselines import find_baseline, read_baseline

            found = find_baseline(log, self.options.baseline, suite.suite_id, self.agent.agent_id)
            if found.agent_id not in (None, self.agent.agent_id):
                self._notify(f"{name}: the baseline is of another agent, {found.agent_id}")
            baseline = read_baseline(
                log,
                found.run_id,
                suite,
                self.models.redactor,
                is_part=selection is not None,
                allow_partial=self.options.allow_partial,
                with_repeats=self.options.repeat > 1 or found.group is not None,
            )
            baseline = msgspec.structs.replace(baseline, name=found.name, age_s=found.age_s)
        plan = plan_run(
            suite, name, self.agent, self.options, baseline, source=source, functions=functions
        )
        if selection is not None:
            tags = [*plan.tags, PARTIAL]
            plan = msgspec.structs.replace(plan, selection=selection, tags=tags)
        self._users(plan)  # so that a model that is missing is told of before anything begins
        if not self.agent.reads_memory:
            from evalwright.engine.isolation import memory_warnings

            for warning in [] if plan.is_live else memory_warnings(plan.suite, self.agent):
                self._notify(f"{name}: {warning}")
        if self.options.repeat == 1:
            return [plan]
        group_id, size = new_group_id(SystemClock()), self.options.repeat
        return [
            msgspec.structs.replace(plan, group=Group(group_id, index, size))
            for index in range(1, size + 1)
        ]

    async def run(
        self,
        log: EventLog,
        pending: "Sequence[Plan | History | Rescore]",
        observer: Observer | None = None,
    ) -> list[Outcome]:
        """Execute runs one after the other, and close the session.

        A plan is started, a history is resumed, recorded answers are scored again. The first run
        that fails ends the session with `RunFailed`; being cancelled leaves a run that can be
        resumed.
        """
        begins = observer.run_begins if observer else lambda _: None
        outcomes: list[Outcome] = []
        try:
            first = pending[0]
            resources = await self.begin(first if isinstance(first, Plan) else first.plan)
            for each in pending:
                if isinstance(each, Plan):
                    outcome = await start_run(log, self.agent, each, begins, resources=resources)
                elif isinstance(each, History):
                    outcome = await resume_run(log, self.agent, each, begins, resources=resources)
                else:
                    outcome = await each.run(log, begins, resources=resources)
                outcomes.append(outcome)
                if (notice := left_out()) is not None:
                    self._notify(notice)
                if observer is not None:
                    observer.run_ended(outcome)
        finally:
            await self.close()
        return outcomes

    async def begin(self, plan: Plan) -> RunResources:
        """Start what a run of this plan needs besides its agent; `close` ends it."""
        resources = await gather_resources(
            self.models,
            self._panel,
            self.options.tools,
            live=plan.is_live,
            read_only=self.options.read_only,
        )
        if self._embedder is not None:
            resources = msgspec.structs.replace(resources, embedder=self._embedder)
        resources = msgspec.structs.replace(resources, users=self._users(plan))
        self._toolbox = resources.surroundings.toolbox
        if self.watch is not None:
            resources = msgspec.structs.replace(resources, watch=self.watch)
        if self._gateway is not None:
            await self._gateway.start()
        if self._receiver is not None:
            await self._receiver.start()
        return resources

    def _users(self, plan: Plan) -> "SimulatedUsers | None":
        """Who plays the users of a run; None where there are none to be played."""
        if plan.is_recorded or not any(task.user for task in plan.suite.tasks):
            return None
        from evalwright.engine.simulated_user import SimulatedUsers  # with its words

        def load(name: str) -> Model:
            return self.models.load(str(self.models.name(name)))

        return SimulatedUsers(plan.suite, self.options.user_model, load)

    async def close(self) -> None:
        """Stop everything that was started, the rest too where a part of it fails to stop."""
        async with AsyncExitStack() as rest:
            if self.models.is_used:
                rest.push_async_callback(self.models.close)
            rest.push_async_callback(self._toolbox.close)
            rest.push_async_callback(self.agent.close)


async def gather_resources(
    models: ModelPool,
    panel: Panel | None,
    tools: str | None,
    *,
    live: bool,
    read_only: bool = False,
) -> RunResources:
    """What a run has besides its agent: tools, judges, and secrets to keep out of the log.

    Whoever gathers them closes the toolbox.
    """
    toolbox, redactor = NO_TOOLS, models.redactor
    if tools is not None:
        from evalwright.agents.tool_files import load_tools

        toolbox = await load_tools(Path(tools), live=live)
        redactor = Redactor({**toolbox.secrets, **models.secrets})
        if models.cassette is not None:
            models.cassette.redact = redactor.redact_text
    return RunResources(
        Surroundings(toolbox, live, read_only, redactor, price_by(models.config)), panel
    )


# Who imports one of these asks models, and is likely to tell of it; the Agents SDK imports
# the first. Its own name, `agents`, is what many call a file of theirs.
_MODEL_LIBRARIES = ("openai", "anthropic", "pydantic_ai", "langchain_core", "litellm")


def price_by(config: Config) -> Callable[[ProviderUsage], float | None]:
    """What a model call costs that an agent tells of: by own prices, then by listed ones."""

    def price(usage: ProviderUsage) -> float | None:
        from evalwright.models.prices import known_cost  # most agents tell of no usage

        return known_cost(config, usage)

    if any(name in sys.modules for name in _MODEL_LIBRARIES):  # now, and not while agents are timed
        price(ProviderUsage("openai", "gpt-4.1", 1, 1))
    return price


def reasons_against(outcomes: Sequence[Outcome]) -> list[str]:
    """Why a run, or the repeats of one, must not ship by their gates; empty when it may."""
    first = outcomes[0]
    if first.plan.group is None:
        return first.reasons
    return _against_group(outcomes, [outcome.reasons for outcome in outcomes])


class RunVerdict(msgspec.Struct, frozen=True):
    """What is said of a run, or of its repeats, wherever it is shown."""

    reasons: list[str]  # every bar that was missed, gated or not, and what else speaks against it
    words: str  # how many tasks passed, and by which bar, where it passed and not all of them did

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    @property
    def in_words(self) -> str:
        """The same within a line."""
        return " ".join(filter(None, ("passed", self.words))) if self.passed else "failed"

    def __str__(self) -> str:
        if self.reasons:
            return "FAILED"
        return f"PASSED  {self.words}" if self.words else "PASSED"


def verdict_of(outcome: Outcome) -> RunVerdict:
    """The verdict on one run, also where it is one of several repeats."""
    reasons = list(dict.fromkeys([*outcome.broken_bars, *outcome.reasons]))
    plan, summary = outcome.plan, outcome.summary
    counts = summary.passed_count, summary.task_count, summary.aggregate_score
    words = "" if reasons else let_through(*counts, plan.suite.thresholds, plan.scoring)
    return RunVerdict(reasons, words)


def verdict_on(outcomes: Sequence[Outcome]) -> RunVerdict:
    """The verdict on a run, or on all its repeats: the one way, for every report."""
    plan = outcomes[0].plan
    if plan.group is None:
        return verdict_of(outcomes[0])
    against = [verdict_of(each).reasons for each in outcomes]
    reasons = _against_group(outcomes, against)
    if reasons:
        return RunVerdict(reasons, "")
    repeats = summarise_repeats([outcome.summary for outcome in outcomes])
    flaky = len(repeats.flaky)
    words = let_through(
        len(repeats.tasks) - flaky - len(repeats.failing),
        len(repeats.tasks),
        repeats.score.mean,
        plan.suite.thresholds,
        plan.scoring,
        repeats=len(outcomes),
        flaky=flaky,
        forgiven=any(against),  # all that is left of them
    )
    return RunVerdict([], words)


def _against_group(outcomes: Sequence[Outcome], against: Sequence[Sequence[str]]) -> list[str]:
    """What speaks against repeats, from what speaks against each of them."""
    plan = outcomes[0].plan
    assert plan.group is not None
    repeats = summarise_repeats([outcome.summary for outcome in outcomes])
    flaky, flaky_as = repeats.flaky, plan.settings.flaky_as
    forgiven = flaky_as == "warn" and not repeats.failing and bool(flaky)
    reasons = [
        f"run {number}: {reason}"
        for number, of_run in sorted(zip(map(_number, outcomes), against, strict=True))
        for reason in of_run
        if not (forgiven and reason.endswith(EVERY_TASK))
    ]
    if flaky_as == "fail" and flaky:
        reasons.append(
            phrase("{count} flaky, and {@flaky_as} is fail", count=len(flaky)).told(IN_LOGS)
        )
    if len(outcomes) < plan.group.size:
        reasons.append(f"only {len(outcomes)} of {plan.group.size} repeats have a result")
    return reasons + reasons_against_repeats(outcomes)


def _number(repeat: Outcome) -> int:
    return repeat.plan.group.index if repeat.plan.group else 1
