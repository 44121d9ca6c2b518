"""The approval of a promotion: its gate, the votes on it, and what one more vote leads to; pure."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.times import iso_time
from evalwright.host.access.keys import Principal
from evalwright.host.deployments.events import (
    APPROVAL_NODE,
    ApprovalData,
    ApprovalGranted,
    ApprovalOverridden,
    ApprovalRejected,
    InterruptRequested,
    InterruptResolved,
    QuorumProgress,
)
from evalwright.host.deployments.model import (
    AlreadyVoted,
    IllegalTransition,
    NotAllowed,
    TransitionRequest,
)
from evalwright.host.http.settings import ApprovalSettings

HOST = "host"  # the principal that rejects on timeout


class Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vote on a promotion that waits for approval."""

    action: Literal["accept", "reject", "override"]
    reason: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


class VoteResult(msgspec.Struct, frozen=True):
    """The result of a vote: its event, the outcome, and who has approved by now."""

    event: ApprovalGranted | ApprovalRejected | ApprovalOverridden
    outcome: Literal["open", "granted", "rejected"]
    granted_by: tuple[str, ...] = ()


class ApprovalGate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A promotion that waits for approval, with the policy in force when it was requested."""

    run_id: str
    partition: str  # of the log: whose run it is
    agent_id: str
    request: TransitionRequest
    requester: str
    policy: ApprovalSettings
    asked_at_us: int
    replaces: str | None  # the gate that the record named before
    granted_by: tuple[str, ...] = ()

    @property
    def gate_id(self) -> str:
        """Its id in records and events."""
        return f"gate_{self.run_id.removeprefix('run_')}"

    @property
    def deadline_us(self) -> int:
        """When it is rejected if the quorum is not reached."""
        return self.asked_at_us + int(self.policy.timeout_s * 1_000_000)

    def scope_for(self, ballot: Ballot) -> str:
        """The scope that a vote needs; raises if the policy does not allow such a vote."""
        if ballot.action != "override":
            return self.policy.scope
        if self.policy.override_scope is None:
            raise IllegalTransition("this approval cannot be overridden; accept or reject it")
        return self.policy.override_scope

    def check_voter(self, ballot: Ballot, principal: Principal) -> None:
        """Raise `NotAllowed` if the key may not cast this vote."""
        scope = self.scope_for(ballot)
        if not principal.may(scope):
            raise NotAllowed(f"the key lacks the scope {scope}", scopeRequired=scope)
        if ballot.action != "reject" and principal.principal == self.requester:
            raise NotAllowed(
                "the key that requested a promotion cannot approve it; use another key"
            )

    def count(self, ballot: Ballot, voter: str) -> VoteResult:
        """Count a vote of a key that is allowed to cast it."""
        if ballot.action == "reject":
            return self.rejected(voter, ballot.reason)
        if voter in self.granted_by:
            raise AlreadyVoted("this key has already approved; other keys must approve too")
        if ballot.action == "override":
            if ballot.reason is None:
                raise IllegalTransition("an override needs a reason")
            if self.policy.override_bypasses_quorum:
                event = ApprovalOverridden(
                    gate_id=self.gate_id, principal=voter, reason=ballot.reason
                )
                return VoteResult(event, "granted")
        granted_by = (*self.granted_by, voter)
        progress = QuorumProgress(len(granted_by), self.policy.quorum)
        granted = ApprovalGranted(gate_id=self.gate_id, principal=voter, quorum_progress=progress)
        is_enough = len(granted_by) >= self.policy.quorum
        return VoteResult(granted, "granted" if is_enough else "open", granted_by)

    def rejected(self, by: str, reason: str | None) -> VoteResult:
        """The result if a key rejects, or the host on timeout."""
        event = ApprovalRejected(gate_id=self.gate_id, principal=by, reason=reason)
        return VoteResult(event, "rejected")

    def asked(self) -> InterruptRequested:
        """The event that asks for approval."""
        subject = f"{self.agent_id}@{self.request.version}"
        return InterruptRequested(
            node_id=APPROVAL_NODE,
            interrupt_id=self.gate_id,
            kind="approval",
            key=f"{self.run_id}:{APPROVAL_NODE}:0",
            data=ApprovalData(
                artifact_id=subject,
                artifact_type="agent-deployment",
                title=f"Promote {subject}",
                required_approvals=self.policy.quorum,
            ),
            timeout_ms=int(self.policy.timeout_s * 1000),
            requested_at=iso_time(self.asked_at_us),
        )

    def answered(self, action: str, by: str, at_us: int) -> InterruptResolved:
        """The event that ends the wait."""
        return InterruptResolved(
            node_id=APPROVAL_NODE,
            interrupt_id=self.gate_id,
            kind="approval",
            resume_value={"action": action},
            resolved_at=iso_time(at_us),
            resolved_by=by,
        )


def run_of_gate(gate_id: str) -> str:
    """The managing run that a gate belongs to."""
    return f"run_{gate_id.removeprefix('gate_')}"
