"""Events of the runs that manage deployments; the only free text in them is a masked reason."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.events import ClosedPayload
from evalwright.contracts.run_plan import AgentId, Text
from evalwright.host.deployments.model import Channel, Percent, State, Version

APPROVAL_NODE = "approval"  # the node of a managing run that waits for approval


class AuthorizationDecided(ClosedPayload, frozen=True):
    """Whether a key was allowed to do what it requested."""

    TYPE: ClassVar[str] = "authorization.decided"
    principal: Text
    action: Text
    resource: Text
    allowed: bool
    reason: str | None = None


class OverriddenScore(msgspec.Struct, frozen=True, rename="camel"):
    """A score that somebody corrected after the run, without what they wrote."""

    task_id: Text
    score: float  # as recorded
    annotation_id: Text
    principal: Text
    created_at: Text


class EvidenceRead(ClosedPayload, frozen=True):
    """What there is to know of the scores that a promotion rests on, beside the summary."""

    TYPE: ClassVar[str] = "evalwright.evidence"
    eval_run_id: Text
    aggregate_score: float
    passed: bool
    overridden_scores: tuple[OverriddenScore, ...] = ()
    marks: tuple[str, ...] = ()  # how far the scores depend on more than the suite


class DeploymentPromoted(ClosedPayload, frozen=True, kw_only=True):
    """A version entered a state or took a channel."""

    TYPE: ClassVar[str] = "deployment.promoted"
    agent_id: AgentId
    to_version: Version
    to_state: State
    from_version: Version | None = None
    channel: Channel | None = None
    canary_percent: Percent | None = None
    eval_run_id: Text | None = None
    approval_gate_id: Text | None = None


class DeploymentRolledBack(ClosedPayload, frozen=True, kw_only=True):
    """A version was replaced by the one that served before it."""

    TYPE: ClassVar[str] = "deployment.rolled-back"
    agent_id: AgentId
    from_version: Version
    to_version: Version
    rollback_pointer: Version
    reason: Text | None = None


class DeploymentCanaryAdjusted(ClosedPayload, frozen=True, kw_only=True):
    """The share of a version on its channel changed."""

    TYPE: ClassVar[str] = "deployment.canary.adjusted"
    agent_id: AgentId
    version: Version
    from_percent: Percent
    to_percent: Percent


class DeploymentStateChanged(ClosedPayload, frozen=True, kw_only=True):
    """A version was paused, resumed or deprecated."""

    TYPE: ClassVar[str] = "deployment.state.changed"
    agent_id: AgentId
    version: Version
    from_state: State
    to_state: State


DeploymentEvent = (
    DeploymentPromoted | DeploymentRolledBack | DeploymentCanaryAdjusted | DeploymentStateChanged
)


class ApprovalData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What people are asked to approve, by name only."""

    artifact_id: Text
    artifact_type: Text
    title: Text
    required_approvals: int
    actions: tuple[Literal["accept", "reject"], ...] = ("accept", "reject")
    rejection_policy: Literal["single-veto"] = "single-veto"


class InterruptRequested(ClosedPayload, frozen=True, kw_only=True):
    """The run waits for approval."""

    TYPE: ClassVar[str] = "interrupt.requested"
    node_id: Text
    interrupt_id: Text
    kind: Literal["approval"]
    key: Text
    data: ApprovalData
    timeout_ms: Annotated[int, Meta(ge=0)]
    requested_at: Text


class InterruptResolved(ClosedPayload, frozen=True, kw_only=True):
    """The run no longer waits."""

    TYPE: ClassVar[str] = "interrupt.resolved"
    node_id: Text
    interrupt_id: Text
    kind: Literal["approval"]
    resume_value: dict[str, Any]
    resolved_at: Text
    resolved_by: Text


class QuorumProgress(msgspec.Struct, frozen=True):
    """How many approvals there are, and how many are required."""

    granted: int
    required: int


class ApprovalGranted(ClosedPayload, frozen=True, kw_only=True):
    """A key approved."""

    TYPE: ClassVar[str] = "approval.granted"
    gate_id: Text
    principal: Text
    quorum_progress: QuorumProgress


class ApprovalRejected(ClosedPayload, frozen=True, kw_only=True):
    """A key rejected, or the deadline passed."""

    TYPE: ClassVar[str] = "approval.rejected"
    gate_id: Text
    principal: Text
    reason: str | None = None


class ApprovalOverridden(ClosedPayload, frozen=True, kw_only=True):
    """A key with the override scope decided alone."""

    TYPE: ClassVar[str] = "approval.overridden"
    gate_id: Text
    principal: Text
    reason: Text


PAYLOADS = (
    AuthorizationDecided,
    EvidenceRead,
    DeploymentPromoted,
    DeploymentRolledBack,
    DeploymentCanaryAdjusted,
    DeploymentStateChanged,
    InterruptRequested,
    InterruptResolved,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalOverridden,
)
