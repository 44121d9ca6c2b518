"""What a host answers, as types; fields that they do not know are left aside."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

import msgspec

from evalwright.contracts.events import Envelope, Payload
from evalwright.contracts.run_plan import Owner
from evalwright.contracts.suite import Mode

P = TypeVar("P", bound=Payload)

Status = Literal[
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
]
ENDED: frozenset[Status] = frozenset({"completed", "failed", "cancelled"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AnswerBody(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of what a host tells."""


class EvalCapability(AnswerBody, frozen=True):
    """What evaluations a host runs."""

    supported: bool
    modes: list[Mode] = []
    max_tasks_per_suite: int | None = None
    max_cost_usd_per_suite: float | None = None


class AgentCapabilities(AnswerBody, frozen=True):
    """What a host does with agents."""

    eval_suite: EvalCapability = EvalCapability(supported=False)
    deployment: dict[str, Any] = {}


class Implementation(AnswerBody, frozen=True):
    """Which program a host is."""

    name: str = ""
    version: str = ""


class Capabilities(AnswerBody, frozen=True):
    """What a host can do."""

    protocol_version: str
    implementation: Implementation = Implementation()
    agents: AgentCapabilities = AgentCapabilities()
    limits: dict[str, Any] = {}
    feedback: dict[str, Any] = {}
    replay: dict[str, Any] = {}
    webhooks: dict[str, Any] = {}


class SuiteName(AnswerBody, frozen=True):
    """A suite that can be run."""

    suite_id: str
    version: str
    eval_suite_ref: str
    warnings: list[dict[str, str]] = []  # when it is published


class SuitePage(AnswerBody, frozen=True):
    """Some of the suites, and after which the others come."""

    suites: list[SuiteName]
    next: str | None = None


class Agent(AnswerBody, frozen=True):
    """An agent, as a host describes it."""

    agent_id: str
    persona: str
    label: str
    model_class: str
    pack_name: str
    pack_version: str
    tool_allowlist: list[str]
    has_handoff_schemas: bool
    description: str | None = None
    memory_shape: dict[str, Any] | None = None
    confidence_threshold: float | None = None


class CreatedRun(AnswerBody, frozen=True):
    """A run that has begun."""

    run_id: str
    status: Status
    events_url: str


class RunError(AnswerBody, frozen=True):
    """Why a run failed."""

    code: str
    message: str
    details: dict[str, Any] | None = None


class Run(AnswerBody, frozen=True):
    """A run as it is now."""

    run_id: str
    workflow_id: str
    status: Status
    owner: Owner | None = None
    started_at: str | None = None
    completed_at: str | None = None
    agent: dict[str, Any] | None = None
    error: RunError | None = None
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    configurable: dict[str, Any] = {}
    metrics: dict[str, Any] = {}


class RunEntry(AnswerBody, frozen=True):
    """A run in a list."""

    run_id: str
    workflow_id: str
    status: Status
    started_at: str
    completed_at: str | None = None
    agent_id: str | None = None
    eval_suite_ref: str | None = None
    aggregate_score: float | None = None
    passed: bool | None = None
    tags: list[str] = []


class RunPage(AnswerBody, frozen=True):
    """Some of the runs, and before which the others came."""

    runs: list[RunEntry]
    next: str | None = None


class RunEvent(Envelope, frozen=True, rename="camel", omit_defaults=True):
    """An event of a run; `payload` is its JSON as it came."""

    def decode(self, kind: type[P]) -> P:
        """The payload as one of the types in `evalwright.contracts.events`."""
        return msgspec.json.decode(self.payload, type=kind)

    def values(self) -> Any:
        """The payload as plain values."""
        return msgspec.json.decode(self.payload)

    @property
    def at_us(self) -> int:
        """When it happened, in microseconds since 1970."""
        return (datetime.fromisoformat(self.timestamp) - _EPOCH) // timedelta(microseconds=1)


class EventPage(AnswerBody, frozen=True):
    """Events after a place, and whether the run has ended with them."""

    events: list[RunEvent]
    is_complete: bool


class EventDiff(AnswerBody, frozen=True):
    """An event in which two runs differ."""

    seq: int
    op: Literal["added", "removed", "changed"]
    a_event: dict[str, Any] | None = None
    b_event: dict[str, Any] | None = None


class RunDiff(AnswerBody, frozen=True):
    """In what two runs differ, from where on."""

    a: str
    b: str
    diverged_at_seq: int | None
    event_diffs: list[EventDiff]
    state_diff: dict[str, Any]
    truncated: bool = False


class Fork(AnswerBody, frozen=True):
    """A run that was made from another one."""

    run_id: str
    source_run_id: str
    from_seq: int
    mode: Literal["replay", "branch"]
    status: Status
    events_url: str


class Signal(AnswerBody, frozen=True):
    """What a person says: exactly the field that the kind is named after, or none for a flag."""

    kind: Literal["rating", "correction", "label", "flag"]
    rating: int | None = None
    label: str | None = None
    correction: Any = None


class Annotation(AnswerBody, frozen=True):
    """What a person said of a run, or of an event or a task in it."""

    annotation_id: str
    target: dict[str, Any]
    signal: Signal
    actor: dict[str, Any]
    created_at: str
    note: str | None = None


class RunStatus(AnswerBody, frozen=True):
    """What a run has come to by a request."""

    run_id: str
    status: Status


class BulkResult(AnswerBody, frozen=True):
    """What came of one run of several."""

    run_id: str
    ok: bool
    status: Status | None = None
    error: dict[str, Any] | None = None


class Deployment(AnswerBody, frozen=True):
    """A version of an agent and its state."""

    agent_id: str
    version: str
    state: Literal["draft", "test", "staged", "active", "paused", "deprecated", "rolled-back"]
    canary_percent: int | None = None
    rollback_pointer: str | None = None
    channels: list[str] = []
    eval_run_id: str | None = None
    approval_gate_id: str | None = None


class Webhook(AnswerBody, frozen=True):
    """A subscription, without its secret."""

    webhook_id: str
    url: str = ""
    events: list[str] = []
    tags: list[str] = []
    secret_fingerprint: str | None = None
    state: str | None = None  # active, failed or dead-lettered
    dead_letters: int = 0


class DeadLetter(AnswerBody, frozen=True):
    """A delivery that was given up."""

    delivery_id: str
    webhook_id: str
    run_id: str
    event_id: str
    event_type: str
    attempts: int
    dead_lettered_at: str
    last_reason: str | None = None
    last_status: int | None = None


class CreatedWebhook(AnswerBody, frozen=True):
    """A new subscription; its secret is given only here, and not shown by `repr`."""

    webhook_id: str
    secret: str
    secret_fingerprint: str

    def __repr__(self) -> str:
        return f"CreatedWebhook({self.webhook_id!r}, {self.secret_fingerprint!r})"
