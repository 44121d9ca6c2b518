"""What a model call cost, under the names that APIs and conventions give it."""

from collections.abc import Iterable
from typing import Any

from evalwright.trace.importers.values import number, whole_number
from evalwright.trace.model import Json

_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")
_COST = ("cost_usd", "cost")
_DURATION = ("duration_ms", "latency_ms")


def usage_of(holder: dict[str, Any]) -> dict[str, Json]:
    """The usage that a response or a record states."""
    inner = holder.get("usage")
    usage = inner if isinstance(inner, dict) else {}
    found = {
        "duration_ms": _first(holder, _DURATION),
        "input_tokens": whole_number(_first(usage, _INPUT)),
        "output_tokens": whole_number(_first(usage, _OUTPUT)),
        "cost_usd": _first(usage, _COST),
    }
    return {key: value for key, value in found.items() if value is not None}


def sum_usage(parts: Iterable[dict[str, Json]]) -> dict[str, Json]:
    """What several calls cost together."""
    total: dict[str, Json] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total


def _first(holder: dict[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((found for key in keys if (found := number(holder.get(key))) is not None), None)
