"""The record of one version: its state and the channels it serves."""

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from evalwright.contracts.planning import AgentId
from evalwright.host.versions import version_key

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
