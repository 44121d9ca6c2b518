"""Events: the envelope of the log and the payloads of the types that Evalwright writes.

`eval.*` payloads are closed and have no field that could hold content. The others are open, as the
protocol has them: logs of other hosts may say more.
"""

import builtins
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from evalwright.contracts.coverage import Coverage
from evalwright.contracts.run_plan import (
    FIRST_RULE,
    AgentFacts,
    AgentId,
    Baseline,
    Group,
    JudgePanel,
    Origin,
    Owner,
    RunId,
    RunSettings,
    SuiteSource,
    TaskSelection,
    Text,
)
from evalwright.contracts.suite import FaultKind, Mode, Score, Suite
from evalwright.contracts.summary import SafetyFinding, SuiteId, TaskId, Version
from evalwright.contracts.times import iso_time
from evalwright.contracts.verdicts import CheckResult, Verdict

T = TypeVar("T")

SCHEMA_VERSION = 1
SIMULATED_USER = "simulated-user"  # the node of calls of the model that plays the user
TERMINAL_TYPES = ("run.completed", "run.failed", "run.cancelled")

Count = Annotated[int, Meta(ge=0)]
Usd = Annotated[float, Meta(ge=0)]
Outcome = Literal["completed", "handed-off", "escalated", "refused", "failed"]
DrainPolicy = Literal["immediate", "drain-current-node"]
CapKind = Literal[
    "clarification", "schema", "envelopes", "node-executions", "wasm-memory", "wasm-fuel",
    "wasm-execution-time", "run-duration", "loop-iterations", "budget-tokens", "budget-cost",
    "budget-tool-calls", "budget-retries",
]  # fmt: skip


class Payload(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    gc=False,
):
    """Base of every payload; `TYPE` is the event type it belongs to."""

    TYPE: ClassVar[str]


class ClosedPayload(Payload, frozen=True, forbid_unknown_fields=True):
    """A payload that may carry nothing but its own fields."""


class ErrorDetail(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What went wrong, as events carry it."""

    code: Text
    message: Text
    details: dict[str, Any] | None = None
    retryable: bool | None = None


class RunStarted(Payload, frozen=True):
    """The run exists."""

    TYPE: ClassVar[str] = "run.started"
    workflow_id: Text
    inputs: dict[str, Any] | None = None
    transport: Literal["rest", "mcp", "a2a", "ui"] | None = None
    engine_version: str | None = None
    owner: Owner | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    configurable: dict[str, Any] | None = None  # of a workflow; evaluations have them in the plan


class RunCompleted(Payload, frozen=True):
    """The run ended; its output is the summary."""

    TYPE: ClassVar[str] = "run.completed"
    outputs: dict[str, Any] | None = None
    duration_ms: Count | None = None


class _SummaryOutputs(msgspec.Struct, Generic[T], rename="camel"):
    eval_summary: T


class _EvaluationEnd(msgspec.Struct, Generic[T]):
    outputs: _SummaryOutputs[T]


def recorded_summary(end: "Event", kind: builtins.type[T]) -> T:
    """What of its summary the end of a completed evaluation holds; raises `DecodeError`."""
    return msgspec.json.decode(end.body, type=_EvaluationEnd[kind]).outputs.eval_summary  # type: ignore[valid-type]


class RunFailure(Payload, frozen=True):
    """The run ended without a result."""

    TYPE: ClassVar[str] = "run.failed"
    error: ErrorDetail
    duration_ms: Count | None = None


class RunCancelled(Payload, frozen=True):
    """The run was cancelled on request."""

    TYPE: ClassVar[str] = "run.cancelled"
    reason: str | None = None
    cancelled_by: str | None = None
    duration_ms: Count | None = None


class RunPaused(Payload, frozen=True):
    """No new task is begun until the run is resumed."""

    TYPE: ClassVar[str] = "run.paused"
    reason: str | None = None
    drain_policy: DrainPolicy | None = None


class RunResumed(Payload, frozen=True):
    """A paused run goes on."""

    TYPE: ClassVar[str] = "run.resumed"
    reason: str | None = None


class CapBreached(Payload, frozen=True):
    """A limit of the run was reached."""

    TYPE: ClassVar[str] = "cap.breached"
    kind: CapKind
    limit: Annotated[float, Meta(ge=0)]
    observed: Annotated[float, Meta(ge=0)]


class Planned(Payload, frozen=True):
    """Everything a run needs to be resumed or replayed: suite, agent, settings and the like."""

    TYPE: ClassVar[str] = "evalwright.planned"
    suite: Suite
    agent: AgentFacts
    settings: RunSettings
    panel: JudgePanel | None = None
    baseline: Baseline | None = None
    group: Group | None = None
    origin: Origin | None = None
    source: SuiteSource | None = None
    selection: TaskSelection | None = None
    scoring: int = FIRST_RULE  # those that came later are always written
    lacking: list[str] | None = None  # of recorded answers: what there is none of


class EvalStarted(ClosedPayload, frozen=True):
    """The evaluation starts."""

    TYPE: ClassVar[str] = "eval.started"
    suite_id: SuiteId
    suite_version: Version
    task_count: Count
    modes: list[Mode]
    baseline_run_id: RunId | None = None


class EvalScored(ClosedPayload, frozen=True):
    """One task has its score."""

    TYPE: ClassVar[str] = "eval.scored"
    task_id: TaskId
    score: Score
    passed: bool
    cost_usd: Usd | None = None
    latency_ms: Count | None = None
    schema_valid: bool | None = None
    safety_finding_count: Count | None = None


class EvalCompleted(ClosedPayload, frozen=True):
    """All tasks have their scores."""

    TYPE: ClassVar[str] = "eval.completed"
    aggregate_score: Score
    passed: bool
    task_count: Count
    passed_count: Count
    regression_vs_baseline: Annotated[float, Meta(ge=-1, le=1)] | None = None


def repetition_of(attempt_id: str) -> int:
    """The number of the repetition that an invocation is of, by its id."""
    return int(attempt_id.partition("-r")[2].partition(".")[0] or 1)


class InvocationStarted(Payload, frozen=True):
    """The first event of an agent invocation."""

    TYPE: ClassVar[str] = "agent.invocation.started"
    invocation_id: Text
    agent_id: AgentId
    source: Literal["workflow-node", "run-api", "chat-mention"]
    model_class: str | None = None
    resolved_agent_version: str | None = None
    resolved_channel: str | None = None
    tool_surface_count: Count | None = None
    memory_bound: bool | None = None
    continues: Text | None = None  # of ours: the attempt that began the conversation


class InvocationCompleted(Payload, frozen=True):
    """The last event of an agent invocation."""

    TYPE: ClassVar[str] = "agent.invocation.completed"
    invocation_id: Text
    agent_id: AgentId
    outcome: Outcome
    schema_validated: bool | None = None
    confidence: Score | None = None
    latency_ms: Count | None = None  # of ours: judges may need it long after
    unmeasured: list[Literal["latency", "tokens", "turns"]] | None = None  # of ours
    coverage: Coverage | None = None  # of ours: what was observed; None: nothing


class Reasoned(Payload, frozen=True):
    """The agent reported its reasoning."""

    TYPE: ClassVar[str] = "agent.reasoned"
    agent_id: AgentId
    reasoning: str
    verbosity: Literal["summary", "full", "off"] | None = None


class ToolCalled(Payload, frozen=True):
    """The agent called a tool."""

    TYPE: ClassVar[str] = "agent.toolCalled"
    agent_id: AgentId
    tool_name: Text
    call_id: Text
    inputs: Any = UNSET


class ToolReturned(Payload, frozen=True):
    """The tool answered."""

    TYPE: ClassVar[str] = "agent.toolReturned"
    agent_id: AgentId
    tool_name: Text
    call_id: Text
    outcome: Any = UNSET
    error: ErrorDetail | UnsetType = UNSET
    status: Literal["ok", "error", "forbidden", "rate_limited"] | UnsetType = UNSET
    duration_ms: Count | UnsetType = UNSET
    fault: FaultKind | UnsetType = UNSET  # of ours: what went wrong because the suite wants it


class RowChange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A row of a world that became different, by its number; a new one was not there before."""

    collection: Text
    row: Count
    before: Any = UNSET
    after: Any = UNSET


class WorldChanged(Payload, frozen=True):
    """What an agent left different in the world of its task; nothing, if there are no changes."""

    TYPE: ClassVar[str] = "evalwright.worldChanged"
    world: Text
    changes: list[RowChange] = []


class ProviderUsage(ClosedPayload, frozen=True):
    """Tokens and, where known, cost of one model call."""

    TYPE: ClassVar[str] = "provider.usage"
    provider: Text
    model: Text
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count | None = None
    cost_estimate_usd: Usd | None = None
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")] | None = None
    cache_hit: bool | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    node_id: str | None = None
    trace_id: str | None = None

    @property
    def is_of_user(self) -> bool:
        """Whether it is of the model that plays the user, and not of the agent."""
        return self.node_id == SIMULATED_USER


class Decided(Payload, frozen=True):
    """The agent's final word on a task: its output, or the error it ended with."""

    TYPE: ClassVar[str] = "agent.decided"
    agent_id: AgentId
    decision: Any
    confidence: Score | None = None
    turn: Annotated[int, Meta(ge=1)] | None = None  # of ours: in a conversation, the answer of many
    session: Any = UNSET  # of ours: what the agent keeps for the next turn; None: nobody can tell


UserFault = Literal["left_role", "gave_away", "asked_itself", "no_reply"]


class UserSaid(Payload, frozen=True):
    """What a simulated user said in a turn, or how it ended the conversation."""

    TYPE: ClassVar[str] = "evalwright.userSaid"
    turn: Annotated[int, Meta(ge=1)]
    text: str
    ends: Literal["goal_reached", "given_up"] | None = None  # then nobody answers it
    faults: list[UserFault] | None = None  # with one, the task is not evaluated
    model: Text | None = None  # without one, it is the opening of the suite
    prompt_version: Text | None = None


class Judged(Payload, frozen=True):
    """A judge answered all its questions about a task, in one sample."""

    TYPE: ClassVar[str] = "evalwright.judged"
    subject: Text  # `rubric`, `safety`, or what a check asked
    judge: Text
    sample: Annotated[int, Meta(ge=1)]
    prompt_version: Text
    verdicts: list[Verdict]


class Found(ClosedPayload, frozen=True):
    """Safety findings of a task; a category and a severity each, never an excerpt."""

    TYPE: ClassVar[str] = "evalwright.found"
    source: Literal["signals", "judge"]
    findings: list[SafetyFinding]


class Checked(Payload, frozen=True):
    """What the checks of a task said of an answer; nothing of one that is an error."""

    TYPE: ClassVar[str] = "evalwright.checked"
    checks: list[CheckResult]
    score: Score
    passed: bool
    repetition: Annotated[int, Meta(ge=1)] = 1
    check_score: Score | None = None  # the mean of the checks, where it is not the score
    error: ErrorDetail | None = None  # in place of the checks, where the answer was not scored


PAYLOADS: dict[str, type[Payload]] = {
    kind.TYPE: kind
    for kind in (
        RunStarted,
        RunCompleted,
        RunFailure,
        RunCancelled,
        RunPaused,
        RunResumed,
        CapBreached,
        Planned,
        EvalStarted,
        EvalScored,
        EvalCompleted,
        InvocationStarted,
        InvocationCompleted,
        Reasoned,
        ToolCalled,
        ToolReturned,
        ProviderUsage,
        WorldChanged,
        UserSaid,
        Decided,
        Judged,
        Found,
        Checked,
    )
}


# What has no field for content needs no redaction, and no secret can damage it.
CONTENT_FREE = frozenset(
    kind.TYPE
    for kind in (
        EvalStarted,
        EvalScored,
        EvalCompleted,
        Found,
        InvocationStarted,
        InvocationCompleted,
    )
)


P = TypeVar("P", bound=Payload)


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event as the log holds it; `task_id` becomes the envelope's `nodeId`."""

    run_id: str
    sequence: int
    type: str
    task_id: str | None
    at_us: int
    body: bytes

    def decode(self, kind: builtins.type[P]) -> P:
        """The payload as its type; raises `msgspec.DecodeError` for one that is damaged."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None

    def payload(self) -> Any:
        return self.decode(Any)  # type: ignore[type-var]

    def to_json(self) -> bytes:
        return msgspec.json.encode(
            Envelope(
                event_id=f"{self.run_id}:{self.sequence}",
                run_id=self.run_id,
                type=self.type,
                payload=msgspec.Raw(self.body),
                timestamp=iso_time(self.at_us),
                sequence=self.sequence,
                node_id=self.task_id,
                schema_version=SCHEMA_VERSION,
            )
        )


class Envelope(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The wire form of an event."""

    event_id: str
    run_id: str
    type: str
    payload: msgspec.Raw
    timestamp: str
    sequence: int
    node_id: str | None = None
    schema_version: int | None = None
