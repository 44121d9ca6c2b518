"""Shares, money, time spans and scores as people read them: one form each, wherever they are shown.

Prompt reports write scores in percent as their specification has them: `prompts.results.percent`.
"""

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_FAINT = 1e-9  # what is nearer to all or none than this, is that
_LEAST = 0.000001  # dollars


def in_minutes(seconds: float) -> str:
    """A time that is estimated: 40 s, 2:05 min, 1:10 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"


def percent(part: float, whole: float = 1.0) -> str:
    """A share in percent with one decimal; neither all nor none unless it is."""
    if not whole:
        return NOTHING
    share = part / whole
    shown = f"{100 * share:.1f}%"
    if shown == "100.0%" and share < 1 - _FAINT:
        return ">99.9%"
    return "<0.1%" if shown == "0.0%" and share > _FAINT else shown


def share_interval(low: float, high: float) -> str:
    """The bounds of a share, in whole percent: an estimate is not more precise."""
    return f"{100 * low:.0f}\N{EN DASH}{100 * high:.0f}%"


def dollars(value: float, beside: float | None = None) -> str:
    """A price; small ones keep their digits, and a change those of the price `beside` it."""
    sign, size = MINUS if value < 0 else "", abs(value)
    if 0 < size < _LEAST:
        return f"{sign}<$0.000001"
    of = abs(size if beside is None else beside)
    digits = 2 if of >= 1 or not of else 4 if of >= 0.01 else 6
    whole, _, rest = f"{size:,.{digits}f}".partition(".")
    return f"{sign}${whole}.{rest[:2]}{rest[2:].rstrip('0')}"


def duration(ms: float, longest: float) -> str:
    """A duration in the unit that fits the longest of those beside it."""
    return f"{ms / 1000:,.2f} s" if longest >= 10_000 else f"{ms:,.0f} ms"


def span(ms: float) -> str:
    """How long something took, in units that people think in."""
    if ms < 1000:
        return duration(ms, ms)
    if ms < 59_950:
        return f"{ms / 1000:.3g} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def bar(value: float) -> str:
    """What a result is compared with, as it was given: rounded, it could read as another one."""
    return f"{value:.12g}"


def score(value: float) -> str:
    """A score from 0 to 1, with as many digits as tell two of them apart."""
    return f"{value:.4g}"
