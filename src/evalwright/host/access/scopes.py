"""Scopes: what a key can be allowed to do, and wildcards for several of them."""

from collections.abc import Iterable

from evalwright.contracts.errors import BadInput

SCOPES = {
    "agents:read": "list agents and read their descriptions",
    "agents:write": "register agents",
    "approvals:respond": "approve or reject promotions",
    "artifacts:read": "download the artifacts of runs",
    "audit:read": "read the audit log",
    "deploy:pause": "pause or deprecate a deployment",
    "deploy:promote": "promote an agent's version, or change its share of the traffic",
    "deploy:rollback": "roll a deployment back",
    "manifest:read": "read the capabilities for the holder of the key",
    "packs:publish": "install packs",
    "packs:yank": "withdraw packs",
    "packs:yank-revert": "restore withdrawn packs",
    "prompts:read": "read the results of prompts",
    "prompts:write": "push results of prompts, and remove prompts",
    "runs:annotate": "annotate runs and override scores",
    "runs:cancel": "cancel, pause and resume runs",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and differences",
    "suites:read": "read suites",
    "suites:write": "publish and delete suites",
    "webhooks:manage": (
        "register, list and remove webhooks; list, resend and discard their dead letters"
    ),
    "workspace:read": "read the workspace",
    "workspace:write": "change the workspace: delete runs that have ended",
}


def expand_scopes(asked: Iterable[str]) -> frozenset[str]:
    """The requested scopes; `deploy:*` means every scope that starts with `deploy:`."""
    return frozenset(scope for pattern in asked for scope in _matching(pattern))


def _matching(pattern: str) -> list[str]:
    family, separator, name = pattern.partition(":")
    if separator and name == "*":
        found = [scope for scope in SCOPES if scope.startswith(f"{family}:")]
    else:
        found = [pattern] if pattern in SCOPES else []
    if not found:
        families = sorted({scope.partition(":")[0] for scope in SCOPES})
        raise BadInput(
            f"no such scope: {pattern!r}; scopes are {', '.join(SCOPES)}, "
            f"and {', '.join(f'{family}:*' for family in families)} for all of a kind"
        )
    return found


# The scopes of a key without explicit ones: none of them affects what other keys see of an agent.
DEFAULT_SCOPES = expand_scopes(
    ["runs:*", "suites:*", "agents:*", "prompts:*", "manifest:read", "artifacts:read"]
)
