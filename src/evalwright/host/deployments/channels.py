"""The versions of one agent: which serves on which channel, and what a transition changed.

A channel has two seats: one for the version that serves it in full, one for a canary that serves a
share. A paused version keeps its seat until another version takes it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from evalwright.host.deployments.record import FULL, LATEST, Deployment, latest
from evalwright.host.deployments.refusals import IllegalTransition, NoActiveDeployment

_SEATED = ("active", "paused")


class Channels:
    """The deployments of an agent by channel, with the changes of a transition."""

    def __init__(self, records: Iterable[Deployment]) -> None:
        self._before = {record.version: record for record in records}
        self._records = dict(self._before)

    def get(self, version: str) -> Deployment | None:
        """The current record of a version."""
        return self._records.get(version)

    def __getitem__(self, version: str) -> Deployment:
        """The current record of a version that must exist."""
        return self._records[version]

    def put(self, record: Deployment) -> None:
        """Replace the record of its version."""
        self._records[record.version] = record

    def changed(self) -> list[Deployment]:
        """The records that differ from those read."""
        return [
            record
            for version, record in self._records.items()
            if self._before.get(version) != record
        ]

    def holder(self, channel: str) -> Deployment | None:
        """The version that serves the channel in full."""
        return self._seated(channel, is_canary=False)

    def canary(self, channel: str) -> Deployment | None:
        """The version that serves a share of the channel."""
        return self._seated(channel, is_canary=True)

    def active_canary(self, record: Deployment) -> Deployment | None:
        """An active canary on a channel that this version otherwise serves."""
        if record.is_canary:
            return None
        found = (self.canary(channel) for channel in record.channels)
        return next((canary for canary in found if canary and canary.state == "active"), None)

    def active_holder(self, channel: str) -> Deployment:
        """The active version that serves the rest beside a canary; raises if there is none."""
        holder = self.holder(channel)
        if holder is None or holder.state != "active":
            raise IllegalTransition(
                f"no active version serves {channel} in full, "
                "so nothing would serve the rest of the canary's traffic"
            )
        return holder

    def free_canary_seat(self, channel: str) -> None:
        """Remove a paused canary to make room for another; an active one stays."""
        canary = self.canary(channel)
        if canary is None:
            return
        if canary.state == "active":
            raise IllegalTransition(
                f"version {canary.version} is already the canary of {channel}: "
                "raise its share to 100 or roll it back first"
            )
        self.leave(canary, channel)

    def predecessor(self, record: Deployment, channel: str) -> Deployment | None:
        """The other version that served the channel in full most recently and still can."""
        able = [
            other
            for other in self._records.values()
            if other.version != record.version and channel in other.turns
            if other.state in _SEATED and not other.is_canary
        ]
        return max(able, key=lambda other: other.turns[channel], default=None)

    def take_in_full(self, record: Deployment, channel: str) -> Deployment | None:
        """Give the channel to the version; returns the version that had it before."""
        before = self.holder(channel)
        if before is not None:
            self.leave(before, channel)
        turns = {**record.turns, channel: self._next_turn(channel)}
        channels = (*(other for other in record.channels if other != channel), channel)
        self.put(replace(record, channels=channels, canary_percent=None, turns=turns))
        return before

    def leave(self, record: Deployment, channel: str) -> None:
        """Take the channel from the version."""
        channels = tuple(other for other in record.channels if other != channel)
        self.put(replace(record, channels=channels, canary_percent=None))

    def _seated(self, channel: str, *, is_canary: bool) -> Deployment | None:
        found = (
            record
            for record in self._records.values()
            if record.state in _SEATED
            if channel in record.channels and record.is_canary is is_canary
        )
        return next(found, None)

    def _next_turn(self, channel: str) -> int:
        return 1 + max(record.turns.get(channel, 0) for record in self._records.values())


def resolve(records: Sequence[Deployment], channel: str, draw: float) -> str:
    """The version that serves the channel; `draw`, in [0, 1), chooses between canary and rest.

    Called once per run, which records the version.
    """
    found = latest(records) if channel == LATEST else _drawn(Channels(records), channel, draw)
    if found is None:
        raise NoActiveDeployment(f"no version is active on the channel {channel}")
    return found.version


def _drawn(channels: Channels, channel: str, draw: float) -> Deployment | None:
    canary, holder = channels.canary(channel), channels.holder(channel)
    if canary is not None and canary.state == "active":
        assert canary.canary_percent is not None
        if draw * FULL < canary.canary_percent:
            return canary
    return holder if holder is not None and holder.state == "active" else None
