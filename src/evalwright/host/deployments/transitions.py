"""The state machine: the records of an agent and a request in, the changes out; pure.

draft → test → staged → active, active ↔ paused, active → deprecated, active → rolled-back.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from evalwright.host.deployments.events import (
    DeploymentCanaryAdjusted,
    DeploymentEvent,
    DeploymentPromoted,
    DeploymentRolledBack,
    DeploymentStateChanged,
)
from evalwright.host.deployments.model import (
    DEFAULT_CHANNEL,
    FULL,
    LATEST,
    Deployment,
    IllegalTransition,
    NoActiveDeployment,
    State,
    Transition,
    TransitionRequest,
    latest,
)
from evalwright.host.http.settings import DeploymentSettings

NEXT: dict[State, State] = {
    "draft": "test",
    "test": "staged",
    "staged": "active",
    "active": "active",  # on one more channel
    "paused": "active",
}
_FIELDS: dict[Transition, set[str]] = {
    "promote": {"toState", "channel", "canaryPercent", "evalRunId"},
    "pause": set(),
    "deprecate": set(),
    "rollback": {"channel"},
    "adjust-canary": {"channel", "canaryPercent"},
}
_SEATED = ("active", "paused")


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
    *,
    eval_run_id: str | None = None,
    gate_id: str | None = None,
) -> Decision:
    """What the request changes; raises `IllegalTransition` if it does not fit.

    A promotion names the evaluation and the approval that it rests on.
    """
    for name in msgspec.to_builtins(request):
        if name not in {"version", "transition", "reason"} | _FIELDS[request.transition]:
            raise IllegalTransition(f"{name} does not apply to {request.transition}")
    channels = Channels(records)
    record = channels.get(request.version)
    if request.transition == "promote":
        evidence = {"eval_run_id": eval_run_id, "approval_gate_id": gate_id}
        events = [_promote(channels, agent_id, record, request, policy, evidence)]
        return Decision(channels[request.version], channels.changed(), events)
    if record is None:
        raise IllegalTransition(
            f"version {request.version} has no deployment yet: promote it first"
        )
    if record.state != "active":
        raise IllegalTransition(
            f"version {request.version} is {record.state}: "
            f"{request.transition} needs an active version"
        )
    if request.transition == "rollback":
        channel = _own_channel(record, request)
        restored = channels.predecessor(record, channel)
        if restored is None:
            raise IllegalTransition(
                f"no version that can still serve had {channel} before version {record.version}"
            )
        channels.put(
            replace(
                record,
                state="rolled-back",
                rollback_pointer=restored.version,
                channels=(),
                canary_percent=None,
            )
        )
        if not record.is_canary:
            for taken in record.channels:
                channels.assign_in_full(replace(channels[restored.version], state="active"), taken)
        rolled_back = DeploymentRolledBack(
            agent_id=record.agent_id,
            from_version=record.version,
            to_version=restored.version,
            rollback_pointer=restored.version,
            reason=request.reason,
        )
        resumed = [] if restored.state == "active" else [_state_changed(restored, "active")]
        events = [rolled_back, *resumed]
    elif request.transition == "adjust-canary":
        events = [_adjust_canary(channels, record, request)]
    else:
        # Pause a version, which keeps its channels, or deprecate it, which loses them.
        for channel in () if record.is_canary else record.channels:
            canary = channels.seated(channel, is_canary=True)
            if canary is not None and canary.state == "active":
                raise IllegalTransition(
                    f"version {record.version} serves the rest of the traffic of canary "
                    f"{canary.version}: raise the canary to 100 or roll it back first"
                )
        if request.transition == "pause":
            withdrawn = replace(record, state="paused")
        else:
            withdrawn = replace(record, state="deprecated", channels=(), canary_percent=None)
        channels.put(withdrawn)
        events = [_state_changed(record, withdrawn.state)]
    return Decision(channels[request.version], channels.changed(), events)


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


def _promote(
    channels: "Channels",
    agent_id: str,
    before: Deployment | None,
    request: TransitionRequest,
    policy: DeploymentSettings,
    evidence: dict[str, Any],
) -> DeploymentEvent:
    """Move a version to its next state, and an active one to a channel."""
    target = target_state(before, request)
    before = before or Deployment(agent_id=agent_id, version=request.version, state="draft")
    kept = evidence | {"eval_run_id": evidence["eval_run_id"] or before.eval_run_id}
    record = replace(before, state=target, **kept)
    names_channel = request.channel is not None or request.canary_percent is not None
    if before.state == "paused":  # it returns to the channels that nobody has taken since
        if names_channel:
            raise IllegalTransition(
                f"version {record.version} is paused and resumes with its channels: "
                "omit channel and canaryPercent, and change them afterwards"
            )
        if record.is_canary:
            channels.active_holder(record.channels[0])
        channels.put(record)
        return _state_changed(before, target)
    promoted = DeploymentPromoted(
        agent_id=agent_id, to_version=record.version, to_state=target, **evidence
    )
    if target == "active":
        # The channel that the request means, which the version must not have yet.
        channel = request.channel
        if channel is None:  # `stable`, or the first one where the host has no `stable`
            has_default = DEFAULT_CHANNEL in policy.channels
            channel = DEFAULT_CHANNEL if has_default else policy.channels[0]
        if channel == LATEST:
            raise IllegalTransition(
                f"{LATEST} always follows the highest active version; name another channel"
            )
        if channel not in policy.channels:
            raise IllegalTransition(
                f"no such channel: {channel}; this host has {', '.join(policy.channels)}"
            )
        if channel in record.channels:
            raise IllegalTransition(
                f"version {record.version} is already on {channel}: "
                "change its share with adjust-canary"
            )
        share = None if request.canary_percent == FULL else request.canary_percent
        from_version = channels.assign(record, channel, share)
        return replace(promoted, channel=channel, from_version=from_version, canary_percent=share)
    if names_channel:
        raise IllegalTransition(
            f"channel and canaryPercent apply to a promotion to active, not to {target}"
        )
    channels.put(record)
    return promoted


def _adjust_canary(
    channels: "Channels", record: Deployment, request: TransitionRequest
) -> DeploymentEvent:
    share = request.canary_percent
    if share is None:
        raise IllegalTransition("adjust-canary needs canaryPercent")
    before = FULL if record.canary_percent is None else record.canary_percent
    if share == before:
        raise IllegalTransition(f"version {record.version} already serves {share} percent")
    channel = _own_channel(record, request)
    if share == FULL:
        channels.assign_in_full(record, channel)
    elif record.is_canary:
        channels.put(replace(record, canary_percent=share))
    else:  # the version that had the channel before serves the rest
        if len(record.channels) > 1:
            raise _serves_in_full(record)
        channels.free_canary_seat(channel)
        other = channels.predecessor(record, channel)
        if other is None or other.state != "active":
            raise IllegalTransition(
                f"no active version had {channel} before, so nothing would serve the rest"
            )
        channels.put(replace(record, canary_percent=share))
        channels.assign_in_full(other, channel)
    return DeploymentCanaryAdjusted(
        agent_id=record.agent_id, version=record.version, from_percent=before, to_percent=share
    )


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


def _serves_in_full(record: Deployment) -> IllegalTransition:
    channels = ", ".join(record.channels)
    message = f"version {record.version} serves {channels} in full"
    return IllegalTransition(f"{message}: a canary can be on one channel only")


def _state_changed(before: Deployment, state: State) -> DeploymentStateChanged:
    return DeploymentStateChanged(
        agent_id=before.agent_id, version=before.version, from_state=before.state, to_state=state
    )


class Channels:
    """The versions of an agent by channel, with the changes of a transition.

    A channel has two seats: one for the version that serves it in full, one for a canary that
    serves a share. A paused version keeps its seat until another version takes it.
    """

    def __init__(self, records: Iterable[Deployment]) -> None:
        self._before = {record.version: record for record in records}
        self._records = dict(self._before)

    def get(self, version: str) -> Deployment | None:
        return self._records.get(version)

    def __getitem__(self, version: str) -> Deployment:
        return self._records[version]

    def put(self, record: Deployment) -> None:
        self._records[record.version] = record

    def changed(self) -> list[Deployment]:
        """The records that differ from those read."""
        kept = self._records.values()
        return [record for record in kept if self._before.get(record.version) != record]

    def seated(self, channel: str, *, is_canary: bool = False) -> Deployment | None:
        """The version that serves the channel in full, or the one that serves a share of it."""
        for record in self._records.values():
            is_seated = record.state in _SEATED and channel in record.channels
            if is_seated and record.is_canary is is_canary:
                return record
        return None

    def active_holder(self, channel: str) -> Deployment:
        """The active version that serves the rest beside a canary; raises if there is none."""
        holder = self.seated(channel)
        if holder is None or holder.state != "active":
            raise IllegalTransition(
                f"no active version serves {channel} in full, "
                "so nothing would serve the rest of the canary's traffic"
            )
        return holder

    def predecessor(self, record: Deployment, channel: str) -> Deployment | None:
        """The other version that served the channel in full most recently and still can."""
        able = [
            other
            for other in self._records.values()
            if other.version != record.version and channel in other.turns
            if other.state in _SEATED and not other.is_canary
        ]
        return max(able, key=lambda other: other.turns[channel], default=None)

    def assign(self, record: Deployment, channel: str, share: int | None) -> str | None:
        """Give a version a channel, or a share of it; gives the version it had, or shares with."""
        if share is None:
            if record.is_canary:
                raise IllegalTransition(
                    f"version {record.version} is the canary of {record.channels[0]}: "
                    "raise its share to 100 with adjust-canary first"
                )
            return self.assign_in_full(record, channel)
        if record.channels:
            raise _serves_in_full(record)
        holder = self.active_holder(channel)
        self.free_canary_seat(channel)
        self.put(replace(record, channels=(channel,), canary_percent=share))
        return holder.version

    def assign_in_full(self, record: Deployment, channel: str) -> str | None:
        """Give the channel to the version; returns the version that had it before."""
        before = self.seated(channel)
        if before is not None:
            self._leave(before, channel)
        turn = 1 + max(each.turns.get(channel, 0) for each in self._records.values())
        channels = (*(other for other in record.channels if other != channel), channel)
        turns = {**record.turns, channel: turn}
        self.put(replace(record, channels=channels, canary_percent=None, turns=turns))
        return before.version if before else None

    def free_canary_seat(self, channel: str) -> None:
        """Remove a paused canary to make room for another; an active one stays."""
        canary = self.seated(channel, is_canary=True)
        if canary is None:
            return
        if canary.state == "active":
            raise IllegalTransition(
                f"version {canary.version} is already the canary of {channel}: "
                "raise its share to 100 or roll it back first"
            )
        self._leave(canary, channel)

    def _leave(self, record: Deployment, channel: str) -> None:
        channels = tuple(other for other in record.channels if other != channel)
        self.put(replace(record, channels=channels, canary_percent=None))


def resolve(records: Sequence[Deployment], channel: str, draw: float) -> str:
    """The version that serves the channel; `draw`, in [0, 1), chooses between canary and rest.

    Called once per run, which records the version.
    """
    if channel == LATEST:
        serving = latest(records)
    else:
        channels = Channels(records)
        canary, serving = channels.seated(channel, is_canary=True), channels.seated(channel)
        if canary is not None and canary.state == "active":
            assert canary.canary_percent is not None
            if draw * FULL < canary.canary_percent:
                serving = canary
    if serving is None or serving.state != "active":
        raise NoActiveDeployment(f"no version is active on the channel {channel}")
    return serving.version
