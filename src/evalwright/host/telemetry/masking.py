"""Masks what looks like a credential or the query of a URL before it is logged."""

import re

MASK = "[REDACTED]"

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


def masked(text: str) -> str:
    """The text with everything that looks like a credential masked."""
    return _CREDENTIAL.sub(MASK, text) if may_hold_credential(text) else text


def may_hold_credential(text: str) -> bool:
    """Whether a text contains a hint of a credential."""
    lowered = text.lower()
    return any(hint in lowered for hint in _HINTS)
