"""The versions of one agent: who is where on which channel, and what a transition changed.

A channel has two seats. One is of the version that takes it in full; the other is of a canary,
which takes a share. A paused version keeps its seat until another one takes it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from evalwright.host.deployments.record import FULL, LATEST, Deployment, latest
from evalwright.host.deployments.refusals import IllegalTransition, NoActiveDeployment

_SEATED = ("active", "paused")


class Channels:
    """The records of an agent, some of them changed."""

    def __init__(self, records: Iterable[Deployment]) -> None:
        self._before = {record.version: record for record in records}
        self._records = dict(self._before)

    def get(self, version: str) -> Deployment | None:
        """The record of a version, as it is by now."""
        return self._records.get(version)

    def __getitem__(self, version: str) -> Deployment:
        """The record of a version that has one."""
        return self._records[version]

    def put(self, record: Deployment) -> None:
        """Let this be the record of its version."""
        self._records[record.version] = record

    def changed(self) -> list[Deployment]:
        """The records that are not what they were."""
        return [
            record
            for version, record in self._records.items()
            if self._before.get(version) != record
        ]

    def holder(self, channel: str) -> Deployment | None:
        """The version that has the channel in full."""
        return self._seated(channel, is_canary=False)

    def canary(self, channel: str) -> Deployment | None:
        """The version that has a share of the channel."""
        return self._seated(channel, is_canary=True)

    def active_canary(self, record: Deployment) -> Deployment | None:
        """An active canary that leaves the rest of its channel to this version."""
        if record.is_canary:
            return None
        found = (self.canary(channel) for channel in record.channels)
        return next((canary for canary in found if canary and canary.state == "active"), None)

    def active_holder(self, channel: str) -> Deployment:
        """The version that serves what a canary of the channel leaves; there must be one."""
        holder = self.holder(channel)
        if holder is None or holder.state != "active":
            raise IllegalTransition(
                f"no active version has {channel} in full, "
                "so nobody would serve what a canary leaves"
            )
        return holder

    def free_canary_seat(self, channel: str) -> None:
        """Make room for another canary; one that is active does not give way."""
        canary = self.canary(channel)
        if canary is None:
            return
        if canary.state == "active":
            raise IllegalTransition(
                f"version {canary.version} is the canary of {channel}: "
                "raise its share to 100 or roll it back first"
            )
        self.leave(canary, channel)

    def predecessor(self, record: Deployment, channel: str) -> Deployment | None:
        """Of the others, the one that last had the channel in full and still could."""
        able = [
            other
            for other in self._records.values()
            if other.version != record.version and channel in other.turns
            if other.state in _SEATED and not other.is_canary
        ]
        return max(able, key=lambda other: other.turns[channel], default=None)

    def take_in_full(self, record: Deployment, channel: str) -> Deployment | None:
        """Give the version the channel; gives whom it was taken from."""
        before = self.holder(channel)
        if before is not None:
            self.leave(before, channel)
        turns = {**record.turns, channel: self._next_turn(channel)}
        channels = (*(other for other in record.channels if other != channel), channel)
        self.put(replace(record, channels=channels, canary_percent=None, turns=turns))
        return before

    def leave(self, record: Deployment, channel: str) -> None:
        """Take the channel from the version, whatever its share was."""
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
    """The version that serves the channel; `draw`, from 0 up to 1, chooses between two of them.

    It is called once for a run, which records the version and never asks again.
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
