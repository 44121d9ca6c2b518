"""The record of one version: how far it has come, and what it serves."""

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
    """What is told of a version; `latest` is among the channels of the one that it stands for."""

    agent_id: AgentId
    version: Version
    state: State
    canary_percent: Percent | None = None
    rollback_pointer: Version | None = None
    channels: tuple[Channel, ...] = ()
    eval_run_id: str | None = None
    approval_gate_id: str | None = None


class Deployment(AgentDeployment, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A version as it is kept: also when it last took each channel in full, counted in turns.

    `canary_percent` is that of a version that shares its one channel with another; a version
    without it takes all of the traffic that canaries leave.
    """

    turns: dict[Channel, int] = {}

    @property
    def is_canary(self) -> bool:
        """Whether the version takes a share of its channel only."""
        return self.canary_percent is not None

    def told(self, *, is_latest: bool) -> AgentDeployment:
        """What others may know of it."""
        fields = {name: getattr(self, name) for name in AgentDeployment.__struct_fields__}
        channels = (*self.channels, LATEST) if is_latest else self.channels
        return AgentDeployment(**fields | {"channels": channels})


def latest(records: Iterable[Deployment]) -> Deployment | None:
    """The highest version that is active."""
    active = (record for record in records if record.state == "active")
    return max(active, key=lambda record: version_key(record.version), default=None)


def tell(records: Iterable[Deployment]) -> list[AgentDeployment]:
    """The records of an agent as others see them, lowest version first."""
    kept = sorted(records, key=lambda record: version_key(record.version))
    highest = latest(kept)
    return [record.told(is_latest=record is highest) for record in kept]
