"""What a webhook sends of an event by default: types and fields that cannot hold content.

A delivery leaves the host, so it is built from an allow list. Unless the tenant asked for content,
a type that is not listed is not delivered, and a field that is not listed is left out.
"""

from typing import Any

import msgspec

from evalwright.contracts.events import (
    EvalCompleted,
    EvalScored,
    EvalStarted,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Payload,
)

_DEPLOYMENT = (
    "agentId",
    "version",
    "fromVersion",
    "toVersion",
    "fromState",
    "toState",
    "fromPercent",
    "toPercent",
    "canaryPercent",
    "channel",
    "rollbackPointer",
    "evalRunId",
    "approvalGateId",
)


def _fields(kind: type[Payload]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


# By type, or by family where the name ends with a dot. A dot within a field name is a path.
_KEPT: dict[str, tuple[str, ...]] = {
    "run.started": ("workflowId",),
    "run.completed": ("outputs.evalSummary", "durationMs"),
    "run.failed": ("error.code", "failedNodeId", "durationMs"),
    "run.cancelled": ("durationMs",),
    "run.paused": (),
    "run.resumed": (),
    **{
        kind.TYPE: _fields(kind)
        for kind in (EvalStarted, EvalScored, EvalCompleted, InvocationStarted, InvocationCompleted)
    },
    "deployment.": _DEPLOYMENT,
    "approval.": ("gateId", "principal"),
}


def is_content_free(event_type: str) -> bool:
    """Whether events of a type can be sent without content."""
    return _kept(event_type) is not None


def has_content_free(pattern: str) -> bool:
    """Whether a pattern such as `eval.*` covers a type that can be sent without content."""
    if not pattern.endswith("*"):
        return is_content_free(pattern)
    prefix = pattern.removesuffix("*")
    return any(known.startswith(prefix) or _is_family_of(known, prefix) for known in _KEPT)


def without_content(event: Event) -> Event | None:
    """The event with only the fields that cannot hold content; None if its type is not listed."""
    kept = _kept(event.type)
    if kept is None:
        return None
    payload = event.payload()
    sent: dict[str, Any] = {}
    for path in kept:
        _copy(payload, sent, path.split("."))
    return msgspec.structs.replace(event, body=msgspec.json.encode(sent))


def _kept(event_type: str) -> tuple[str, ...] | None:
    family = event_type.partition(".")[0] + "."
    return _KEPT.get(event_type, _KEPT.get(family))


def _is_family_of(known: str, prefix: str) -> bool:
    return known.endswith(".") and prefix.startswith(known)


def _copy(source: Any, target: dict[str, Any], path: list[str]) -> None:
    """Copy one field, if present, with the objects on its path."""
    name, *rest = path
    if not isinstance(source, dict) or name not in source:
        return
    if not rest:
        target[name] = source[name]
    elif isinstance(source[name], dict):
        _copy(source[name], target.setdefault(name, {}), rest)
