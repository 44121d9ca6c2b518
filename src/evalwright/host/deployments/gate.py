"""The approval of a promotion: the votes so far, and what one more vote leads to; pure."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from evalwright.host.deployments.events import (
    ApprovalGranted,
    ApprovalOverridden,
    ApprovalRejected,
    QuorumProgress,
)
from evalwright.host.deployments.refusals import AlreadyVoted, IllegalTransition, NotAllowed
from evalwright.host.deployments.request import TransitionRequest
from evalwright.host.principal import Principal
from evalwright.host.settings import ApprovalSettings

HOST = "host"  # the principal that rejects on timeout

Vote = ApprovalGranted | ApprovalRejected | ApprovalOverridden


class Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vote on a promotion that waits for approval."""

    action: Literal["accept", "reject", "override"]
    reason: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


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
        return gate_id_of(self.run_id)

    @property
    def deadline_us(self) -> int:
        """When it is rejected if the quorum is not reached."""
        return self.asked_at_us + int(self.policy.timeout_s * 1_000_000)


class VoteResult(msgspec.Struct, frozen=True):
    """The result of a vote: its event, the outcome, and the gate after it."""

    event: Vote
    outcome: Literal["open", "granted", "rejected"]
    gate: ApprovalGate


def gate_id_of(run_id: str) -> str:
    """The id of the gate of a managing run."""
    return f"gate_{run_id.removeprefix('run_')}"


def run_of_gate(gate_id: str) -> str:
    """The managing run that a gate belongs to."""
    return f"run_{gate_id.removeprefix('gate_')}"


def required_scope(gate: ApprovalGate, ballot: Ballot) -> str:
    """The scope that this vote needs; raises if the policy does not allow such a vote."""
    if ballot.action != "override":
        return gate.policy.scope
    if gate.policy.override_scope is None:
        raise IllegalTransition("this approval cannot be overridden; accept or reject it")
    return gate.policy.override_scope


def check_voter(gate: ApprovalGate, ballot: Ballot, principal: Principal) -> None:
    """Raise `NotAllowed` if the key may not cast this vote."""
    scope = required_scope(gate, ballot)
    if not principal.may(scope):
        raise NotAllowed(f"the key lacks the scope {scope}", scopeRequired=scope)
    if ballot.action != "reject" and principal.principal == gate.requester:
        raise NotAllowed("the key that requested a promotion cannot approve it; use another key")


def count_vote(gate: ApprovalGate, ballot: Ballot, voter: str) -> VoteResult:
    """Count a vote of a key that is allowed to cast it."""
    if ballot.action == "reject":
        return _rejected(gate, voter, ballot.reason)
    if voter in gate.granted_by:
        raise AlreadyVoted("this key has already approved; other keys must approve too")
    if ballot.action == "override":
        if ballot.reason is None:
            raise IllegalTransition("an override needs a reason")
        if gate.policy.override_bypasses_quorum:
            event = ApprovalOverridden(gate_id=gate.gate_id, principal=voter, reason=ballot.reason)
            return VoteResult(event, "granted", gate)
    granted_by = (*gate.granted_by, voter)
    required = gate.policy.quorum
    progress = QuorumProgress(len(granted_by), required)
    granted = ApprovalGranted(gate_id=gate.gate_id, principal=voter, quorum_progress=progress)
    outcome: Literal["granted", "open"] = "granted" if len(granted_by) >= required else "open"
    return VoteResult(granted, outcome, replace(gate, granted_by=granted_by))


def time_out(gate: ApprovalGate) -> VoteResult:
    """Reject on timeout."""
    return _rejected(gate, HOST, "timeout")


def _rejected(gate: ApprovalGate, voter: str, reason: str | None) -> VoteResult:
    event = ApprovalRejected(gate_id=gate.gate_id, principal=voter, reason=reason)
    return VoteResult(event, "rejected", gate)
