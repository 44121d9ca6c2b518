"""What a key may be allowed to do: the vocabulary of scopes, and wildcards for many of them."""

from collections.abc import Iterable

from evalwright.contracts.errors import BadInput

SCOPES = {
    "agents:read": "list agents and read what is told of them",
    "agents:write": "register agents",
    "approvals:respond": "approve or reject what waits for approval",
    "artifacts:read": "download what runs produced",
    "audit:read": "read the record of requests",
    "deploy:pause": "pause or deprecate a deployment",
    "deploy:promote": "promote an agent's version, or change its share of the traffic",
    "deploy:rollback": "roll a deployment back",
    "manifest:read": "read what the host can do for the holder of the key",
    "packs:publish": "install packs",
    "packs:yank": "withdraw packs",
    "packs:yank-revert": "bring withdrawn packs back",
    "runs:annotate": "annotate runs and override scores",
    "runs:cancel": "cancel, pause and resume runs",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and differences",
    "suites:read": "read suites",
    "suites:write": "publish suites",
    "webhooks:manage": "register, list and remove webhooks",
    "workspace:read": "read what belongs to the workspace",
    "workspace:write": "change what belongs to the workspace",
}


def expand_scopes(asked: Iterable[str]) -> frozenset[str]:
    """The scopes that are asked for; `deploy:*` asks for every scope that begins with `deploy:`."""
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
            f"there is no scope {pattern!r}; known are {', '.join(SCOPES)}, "
            f"and {', '.join(f'{family}:*' for family in families)} for all of a kind"
        )
    return found


# What a key may do if nothing else is said: nothing that changes what others see of an agent.
DEFAULT_SCOPES = expand_scopes(
    ["runs:*", "suites:*", "agents:*", "manifest:read", "artifacts:read"]
)
