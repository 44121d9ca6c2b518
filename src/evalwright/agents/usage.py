"""Usage as agents report it: the fields of `provider.usage`, in Python's or the wire's spelling."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.jsonvalue import NotJson, plain

_ALIASES = {"costUsd": "costEstimateUsd"}
_DEFAULTS = {"provider": "unspecified", "model": "unspecified"}


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
