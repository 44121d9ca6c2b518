"""`max`: what an answer may cost, in money, time, turns and tokens."""

import math
from collections.abc import Iterable
from typing import Any

from evalwright.scoring.checks.base import (
    USAGE_NOT_OBSERVED,
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    calls_not_observed,
    cannot_tell,
    fields,
)

_LIMIT = {"type": "number", "minimum": 0}
_UNITS = {"cost_usd": "USD", "latency_ms": "ms", "turns": "turns", "tokens": "tokens"}
_UNREPORTED = frozenset({"cost_usd", "tokens"})  # nothing, where no usage was observed to be


class Max(AnswerCheck):
    """The answer takes at most this much: `cost_usd`, `latency_ms`, `turns`, `tokens`.
    All but the time must have been observed.
    """

    example = "max: {cost_usd: 0.02, latency_ms: 800}"
    schema = {**fields([], **dict.fromkeys(_UNITS, _LIMIT)), "minProperties": 1}
    cause = "limit_exceeded"

    limits: dict[str, float]

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        return cls(dict(argument))

    def evaluate(self, examined: Examined) -> CheckOutcome:
        limits = self.limits
        if unobserved := _unobserved(limits, examined):
            return cannot_tell(limits, unobserved)
        spent = {name: _spent(name, examined) for name in limits}
        # The price of a model that nobody knows is above every limit.
        unknown = [name for name, amount in spent.items() if amount in (None, math.inf)]
        if unknown:
            return cannot_tell(limits, f"{', '.join(unknown)} is not known")
        over = [name for name, most in limits.items() if (spent[name] or 0) > most]
        if not over:
            return CheckOutcome(True, 1.0, limits, spent)
        reason = "; ".join(
            f"{spent[name]:.12g} {_UNITS[name]}, at most {limits[name]:.12g} are allowed"
            for name in over
        )
        return CheckOutcome(False, 1 - len(over) / len(limits), limits, spent, reason)


def _unobserved(limits: Iterable[str], examined: Examined) -> str | None:
    """Why nobody can tell what was spent; turns are known by model calls, or by tool calls."""
    coverage = examined.coverage
    if coverage.usage is None and not _UNREPORTED.isdisjoint(limits):
        return USAGE_NOT_OBSERVED
    if "turns" in limits and examined.spent.turns is None and coverage.calls is None:
        return calls_not_observed(examined) if coverage.usage else USAGE_NOT_OBSERVED
    return None


def _spent(name: str, examined: Examined) -> float | None:
    amount: float | None = getattr(examined.spent, name)
    if amount is not None:
        return amount
    if name == "turns":  # each call of a tool is one, and the answer
        return len(examined.calls) + 1
    return 0 if name in _UNREPORTED else None
