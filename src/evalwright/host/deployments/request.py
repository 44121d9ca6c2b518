"""A requested transition of a deployment."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.planning import Text
from evalwright.host.deployments.record import Channel, Percent, State, Version

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


class Proof(msgspec.Struct, frozen=True):
    """The evidence for a promotion: an evaluation and an approval."""

    eval_run_id: str | None = None
    approval_gate_id: str | None = None
