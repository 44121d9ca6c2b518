"""Usage as agents report it, in the fields of `provider.usage`, and as libraries tell of it."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.jsonvalue import NotJson, plain
from evalwright.trace.importers.values import usage_of, whole_number

_ALIASES = {"costUsd": "costEstimateUsd"}
UNSPECIFIED = "unspecified"
_DEFAULTS = {"provider": UNSPECIFIED, "model": UNSPECIFIED}


def parse_usage(fields: Mapping[str, Any]) -> ProviderUsage:
    """Build the event payload; a field that does not fit raises `ValueError` and is named."""
    wire = {**_DEFAULTS}
    for name, value in fields.items():
        if value is not None:
            camel = re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)
            wire[_ALIASES.get(camel, camel)] = value
    try:
        return msgspec.convert(plain(wire), ProviderUsage)
    except (msgspec.ValidationError, NotJson) as error:
        raise ValueError(f"usage: {error}") from None


def usage_told(raw: Any, model: str | None = None, provider: str | None = None) -> Any:
    """The usage of a model call as a library writes it down; None where it counts no tokens."""
    if not isinstance(raw, Mapping):
        return None
    found = usage_of({"usage": dict(raw)})
    sent, answered = found.get("input_tokens"), found.get("output_tokens")
    if sent is None and answered is None:
        return None
    read, written = _cached(raw, "read"), _cached(raw, "write")
    if "cache_read_input_tokens" in raw:  # Anthropic counts them beside the others
        sent = (sent or 0) + read + written
    cost = found.get("cost_usd")
    try:
        return msgspec.convert(
            {
                "provider": provider or _DEFAULTS["provider"],
                "model": model or _DEFAULTS["model"],
                "inputTokens": sent or 0,
                "outputTokens": answered or 0,
                "costEstimateUsd": cost,
                "cacheReadTokens": read or None,
                "cacheWriteTokens": written or None,
            },
            ProviderUsage,
        )
    except msgspec.ValidationError:  # a count below zero and the like
        return None


def _cached(raw: Mapping[str, Any], sort: str) -> int:
    """The tokens of the input that came from a cache, or went there."""
    names = _CACHED[sort]
    holders = [raw, *(raw.get(name) for name in _DETAILS)]
    found = (
        whole_number(holder.get(name))
        for holder in holders
        if isinstance(holder, Mapping)
        for name in names
    )
    return next((count for count in found if count), 0)


_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_CACHED = {
    "read": ("cache_read_input_tokens", "cache_read_tokens", "cached_tokens", "cache_read"),
    "write": (
        "cache_creation_input_tokens",
        "cache_write_tokens",
        "cache_creation",
        "cache_write",
    ),
}
