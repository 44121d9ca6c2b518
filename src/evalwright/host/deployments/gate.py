"""The approval of a promotion: who has agreed so far, and what one more voice comes to; pure."""

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

HOST = "host"  # who rejects what nobody answered in time

Vote = ApprovalGranted | ApprovalRejected | ApprovalOverridden


class Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody says to a promotion that waits for approval."""

    action: Literal["accept", "reject", "override"]
    reason: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


class ApprovalGate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A promotion that waits; the policy is that of the time at which it was asked for."""

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
        """The id that records and events name it by."""
        return gate_id_of(self.run_id)

    @property
    def deadline_us(self) -> int:
        """When it is rejected if too few have agreed."""
        return self.asked_at_us + int(self.policy.timeout_s * 1_000_000)


class VoteResult(msgspec.Struct, frozen=True):
    """What a vote comes to: what is told of it, and the gate, unless it is decided."""

    told: Vote
    outcome: Literal["open", "granted", "rejected"]
    gate: ApprovalGate


def gate_id_of(run_id: str) -> str:
    """The id of the gate of a managing run."""
    return f"gate_{run_id.removeprefix('run_')}"


def required_scope(gate: ApprovalGate, ballot: Ballot) -> str:
    """What a key needs for this vote; raises where nobody may vote like this."""
    if ballot.action != "override":
        return gate.policy.scope
    if gate.policy.override_scope is None:
        raise IllegalTransition("this approval cannot be overridden: accept or reject it")
    return gate.policy.override_scope


def check_voter(gate: ApprovalGate, ballot: Ballot, principal: Principal) -> None:
    """Raise `NotAllowed` for a key that may not vote, or not like this."""
    scope = required_scope(gate, ballot)
    if not principal.may(scope):
        raise NotAllowed(f"this needs the scope {scope}", scopeRequired=scope)
    if ballot.action != "reject" and principal.principal == gate.requester:
        raise NotAllowed("who asks for a promotion cannot approve it: another key must")


def count_vote(gate: ApprovalGate, ballot: Ballot, voter: str) -> VoteResult:
    """Count a vote of a key that may vote."""
    if ballot.action == "reject":
        return _rejected(gate, voter, ballot.reason)
    if voter in gate.granted_by:
        raise AlreadyVoted("this key has agreed already: the others are missing")
    if ballot.action == "override":
        if ballot.reason is None:
            raise IllegalTransition("an override needs a reason")
        if gate.policy.override_bypasses_quorum:
            told = ApprovalOverridden(gate_id=gate.gate_id, principal=voter, reason=ballot.reason)
            return VoteResult(told, "granted", gate)
    granted_by = (*gate.granted_by, voter)
    required = gate.policy.quorum
    progress = QuorumProgress(len(granted_by), required)
    granted = ApprovalGranted(gate_id=gate.gate_id, principal=voter, quorum_progress=progress)
    outcome: Literal["granted", "open"] = "granted" if len(granted_by) >= required else "open"
    return VoteResult(granted, outcome, replace(gate, granted_by=granted_by))


def time_out(gate: ApprovalGate) -> VoteResult:
    """Reject what nobody answered in time."""
    return _rejected(gate, HOST, "timeout")


def _rejected(gate: ApprovalGate, voter: str, reason: str | None) -> VoteResult:
    told = ApprovalRejected(gate_id=gate.gate_id, principal=voter, reason=reason)
    return VoteResult(told, "rejected", gate)
