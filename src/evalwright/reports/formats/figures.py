"""Changes in words: of rates, times and prices, and how sure a change is."""

from msgspec import UNSET, UnsetType

from evalwright.contracts.amounts import MINUS, dollars, duration, percent
from evalwright.contracts.report import Delta, Significance


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
