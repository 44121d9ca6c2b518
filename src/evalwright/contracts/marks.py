"""The marks that stand where something was taken out; nothing else writes them.

`[masked:RULE]` stands where a rule found something, `[REDACTED:NAME]` for the value of a known
secret, as the protocol asks. What to call: `contracts.redaction.Redactor` before values are
stored, to take out secrets that are known by name; `signals.masking` before texts are shown, to
take out whatever looks sensitive.
"""

import re
from hashlib import sha256

_NOT_NEWLINE = re.compile(r"[^\r\n]")
MARK_START = b"[masked:"
UNREADABLE = "[masked: nested too deeply to be checked]"
MARK = re.compile(rb"\[masked:([a-z0-9-]{1,40})(?:#[0-9a-f]{6})?\]")


def masked(rule: str, value: bytes | None = None) -> str:
    """The mark of a rule; a value adds a fingerprint, so that equal values show as equal."""
    return (
        f"[masked:{rule}]" if value is None else f"[masked:{rule}#{sha256(value).hexdigest()[:6]}]"
    )


def dotted(text: str) -> str:
    """A dot for each character: where lines and columns have to stay as they are."""
    return _NOT_NEWLINE.sub("\N{BULLET}", text)


def redacted(name: str) -> str:
    """The mark of a secret that is known by name."""
    return f"[REDACTED:{name}]"
