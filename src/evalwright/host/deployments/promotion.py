"""Promotion: a version enters its next state, and as an active version takes a channel; pure."""

from typing import NamedTuple

from msgspec.structs import replace

from evalwright.host.deployments.channels import Channels
from evalwright.host.deployments.events import DeploymentPromoted, DeploymentStateChanged
from evalwright.host.deployments.record import DEFAULT_CHANNEL, FULL, LATEST, Deployment, State
from evalwright.host.deployments.refusals import IllegalTransition
from evalwright.host.deployments.request import Proof, TransitionRequest
from evalwright.host.settings import DeploymentSettings

NEXT: dict[State, State] = {
    "draft": "test",
    "test": "staged",
    "staged": "active",
    "active": "active",  # on one more channel
    "paused": "active",
}


class _Seat(NamedTuple):
    """The channel that a version took, as the event names it."""

    channel: str | None = None
    from_version: str | None = None
    canary_percent: int | None = None


_NO_SEAT = _Seat()


def target_state(record: Deployment | None, request: TransitionRequest) -> State:
    """The state that a promotion leads to; raises if there is none from here."""
    state: State = record.state if record else "draft"
    following = NEXT.get(state)
    target = request.to_state or following
    if record is None and target == "draft":
        return target
    if following is None or target != following:
        possible = f"the next state is {following}" if following else "that is a final state"
        raise IllegalTransition(
            f"version {request.version} is {state} and cannot be promoted"
            f"{f' to {request.to_state}' if request.to_state else ''}: {possible}"
        )
    return following


def promote(
    channels: Channels,
    agent_id: str,
    request: TransitionRequest,
    policy: DeploymentSettings,
    proof: Proof,
) -> DeploymentPromoted | DeploymentStateChanged:
    """Move the version to its next state; returns the event."""
    record = channels.get(request.version)
    target = target_state(record, request)
    if record is None:
        record = Deployment(agent_id=agent_id, version=request.version, state="draft")
    before = record.state
    record = replace(
        record,
        state=target,
        eval_run_id=proof.eval_run_id or record.eval_run_id,
        approval_gate_id=proof.approval_gate_id,
    )
    if before == "paused":
        return _resume(channels, record, request)
    seat = _NO_SEAT
    if target == "active":
        seat = _take_seat(channels, record, request, policy)
    elif request.channel is not None or request.canary_percent is not None:
        raise IllegalTransition(
            f"channel and canaryPercent apply to a promotion to active, not to {target}"
        )
    else:
        channels.put(record)
    return DeploymentPromoted(
        agent_id=agent_id,
        to_version=record.version,
        to_state=target,
        eval_run_id=proof.eval_run_id,
        approval_gate_id=proof.approval_gate_id,
        **seat._asdict(),
    )


def _resume(
    channels: Channels, record: Deployment, request: TransitionRequest
) -> DeploymentStateChanged:
    """A paused version returns to the channels that no other version has taken since."""
    if request.channel is not None or request.canary_percent is not None:
        raise IllegalTransition(
            f"version {record.version} is paused and resumes with its channels: "
            "omit channel and canaryPercent, and change them afterwards"
        )
    if record.is_canary:
        channels.active_holder(record.channels[0])
    channels.put(record)
    return state_changed(record, "paused")


def _take_seat(
    channels: Channels, record: Deployment, request: TransitionRequest, policy: DeploymentSettings
) -> _Seat:
    """Bind an active version to a channel."""
    channel = _channel(request, policy)
    if channel in record.channels:
        raise IllegalTransition(
            f"version {record.version} is already on {channel}: change its share with adjust-canary"
        )
    if request.canary_percent in (None, FULL):
        if record.is_canary:
            raise IllegalTransition(
                f"version {record.version} is the canary of {record.channels[0]}: "
                "raise its share to 100 with adjust-canary first"
            )
        before = channels.take_in_full(record, channel)
        return _Seat(channel, before.version if before else None)
    share = request.canary_percent
    if record.channels:
        raise IllegalTransition(
            f"version {record.version} serves {', '.join(record.channels)} in full: "
            "a canary can be on one channel only"
        )
    holder = channels.active_holder(channel)
    channels.free_canary_seat(channel)
    channels.put(replace(record, channels=(channel,), canary_percent=share))
    return _Seat(channel, holder.version, share)


def _channel(request: TransitionRequest, policy: DeploymentSettings) -> str:
    channel = request.channel or _default_channel(policy)
    if channel == LATEST:
        raise IllegalTransition(
            f"{LATEST} always follows the highest active version; name another channel"
        )
    if channel not in policy.channels:
        raise IllegalTransition(
            f"no such channel: {channel}; this host has {', '.join(policy.channels)}"
        )
    return channel


def _default_channel(policy: DeploymentSettings) -> str:
    """`stable`, or the first channel where the host has no `stable`."""
    return DEFAULT_CHANNEL if DEFAULT_CHANNEL in policy.channels else policy.channels[0]


def state_changed(record: Deployment, before: State) -> DeploymentStateChanged:
    """The event for a version whose state changed."""
    return DeploymentStateChanged(
        agent_id=record.agent_id,
        version=record.version,
        from_state=before,
        to_state=record.state,
    )
