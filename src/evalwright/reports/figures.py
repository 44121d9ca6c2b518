"""Changes in words: of rates, times and prices, and how sure a change is."""

from msgspec import UNSET, UnsetType

from evalwright.contracts.amounts import MINUS, dollars, duration, percent
from evalwright.contracts.report import Delta, Significance
from evalwright.scoring.statistics import p_in_words


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


def significance(found: Significance | UnsetType) -> str:
    """Whether the pass rate changed by more than chance, as a sentence; empty without a rate."""
    if found is UNSET:
        return ""
    if not found.difference:
        same = f"The pass rate did not change: {percent(found.new_rate)} on both sides"
        return f"{same} ({found.cases:,} cases)."
    low, high = found.confidence_interval
    verdict = "more than chance would explain" if found.significant else "which may be chance"
    return (
        f"The pass rate went from {percent(found.baseline_rate)} to "
        f"{percent(found.new_rate)} ({points(found.difference)}, interval {points(low)} to "
        f"{points(high)}): {verdict} ({p_in_words(found.p_value)}, {found.cases:,} cases; "
        f"{found.test})."
    )


def short_significance(found: Significance) -> str:
    """The same in one short line, for a console and for Markdown."""
    if not found.difference:
        return f"Pass rate {percent(found.new_rate)} on both sides."
    chance = "more than chance" if found.significant else "within chance"
    change = points_in_words(found.difference, found.confidence_interval)
    rates = f"{percent(found.baseline_rate)} → {percent(found.new_rate)}"
    return f"Pass rate {rates} ({change}, {p_in_words(found.p_value)}): {chance}."


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
