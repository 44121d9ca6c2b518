"""What a run is planned with: options, agent, judges, baseline, group of repeats, origin."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.coverage import Observe, ToolsClaim, UsageClaim
from evalwright.contracts.messages import Edge
from evalwright.contracts.short_names import agent_name
from evalwright.contracts.suite import ModelClass, Score

Text = Annotated[str, Meta(min_length=1)]
RunId = Annotated[str, Meta(max_length=128, pattern=r"^\S+\Z")]
AgentId = Annotated[str, Meta(min_length=3, max_length=256)]
MAX_CONCURRENCY = 10_000
MAX_JUDGE_SAMPLES = 99
MAX_REPEATS = 1000
# The rule by which a run was scored, and passed. By the first one a task that failed had the mean
# of its checks, and a suite without a bar had 0.7.
FIRST_RULE = 1
CURRENT_RULE = 2
SCORING_S = 30.0  # for the checks of one answer, unless something else is chosen
FailOn = Literal["threshold", "findings", "regression", "significant-regression", "none"]


class AgentFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which agent a run evaluates, and how it is reached."""

    agent_id: AgentId
    ref: Text
    model_class: ModelClass | None = None
    model: str | None = None  # of a manifest agent
    version: str | None = None  # where the agent is an installed one
    channel: str | None = None  # that the version was found by
    tools: ToolsClaim | None = None  # claimed by the user, where nobody observes it
    usage: UsageClaim | None = None  # the same of model calls

    @property
    def name(self) -> str:
        return agent_name(self.agent_id, self.ref)


class RunSettings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The options that a log keeps and a resumed run takes over; None and False: not chosen."""

    concurrency: int | None = None
    task_timeout_s: float | None = None
    run_timeout_s: float | None = None
    model_timeout_s: float | None = None  # for one attempt to ask a model
    max_cost_usd: float | None = None
    task_cost_usd: float | None = None  # what a task is expected to cost
    max_tokens_total: int | None = None  # of all calls, of agents and judges
    known_costs_only: bool = False  # calls without a known price do not end the budget
    read_only: bool = False
    tools: str | None = None  # the file that describes live tools
    gateway: bool = False
    isolate: bool = False  # the agent, in Python, runs in processes of its own
    observe: Observe | None = None  # whether spans of an agent in this process are captured
    otlp: bool = False  # the spans of an agent in another process are received
    cassette: str | None = None
    embedding_model: str | None = None  # for checks that compare meanings
    user_model: str | None = None  # that plays the users of conversations
    record: bool = False  # calls that the cassette does not hold are made, and added to it
    fail_on: tuple[FailOn, ...] = ()
    flaky_as: Literal["fail", "warn"] | None = None
    priority: int | None = None  # among the runs of a tenant that share workers; higher is sooner
    scoring_s: float | None = None  # for the checks of one answer
    seed: int | None = None  # of ids that worlds make, and of faults; 0 unless it is chosen

    @property
    def has_budget(self) -> bool:
        """Whether what the run spends is limited."""
        return self.max_cost_usd is not None or self.max_tokens_total is not None


DEFAULT_SETTINGS = RunSettings(concurrency=10, task_timeout_s=300.0)


class RunOptions(RunSettings, frozen=True, kw_only=True):
    """Everything a user can choose about a run: the one structure from the edge to the engine.

    A new option is one field, here or, if a resumed run must remember it, in `RunSettings`.
    """

    modes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    title: str | None = None  # what is tried, for lists
    allow_mismatch: bool = False
    model: str | None = None  # of a manifest agent
    agent_tools: ToolsClaim | None = None  # claimed: it calls none, or only by `task`
    agent_usage: UsageClaim | None = None  # claimed: it asks no model
    judges: tuple[str, ...] = ()
    judge_samples: int | None = None
    allow_self_judge: bool = False
    baseline: str | None = None  # the run to compare with
    allow_partial: bool = False  # a run of a part of the suite may be that
    repeat: int = 1


# The options that a client of a host may choose, by their names on the wire.
CONFIGURABLE = {
    "evalModes": "modes",
    "baselineRunId": "baseline",
    "allowMismatch": "allow_mismatch",
    "concurrency": "concurrency",
    "taskTimeoutMs": "task_timeout_s",
    "runTimeoutMs": "run_timeout_s",
    "maxCostUsd": "max_cost_usd",
    "taskCostUsd": "task_cost_usd",
    "maxTokensTotal": "max_tokens_total",
    "seed": "seed",
}


def _on_the_wire(field: str, value: str) -> str:
    name = _WIRE_NAMES.get(field, field)
    return f"{name}: {value}" if value else name


_WIRE_NAMES = {field: name for name, field in CONFIGURABLE.items()}
ON_THE_WIRE = Edge(_on_the_wire)


def from_configurable(configurable: Mapping[str, Any], tags: Iterable[str] = ()) -> RunOptions:
    """The options of a request; its schema has been checked."""
    given = {wire: configurable[wire] for wire in CONFIGURABLE if wire in configurable}
    if "evalModes" in given:
        given["evalModes"] = tuple(given["evalModes"])
    seconds = {wire: given[wire] / 1000 for wire in given if wire.endswith("Ms")}
    chosen = {CONFIGURABLE[wire]: value for wire, value in (given | seconds).items()}
    return RunOptions(tags=tuple(tags), **chosen)


def to_configurable(options: RunOptions) -> dict[str, Any]:
    """The same for a client: only what was chosen."""
    chosen = {wire: getattr(options, name) for wire, name in CONFIGURABLE.items()}
    return {
        wire: max(1, round(value * 1000)) if wire.endswith("Ms") else value
        for wire, value in chosen.items()
        if value
    }


class SuiteSource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a suite with checks came from: its own code is found from its folder."""

    folder: str
    content_hash: Text


class TaskSelection(msgspec.Struct, frozen=True, rename="camel"):
    """The run is of a part of a suite: how many tasks the whole has, and what chose among them."""

    of: int
    by: list[Text]


class JudgePanel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who judges, how often each is asked, and by which version of the built-in prompt."""

    judges: list[Text]
    prompt_version: Text
    samples: int = 1


class BaselineTask(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a task came to in the baseline; of repeats, also how often it passed, of how many."""

    score: Score
    passed: bool
    repeats: tuple[int, int] | None = None


class LeftOut(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The tasks in which a suite differs from that of its baseline: they are not compared."""

    changed: list[str] = []
    new: list[str] = []
    removed: list[str] = []


class Baseline(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The run that this one is compared with, as it was; its tasks in the order of the suite.

    Where the suite has changed since, they are those that both have, and the score is their mean.
    """

    run_id: RunId
    aggregate_score: Score
    tasks: list[BaselineTask]
    judges: list[str] = []
    left_out: LeftOut | None = None
    name: str | None = None  # by which the user called it
    age_s: int | None = None  # when this run was planned
    group: str | None = None  # of the repeats that it is one of, which repeats are compared with
    rescored: bool = False  # an earlier rule had scored it otherwise


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose a run is: the tenant, and who of them started it, by an id that says no more."""

    tenant: Text
    workspace: Text | None = None
    principal: Text | None = None


class ForkedFrom(msgspec.Struct, frozen=True, rename="camel"):
    """The run that another one was made from."""

    run_id: RunId
    from_sequence: int
    mode: Literal["replay", "branch"]


class Origin(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a run of a host came from: its owner, and what its request said besides."""

    owner: Owner
    transport: Literal["rest", "mcp", "a2a", "ui"] = "rest"
    metadata: dict[str, Any] | None = None
    configurable: dict[str, Any] | None = None
    forked_from: ForkedFrom | None = None
    traceparent: str | None = None


class Group(msgspec.Struct, frozen=True):
    """The repeats that a run is one of: it is number `index` of `size`, from 1."""

    id: Text
    index: int
    size: int
