"""Why a transition is refused; `host/v1` maps each class to an HTTP status.

Refusal
├── NoSuchAgent          the tenant has no agent with this id
├── IllegalTransition    the request does not fit the state of the versions
├── NotAllowed           the key may not do this
├── EvalGateUnmet        the version has no evaluation that passed
├── NoActiveDeployment   no version serves the channel
├── NoSuchGate           the run does not wait for approval
└── Conflict             another request was first
    ├── ApprovalPending  the same promotion is already waiting
    ├── GateClosed       the approval is already decided
    └── AlreadyVoted
"""

from typing import Any

from evalwright.host.deployments.events import EvidenceRead


class DeploymentRefusal(Exception):
    """A transition or vote that is refused; `code` is for programs."""

    code: str

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(message)


class NoSuchAgent(DeploymentRefusal):
    """The tenant has no agent with this id."""

    code = "not_found"


class IllegalTransition(DeploymentRefusal):
    """The request does not fit the state of the versions."""

    code = "validation_error"


class NotAllowed(DeploymentRefusal):
    """The key may not do this."""

    code = "forbidden"


class EvalGateUnmet(DeploymentRefusal):
    """The version has no evaluation that passed; `evidence` is the one that did not."""

    code = "eval_gate_unmet"
    evidence: EvidenceRead | None = None


class NoActiveDeployment(DeploymentRefusal):
    """No version serves the channel."""

    code = "no_active_deployment"


class NoSuchGate(DeploymentRefusal):
    """The run does not wait for approval."""

    code = "interrupt_not_found"


class Conflict(DeploymentRefusal):
    """Another request was first."""

    code = "deployment_conflict"


class ApprovalPending(Conflict):
    """The same promotion is already waiting for approval."""

    code = "approval_pending"


class GateClosed(Conflict):
    """The approval is already decided."""

    code = "interrupt_already_resolved"


class AlreadyVoted(Conflict):
    """One vote per key."""

    code = "approval_already_granted"
