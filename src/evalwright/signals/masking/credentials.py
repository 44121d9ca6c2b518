"""Masks also what is only shaped like a credential, for the answers and the logs of the host.

Keys that are made up for a test, and the host's own, break no provider's rule; so shapes count.
"""

import re
from typing import Any

from evalwright.contracts.marks import masked
from evalwright.signals.masking.text import mask_bytes, mask_text

CREDENTIAL = masked("credential")

_SHAPE = r"\b(?:(?:sk|pk|rk)-|ew_[a-z0-9]+_|AIza|cred_)[^\s\"'<>,;&\\]{8,}"
_IN_TEXT = re.compile(_SHAPE)
_IN_JSON = re.compile(_SHAPE.encode())


def mask_strictly(text: str) -> str:
    """A text without secrets, personal data and what is only shaped like a credential."""
    return _IN_TEXT.sub(CREDENTIAL, mask_text(text))


def mask_reason(reason: str | None) -> str | None:
    """The reason that somebody gives for a request, if there is one."""
    return None if reason is None else mask_strictly(reason)


def mask_json_strictly(document: bytes) -> bytes:
    """A JSON document, masked in the same way; it stays JSON."""
    return _IN_JSON.sub(CREDENTIAL.encode(), mask_bytes(document))


def mask_strings_strictly(value: Any) -> Any:
    """A JSON value with all its texts masked; numbers are left as they are."""
    if isinstance(value, str):
        return mask_strictly(value)
    if isinstance(value, dict):
        return {mask_strictly(key): mask_strings_strictly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_strings_strictly(item) for item in value]
    return value


# Logs are written much more often: no scan, only shapes.

_VALUE = r"[^\s\"'<>,;&]+"
_NAMES = r"authorization|api[-_]?key|access[-_]?key|token|secret|password|passwd|cookie|signature"
_CREDENTIAL = re.compile(
    rf"""
      (?i:\b(?:bearer|basic)\s+){_VALUE}          # what an Authorization header holds
    | ew_[^\s_]+_{_VALUE}                         # a key of this host
    | \b(?:sk|pk|rk)-[^\s\"'<>,;&]{{8,}}          # keys of providers
    | \bgh[pousr]_{_VALUE} | \bgithub_pat_{_VALUE}
    | \b(?:AKIA|ASIA)[0-9A-Z]{{12,}} | \bAIza{_VALUE} | \bxox[a-z]-{_VALUE}
    | \beyJ[\w-]+\.[\w-]+\.[\w-]*                 # a JSON Web Token
    | (?<=://)[^\s/@]+(?=@)                       # the user and password of an address
    | (?<=\w)\?[^\s\"'<>]+ | (?<=/)\?[^\s\"'<>]+  # the query of an address
    | (?i:\b\w*(?:{_NAMES})["']?\s*[:=]\s*(?:b?["'])?(?:bearer\s+|basic\s+)?){_VALUE}
    """,
    re.VERBOSE,
)


# Every credential contains one of these; searching for them is 20 times as fast.
_HINTS = (
    *("ew_", "bearer", "basic", "sk-", "pk-", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "akia", "asia", "aiza", "xox", "eyj", "@", "?"),
    *("authorization", "key", "token", "secret", "passw", "cookie", "signature"),
)


def mask_log_text(text: str) -> str:
    """A text for the log: without queries, and without what is shaped like a credential."""
    return _CREDENTIAL.sub(CREDENTIAL, text) if may_hold_credential(text) else text


def may_hold_credential(text: str) -> bool:
    """Whether a text contains a hint of a credential."""
    lowered = text.lower()
    return any(hint in lowered for hint in _HINTS)
