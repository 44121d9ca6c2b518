"""What a run is planned with: the agent, its settings, judges, a baseline, a group of repeats."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.suite import ModelClass
from evalwright.contracts.summary import Score

Text = Annotated[str, Meta(min_length=1)]
RunId = Annotated[str, Meta(max_length=128, pattern=r"^\S+\Z")]
AgentId = Annotated[str, Meta(min_length=3, max_length=256)]
FailOn = Literal["threshold", "findings", "regression", "significant-regression", "none"]


class AgentFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which agent a run evaluates, and how it is reached."""

    agent_id: AgentId
    ref: Text
    model_class: ModelClass | None = None
    model: str | None = None  # of a manifest agent
    version: str | None = None  # where the agent is an installed one
    channel: str | None = None  # that the version was found by


class RunSettings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The settings that a resumed run takes over."""

    concurrency: int
    task_timeout_s: float | None = None
    run_timeout_s: float | None = None
    max_cost_usd: float | None = None
    known_costs_only: bool = False  # calls without a known price do not end the budget
    read_only: bool = False
    tools: str | None = None  # the file that describes live tools
    gateway: bool = False
    cassette: str | None = None
    record: bool = False
    fail_on: list[FailOn] | None = None
    flaky_as: Literal["fail", "warn"] = "warn"


class JudgePanel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who judges, how often each is asked, and by which version of the built-in prompt."""

    judges: list[Text]
    prompt_version: Text
    samples: int = 1


class BaselineTask(msgspec.Struct, frozen=True, gc=False):
    """What a task came to in the baseline."""

    score: Score
    passed: bool


class Baseline(msgspec.Struct, frozen=True, rename="camel"):
    """The run that this one is compared with, as it was; its tasks in the order of the suite."""

    run_id: RunId
    aggregate_score: Score
    tasks: list[BaselineTask]
    judges: list[str] = []


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
