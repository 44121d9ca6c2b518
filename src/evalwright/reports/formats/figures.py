"""Changes in words: of rates, times and prices, and how sure a change is."""

import re
from typing import Any

from msgspec import UNSET, UnsetType

from evalwright.contracts.amounts import (
    MINUS,
    NOTHING,
    dollars,
    duration,
    percent,
    share_interval,
)
from evalwright.contracts.report import Delta, Significance
from evalwright.scoring.statistics import wilson

_NEGATIVE = re.compile(r"(?<=[ (])-(?=\d)")


def with_minus(text: str) -> str:
    """A text in which negative numbers have a true minus sign."""
    return _NEGATIVE.sub(MINUS, text)


def signed(text: str) -> str:
    """A change, with its sign."""
    return text if text.startswith(MINUS) else f"+{text}"


def latency(delta: Delta | UnsetType) -> tuple[str, str, str] | None:
    """The latency of both sides and how it changed."""
    if delta is UNSET:
        return None
    longest = max(delta.baseline, delta.new)
    change = duration(delta.change, longest).replace("-", MINUS)
    before, after = duration(delta.baseline, longest), duration(delta.new, longest)
    return before, after, _change(change, delta)


def cost(delta: Delta | UnsetType) -> tuple[str, str, str] | None:
    """The cost of both sides and how it changed."""
    if delta is UNSET:
        return None
    change = dollars(delta.change, delta.baseline or None)
    return dollars(delta.baseline), dollars(delta.new), _change(change, delta)


def _change(change: str, delta: Delta) -> str:
    if not delta.change:
        return "no change"
    share = f", {delta.change / delta.baseline:+.1%}" if delta.baseline else ""
    return signed(change) + share.replace("-", MINUS)


def pass_rates(found: Significance) -> str:
    """Beside the sentence on a change: the pass rates of both sides, and the interval."""
    if not found.difference:
        return f"Pass rate {percent(found.new_rate)} on both sides."
    change = points_in_words(found.difference, found.confidence_interval)
    return f"Pass rate {percent(found.baseline_rate)} → {percent(found.new_rate)} ({change})."


def points_in_words(difference: float, interval: tuple[float, float] | None) -> str:
    """A difference of rates in plain text, with its interval where that is worth telling."""
    if interval is None:
        return f"{difference * 100:+.1f} points"
    low, high = interval
    bounds = f"95% interval {low * 100:+.1f} to {high * 100:+.1f}"
    return f"{difference * 100:+.1f} points, {bounds}"


def points(difference: float) -> str:
    """A difference of rates, in percentage points."""
    return f"{100 * difference:+.1f} points".replace("-", MINUS)


def rate_gauge(passed: int, tasks: int, bar: float | None) -> dict[str, Any]:
    """A pass rate with its interval and its bar, as pages draw it."""
    rate = passed / tasks if tasks else 0.0
    low, high = wilson(passed, tasks) if tasks else (0.0, 1.0)
    share = percent(passed, tasks) if tasks else NOTHING
    aim = "" if bar is None else f", bar {percent(bar)}"
    is_met = rate >= bar if bar is not None else passed == tasks
    return {
        "figure": share.removesuffix("%"),
        "share": rate,
        "low": low,
        "high": high,
        "bar": bar,
        "tone": "pass" if is_met else "warn" if bar is None else "fail",
        "words": f"{share}, interval {share_interval(low, high)}{aim}",
    }


def change_scale(difference: float, interval: tuple[float, float]) -> dict[str, Any]:
    """A change of the pass rate with its interval on a scale around "no change", as a chart."""
    low, high = interval
    widest = max(0.1, abs(low), abs(high), abs(difference))

    def at(share: float) -> float:
        return 160 + 140 * share / widest

    return {
        "words": points(difference),
        "interval": f"{100 * low:+.1f} to {100 * high:+.1f}, paired".replace("-", MINUS),
        "tone": "down" if high < 0 else "up" if low > 0 else "",
        "low": round(at(low), 1),
        "width": round(at(high) - at(low), 1),
        "at": round(at(difference), 1),
        "edge": f"{100 * widest:.0f}",
    }
