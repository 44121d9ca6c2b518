"""Figures in words: rates, changes, times, prices, and how sure a change is."""

from decimal import ROUND_DOWN, Decimal

from msgspec import UNSET, UnsetType

from evalwright.contracts.report import Delta, Significance
from evalwright.scoring.statistics import p_in_words

NOTHING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
_TENTH = Decimal("0.1")


def percent(part: float, whole: float) -> str:
    """A share, in percent with one decimal."""
    return f"{100 * part / whole:.1f} %" if whole else NOTHING


def agreed(share: float) -> str:
    """How far judges agreed, in percent, never rounded up: only all of it is 100 %."""
    percent = (Decimal(repr(share)) * 100).quantize(_TENTH, ROUND_DOWN)
    return f"{percent.normalize():f} %"


def duration(value: float, longest: float) -> str:
    """A duration in the unit that fits the longest of those beside it."""
    return f"{value / 1000:,.2f} s" if longest >= 10_000 else f"{value:,.0f} ms"


def span(ms: float) -> str:
    """How long something took, in units that people think in."""
    if ms < 60_000:
        return duration(ms, ms)
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def dollars(value: float, beside: float | None = None) -> str:
    """A price; small ones keep their digits, and a change those of the price `beside` it."""
    sign = _MINUS if value < 0 else ""
    size = abs(value if beside is None else beside)
    digits = 2 if size >= 1 or not size else 4 if size >= 0.01 else 6
    return f"{sign}${abs(value):,.{digits}f}"


def signed(text: str) -> str:
    """A change, with its sign."""
    return text if text.startswith(_MINUS) else f"+{text}"


def latency(delta: Delta | UnsetType) -> tuple[str, str, str] | None:
    """The latency of both sides and how it changed."""
    if delta is UNSET:
        return None
    longest = max(delta.baseline, delta.new)
    change = duration(delta.change, longest).replace("-", _MINUS)
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
    return signed(change) + share.replace("-", _MINUS).replace("%", " %")


def significance(found: Significance | UnsetType) -> str:
    """Whether the pass rate changed by more than chance, as a sentence."""
    if found is UNSET:
        return "There were no cases to compare."
    if not found.difference:
        same = f"The pass rate did not change: {percent(found.new_rate, 1)} on both sides"
        return f"{same} ({found.cases:,} cases)."
    low, high = found.confidence_interval
    verdict = "more than chance would explain" if found.significant else "which may be chance"
    return (
        f"The pass rate went from {percent(found.baseline_rate, 1)} to "
        f"{percent(found.new_rate, 1)} ({points(found.difference)}, interval {points(low)} to "
        f"{points(high)}): {verdict} ({p_in_words(found.p_value)}, {found.cases:,} cases; "
        f"{found.test})."
    )


def short_significance(found: Significance) -> str:
    """The same in one short line, for a console and for Markdown."""
    if not found.difference:
        return f"Pass rate {found.new_rate:.1%} on both sides."
    chance = "more than chance" if found.significant else "within chance"
    change = points_in_words(found.difference, found.confidence_interval)
    rates = f"{found.baseline_rate:.1%} → {found.new_rate:.1%}"
    return f"Pass rate {rates} ({change}, {p_in_words(found.p_value)}): {chance}."


def points_in_words(difference: float, interval: tuple[float, float] | None) -> str:
    """A difference of rates in plain text, with its interval where that is worth telling."""
    if interval is None:
        return f"{difference * 100:+.1f} points"
    low, high = interval
    bounds = f"95 % interval {low * 100:+.1f} to {high * 100:+.1f}"
    return f"{difference * 100:+.1f} points, {bounds}"


def points(difference: float) -> str:
    """A difference of rates, in percentage points."""
    return f"{100 * difference:+.1f} points".replace("-", _MINUS)
