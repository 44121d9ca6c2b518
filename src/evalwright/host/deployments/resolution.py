"""Which version a run gets that names a channel."""

from collections.abc import Sequence

from evalwright.host.deployments.channels import Roster
from evalwright.host.deployments.record import FULL, LATEST, Deployment, latest
from evalwright.host.deployments.refusals import NoActiveDeployment


def resolve(records: Sequence[Deployment], channel: str, draw: float) -> str:
    """The version that serves the channel; `draw`, from 0 up to 1, chooses between two of them.

    It is called once for a run, which records the version and never asks again.
    """
    found = latest(records) if channel == LATEST else _drawn(Roster(records), channel, draw)
    if found is None:
        raise NoActiveDeployment(f"no version is active on the channel {channel}")
    return found.version


def _drawn(roster: Roster, channel: str, draw: float) -> Deployment | None:
    canary, holder = roster.canary(channel), roster.holder(channel)
    if canary is not None and canary.state == "active":
        assert canary.canary_percent is not None
        if draw * FULL < canary.canary_percent:
            return canary
    return holder if holder is not None and holder.state == "active" else None
