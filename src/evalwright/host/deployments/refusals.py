"""Why a transition is refused; which HTTP status that is, is for the wire to say.

Refusal
├── NoSuchAgent          the tenant has no agent of this id
├── IllegalTransition    the request does not fit the state that the versions are in
├── NotAllowed           the key may not do this
├── EvalGateUnmet        no evaluation shows that this version is good enough
├── NoActiveDeployment   no version serves on the channel
├── NoSuchGate           the run waits for nobody's approval
└── Conflict             somebody else was first
    ├── ApprovalPending  the same promotion waits for approval already
    ├── GateClosed       the approval was decided already
    └── AlreadyVoted
"""

from typing import Any


class DeploymentRefusal(Exception):
    """A transition, or a vote on one, that does not happen; `code` is for programs."""

    code: str

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(message)


class NoSuchAgent(DeploymentRefusal):
    """The tenant has no agent of this id."""

    code = "not_found"


class IllegalTransition(DeploymentRefusal):
    """The request does not fit the state that the versions are in."""

    code = "validation_error"


class NotAllowed(DeploymentRefusal):
    """The key may not do this."""

    code = "forbidden"


class EvalGateUnmet(DeploymentRefusal):
    """No evaluation shows that this version is good enough."""

    code = "eval_gate_unmet"


class NoActiveDeployment(DeploymentRefusal):
    """No version serves on the channel."""

    code = "no_active_deployment"


class NoSuchGate(DeploymentRefusal):
    """The run waits for nobody's approval."""

    code = "interrupt_not_found"


class Conflict(DeploymentRefusal):
    """Somebody else was first."""

    code = "deployment_conflict"


class ApprovalPending(Conflict):
    """The same promotion waits for approval already."""

    code = "approval_pending"


class GateClosed(Conflict):
    """The approval was decided already."""

    code = "interrupt_already_resolved"


class AlreadyVoted(Conflict):
    """One vote per key."""

    code = "approval_already_granted"
