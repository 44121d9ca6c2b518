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


# By type, or by family where the name ends with a dot. A dot within a field name is a path.
_KEPT: dict[str, tuple[str, ...]] = {
    "run.started": ("workflowId",),
    "run.completed": ("outputs.evalSummary", "durationMs"),
    "run.failed": ("error.code", "failedNodeId", "durationMs"),
    "run.cancelled": ("durationMs",),
    "run.paused": (),
    "run.resumed": (),
    **{
        kind.TYPE: tuple(field.encode_name for field in msgspec.structs.fields(kind))
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
    return bool(content_free_patterns(pattern))


def content_free_patterns(pattern: str) -> list[tuple[str, bool]]:
    """The types that a pattern covers and that can be sent without content.

    Each with whether it is the beginning of types.
    """
    if not pattern.endswith("*"):
        return [(pattern, False)] if is_content_free(pattern) else []
    prefix = pattern.removesuffix("*")
    found = [(known, known.endswith(".")) for known in _KEPT if known.startswith(prefix)]
    return found or [
        (prefix, True) for known in _KEPT if known.endswith(".") and prefix.startswith(known)
    ]


def without_content(event: Event) -> Event | None:
    """The event with only the fields that cannot hold content; None if its type is not listed."""
    kept = _kept(event.type)
    if kept is None:
        return None
    payload, sent = event.payload(), dict[str, Any]()
    for path in kept if isinstance(payload, dict) else ():
        name, _, inner = path.partition(".")
        value = payload.get(name)
        if inner and isinstance(value, dict):
            sent[name] = {inner: value[inner]} if inner in value else {}
        elif name in payload and not inner:
            sent[name] = value
    return msgspec.structs.replace(event, body=msgspec.json.encode(sent))


def _kept(event_type: str) -> tuple[str, ...] | None:
    family = event_type.partition(".")[0] + "."
    return _KEPT.get(event_type, _KEPT.get(family))
