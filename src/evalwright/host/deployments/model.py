"""A deployment, a request to change it, and why a request is refused."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from evalwright.contracts.events import Payload
from evalwright.contracts.run_plan import AgentId, Text
from evalwright.host.http.errors import ApiError
from evalwright.host.library.versions import version_key

DEPLOYMENT, GATE = "deployment", "gate"  # kinds of records
WORKFLOW_ID = "evalwright.deployment"  # of the runs that manage deployments: one for each request

State = Literal["draft", "test", "staged", "active", "paused", "deprecated", "rolled-back"]
STATES: tuple[State, ...] = get_args(State)

Version = Annotated[str, Meta(min_length=1, max_length=64)]
Channel = Annotated[str, Meta(min_length=1, max_length=64)]
Percent = Annotated[int, Meta(ge=0, le=100)]
FULL = 100

DEFAULT_CHANNEL = "stable"
LATEST = "latest"  # the highest active version; nothing is promoted to it by name


class AgentDeployment(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """A version as clients see it; the highest active version also has the channel `latest`."""

    agent_id: AgentId
    version: Version
    state: State
    canary_percent: Percent | None = None
    rollback_pointer: Version | None = None
    channels: tuple[Channel, ...] = ()
    eval_run_id: str | None = None
    approval_gate_id: str | None = None


class Deployment(AgentDeployment, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A version as stored: also in which turn it last took each channel in full.

    `canary_percent` is set for a version that shares its one channel with another; a version
    without it serves all of the traffic that canaries leave.
    """

    turns: dict[Channel, int] = {}

    @property
    def is_canary(self) -> bool:
        """Whether the version serves only a share of its channel."""
        return self.canary_percent is not None

    def public(self, *, is_latest: bool) -> AgentDeployment:
        """The record as clients see it."""
        fields = {name: getattr(self, name) for name in AgentDeployment.__struct_fields__}
        channels = (*self.channels, LATEST) if is_latest else self.channels
        return AgentDeployment(**fields | {"channels": channels})


def latest(records: Iterable[Deployment]) -> Deployment | None:
    """The highest version that is active."""
    active = (record for record in records if record.state == "active")
    return max(active, key=lambda record: version_key(record.version), default=None)


def public_records(records: Iterable[Deployment]) -> list[AgentDeployment]:
    """The records of an agent as clients see them, lowest version first."""
    kept = sorted(records, key=lambda record: version_key(record.version))
    highest = latest(kept)
    return [record.public(is_latest=record is highest) for record in kept]


Transition = Literal["promote", "pause", "deprecate", "rollback", "adjust-canary"]

SCOPES: dict[Transition, str] = {
    "promote": "deploy:promote",
    "pause": "deploy:pause",
    "deprecate": "deploy:pause",
    "rollback": "deploy:rollback",
    "adjust-canary": "deploy:promote",
}


class TransitionRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A transition of one version; its kind decides which other fields it may have."""

    version: Version
    transition: Transition
    to_state: State | None = None
    channel: Channel | None = None
    canary_percent: Percent | None = None
    eval_run_id: Text | None = None
    reason: Annotated[str, Meta(min_length=1, max_length=512)] | None = None

    @property
    def scope(self) -> str:
        """The scope that a key needs for this."""
        return SCOPES[self.transition]


class DeploymentRefusal(ApiError):
    """A transition or vote that is refused; each kind has a status, and a code for programs."""

    status: int
    code: str
    details: dict[str, Any]

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(self.status, self.code, message, details)


class NoSuchAgent(DeploymentRefusal):
    """The tenant has no agent with this id."""

    status, code = 404, "not_found"


class IllegalTransition(DeploymentRefusal):
    """The request does not fit the state of the versions."""

    status, code = 400, "validation_error"


class NotAllowed(DeploymentRefusal):
    """The key may not do this."""

    status, code = 403, "forbidden"


class EvalGateUnmet(DeploymentRefusal):
    """The version has no evaluation that passed; `evidence` says what its summary does not."""

    status, code = 403, "eval_gate_unmet"
    evidence: Sequence[Payload] = ()


class NoActiveDeployment(DeploymentRefusal):
    """No version serves the channel."""

    status, code = 400, "no_active_deployment"


class NoSuchGate(DeploymentRefusal):
    """The run does not wait for approval."""

    status, code = 404, "interrupt_not_found"


class Conflict(DeploymentRefusal):
    """Another request was first."""

    status, code = 409, "deployment_conflict"


class ApprovalPending(Conflict):
    """The same promotion is already waiting for approval."""

    code = "approval_pending"


class GateClosed(Conflict):
    """The approval is already decided."""

    code = "interrupt_already_resolved"


class AlreadyVoted(Conflict):
    """One vote per key."""

    code = "approval_already_granted"
