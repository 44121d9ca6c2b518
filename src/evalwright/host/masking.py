"""Masks for what people write to the host, and for what it hands out to be passed on."""

import re
from typing import Any

from evalwright.signals.masking import mask_bytes, mask_text

MASK = "[masked:credential]"

# By shape alone: keys that are made up for a test, and this host's own, break no provider's rule.
_SHAPE = r"\b(?:(?:sk|pk|rk)-|ew_[a-z0-9]+_)[^\s\"'<>,;&\\]{8,}"
_IN_TEXT = re.compile(_SHAPE)
_IN_JSON = re.compile(_SHAPE.encode())


def masked_text(text: str) -> str:
    """A text without secrets, personal data and what is only shaped like a credential."""
    return _IN_TEXT.sub(MASK, mask_text(text))


def masked_reason(reason: str | None) -> str | None:
    """What somebody gives as the reason for a request, masked, if there is one."""
    return None if reason is None else masked_text(reason)


def masked_json(document: bytes) -> bytes:
    """A JSON document, masked in the same way; it stays JSON."""
    return _IN_JSON.sub(MASK.encode(), mask_bytes(document))


def masked_strings(value: Any) -> Any:
    """A JSON value with all its texts masked; numbers are left as they are."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {masked_text(key): masked_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked_strings(item) for item in value]
    return value
