"""The state machine: the records of an agent and a request in, the changes out; pure.

draft → test → staged → active, active ↔ paused, active → deprecated, active → rolled-back.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from evalwright.host.deployments.channels import Channels
from evalwright.host.deployments.events import (
    DeploymentCanaryAdjusted,
    DeploymentEvent,
    DeploymentRolledBack,
)
from evalwright.host.deployments.promotion import promote, state_changed
from evalwright.host.deployments.record import DEFAULT_CHANNEL, FULL, Deployment
from evalwright.host.deployments.refusals import IllegalTransition
from evalwright.host.deployments.request import Proof, Transition, TransitionRequest
from evalwright.host.settings import DeploymentSettings

NO_PROOF = Proof()

_FIELDS: dict[Transition, frozenset[str]] = {
    "promote": frozenset(("to_state", "channel", "canary_percent", "eval_run_id")),
    "pause": frozenset(),
    "deprecate": frozenset(),
    "rollback": frozenset(("channel",)),
    "adjust-canary": frozenset(("channel", "canary_percent")),
}
_OPTIONAL = {
    "to_state": "toState",
    "channel": "channel",
    "canary_percent": "canaryPercent",
    "eval_run_id": "evalRunId",
}


class Decision(msgspec.Struct, frozen=True):
    """The result of a transition: the version's record, all changed records, and the events."""

    record: Deployment
    changed: list[Deployment]
    events: list[DeploymentEvent]


def transition(
    agent_id: str,
    records: Sequence[Deployment],
    request: TransitionRequest,
    policy: DeploymentSettings,
    proof: Proof = NO_PROOF,
) -> Decision:
    """What the request changes; raises `IllegalTransition` if it does not fit."""
    _check_fields(request)
    channels = Channels(records)
    if request.transition == "promote":
        events: list[DeploymentEvent] = [promote(channels, agent_id, request, policy, proof)]
    else:
        record = _active_record(channels, request)
        events = _STEPS[request.transition](channels, record, request)
    return Decision(channels[request.version], channels.changed(), events)


def _check_fields(request: TransitionRequest) -> None:
    given = [name for name in _OPTIONAL if getattr(request, name) is not None]
    for name in given:
        if name not in _FIELDS[request.transition]:
            raise IllegalTransition(f"{_OPTIONAL[name]} does not apply to {request.transition}")


def _active_record(channels: Channels, request: TransitionRequest) -> Deployment:
    record = channels.get(request.version)
    if record is None:
        raise IllegalTransition(
            f"version {request.version} has no deployment yet: promote it first"
        )
    if record.state != "active":
        raise IllegalTransition(
            f"version {request.version} is {record.state}: "
            f"{request.transition} needs an active version"
        )
    return record


def _withdraw(
    channels: Channels, record: Deployment, request: TransitionRequest
) -> list[DeploymentEvent]:
    """Pause a version, which keeps its channels, or deprecate it, which loses them."""
    canary = channels.active_canary(record)
    if canary is not None:
        raise IllegalTransition(
            f"version {record.version} serves the rest of the traffic of canary {canary.version}: "
            "raise the canary to 100 or roll it back first"
        )
    if request.transition == "pause":
        withdrawn = replace(record, state="paused")
    else:
        withdrawn = replace(record, state="deprecated", channels=(), canary_percent=None)
    channels.put(withdrawn)
    return [state_changed(withdrawn, "active")]


def _roll_back(
    channels: Channels, record: Deployment, request: TransitionRequest
) -> list[DeploymentEvent]:
    channel = _own_channel(record, request)
    restored = channels.predecessor(record, channel)
    if restored is None:
        raise IllegalTransition(
            f"no version that can still serve had {channel} before version {record.version}"
        )
    given_up = replace(
        record,
        state="rolled-back",
        rollback_pointer=restored.version,
        channels=(),
        canary_percent=None,
    )
    channels.put(given_up)
    if not record.is_canary:
        successor = replace(restored, state="active")
        for taken in record.channels:
            channels.take_in_full(successor, taken)
            successor = channels[successor.version]
    rolled_back = DeploymentRolledBack(
        agent_id=record.agent_id,
        from_version=record.version,
        to_version=restored.version,
        rollback_pointer=restored.version,
        reason=request.reason,
    )
    if restored.state == "active":
        return [rolled_back]
    return [rolled_back, state_changed(replace(restored, state="active"), restored.state)]


def _adjust_canary(
    channels: Channels, record: Deployment, request: TransitionRequest
) -> list[DeploymentEvent]:
    share = request.canary_percent
    if share is None:
        raise IllegalTransition("adjust-canary needs canaryPercent")
    before = FULL if record.canary_percent is None else record.canary_percent
    if share == before:
        raise IllegalTransition(f"version {record.version} already serves {share} percent")
    channel = _own_channel(record, request)
    if share == FULL:
        channels.take_in_full(record, channel)
    elif record.is_canary:
        channels.put(replace(record, canary_percent=share))
    else:
        _share_with_predecessor(channels, record, channel, share)
    return [
        DeploymentCanaryAdjusted(
            agent_id=record.agent_id,
            version=record.version,
            from_percent=before,
            to_percent=share,
        )
    ]


def _share_with_predecessor(
    channels: Channels, record: Deployment, channel: str, share: int
) -> None:
    if len(record.channels) > 1:
        raise IllegalTransition(
            f"version {record.version} serves {', '.join(record.channels)} in full: "
            "a canary can be on one channel only"
        )
    channels.free_canary_seat(channel)
    other = channels.predecessor(record, channel)
    if other is None or other.state != "active":
        raise IllegalTransition(
            f"no active version had {channel} before, so nothing would serve the rest"
        )
    channels.put(replace(record, canary_percent=share))
    channels.take_in_full(other, channel)


def _own_channel(record: Deployment, request: TransitionRequest) -> str:
    """The channel that the request means, among those of the version."""
    if not record.channels:
        raise IllegalTransition(f"version {record.version} is on no channel")
    if request.channel is None:
        return DEFAULT_CHANNEL if DEFAULT_CHANNEL in record.channels else record.channels[0]
    if request.channel not in record.channels:
        raise IllegalTransition(
            f"version {record.version} is not on {request.channel}; "
            f"it is on {', '.join(record.channels)}"
        )
    return request.channel


_STEPS = {
    "pause": _withdraw,
    "deprecate": _withdraw,
    "rollback": _roll_back,
    "adjust-canary": _adjust_canary,
}
