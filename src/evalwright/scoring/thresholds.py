"""The bars of a run: what it must reach, and a sentence for each that it missed."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from evalwright.contracts.messages import OptionText, phrase
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import SafetyFinding

DEFAULT_PASS_SCORE = 0.7
BLOCKING = frozenset(("high", "critical"))


class Cost(msgspec.Struct, frozen=True):
    """What a run cost: the known sum, and how many calls have no known price."""

    known_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0

    @property
    def total_usd(self) -> float | None:
        """The cost where it is known in full; no calls at all tell of no cost."""
        return self.known_usd if self.calls and not self.unpriced_calls else None

    def exceeds(self, budget_usd: float, unpriced_before: int | None = 0) -> bool:
        is_unknown = unpriced_before is not None and self.unpriced_calls > unpriced_before
        return is_unknown or self.known_usd > budget_usd

    def why_exceeded(self, budget_usd: float) -> OptionText:
        """Why nothing more may be spent, as a sentence."""
        if self.known_usd > budget_usd:
            spent, limit = in_digits(self.known_usd, budget_usd, 6)
            message = "${spent} was spent, and {@max_cost_usd} is ${limit}"
            return phrase(message, spent=spent, limit=limit)
        return phrase(
            "{unpriced} of {calls} model calls have no known price, so {@max_cost_usd} "
            "${limit:.6g} cannot be enforced; add prices to evalwright.toml",
            unpriced=self.unpriced_calls,
            calls=self.calls,
            limit=budget_usd,
        )


def pass_score(thresholds: Thresholds) -> float:
    """The bar of a rubric task: the declared one, else the default."""
    declared = thresholds.pass_score
    return DEFAULT_PASS_SCORE if declared is None else declared


def broken_bars(
    thresholds: Thresholds,
    cost: Cost,
    latencies_ms: Sequence[int],
    unmeasured: int = 0,
) -> list[str]:
    """Every bar on cost and time that was not met, as a sentence; `pass_bars` has the others.

    `unmeasured` is how many tasks have no latency: recordings of others may lack it.
    """
    reasons = []
    if thresholds.max_cost_usd is not None:
        reasons += _cost_over(thresholds.max_cost_usd, cost)
    limit = thresholds.max_p95_latency_ms
    if limit is not None and latencies_ms and p95(latencies_ms) > limit:
        reasons.append(f"p95 latency {p95(latencies_ms)} ms is above {limit} ms (maxP95LatencyMs)")
    if limit is not None and unmeasured:
        tasks = f"{unmeasured} of {unmeasured + len(latencies_ms)} tasks"
        reasons.append(
            f"latency is unknown: {tasks} have none, so maxP95LatencyMs {limit} cannot be shown to "
            "hold"
        )
    return reasons


def mean(scores: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The mean, exact in decimal, so that it does not depend on the order of the scores.

    Weights that are all 0 weigh the same.
    """
    total = decimal_sum(weights) if weights is not None else None
    if not total or weights is None:
        return float(decimal_sum(scores) / len(scores)) if scores else 0.0
    weighed = (
        Decimal(repr(score)) * Decimal(repr(weight))
        for score, weight in zip(scores, weights, strict=True)
    )
    return float(sum(weighed, Decimal(0)) / total)


def decimal_sum(values: Iterable[float]) -> Decimal:
    """The sum of the numbers as people read them: 0.1 + 0.2 is 0.3."""
    counted = Counter(values).items()  # most of many scores are 0 or 1
    return sum((Decimal(repr(value)) * count for value, count in counted), Decimal(0))


def finite(amount: Decimal) -> float:
    """The amount as a number that JSON can carry, however large it is."""
    return min(float(amount), sys.float_info.max)


def p95(latencies_ms: Sequence[int]) -> int:
    """The 95th percentile by nearest rank."""
    return sorted(latencies_ms)[math.ceil(0.95 * len(latencies_ms)) - 1]


def _cost_over(limit: float, cost: Cost) -> list[str]:
    reasons = []
    if cost.known_usd > limit:
        got, wanted = in_digits(cost.known_usd, limit, 6)
        reasons.append(f"cost ${got} is above ${wanted} (maxCostUsd)")
    if cost.unpriced_calls:
        reasons.append(
            f"cost is unknown: {cost.unpriced_calls} of {cost.calls} model calls have no known "
            f"price, so maxCostUsd ${limit:.6g} cannot be shown to hold"
        )
    return reasons


def in_digits(value: float, bar: float, digits: int) -> tuple[str, str]:
    """Both in a few digits, or in all of them where a few would make them look the same."""
    short = f"{value:.{digits}g}", f"{bar:.{digits}g}"
    return short if short[0] != short[1] else (repr(value), repr(bar))


def is_blocking(findings: Iterable[SafetyFinding]) -> bool:
    """Whether a task with these findings cannot pass, whatever its score."""
    return any(finding.severity in BLOCKING for finding in findings)
