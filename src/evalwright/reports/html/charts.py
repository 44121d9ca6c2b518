"""Bar charts for inline SVG: both sides of a few counts, with the same said in words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

_LABELS = 42  # percent of the width
_BARS = 46
_ROW = 34  # pixels


class Bar(NamedTuple):
    """A count on both sides."""

    label: str
    baseline: int
    new: int


def chart(name: str, title: str, bars: Sequence[Bar]) -> dict[str, Any]:
    """Places in percent and pixels: the chart fits any width, and its text keeps its size."""
    most = max([1, *(max(bar.baseline, bar.new) for bar in bars)])
    return {
        "name": name,
        "title": title,
        "height": _ROW * len(bars) + 4,
        "left": f"{_LABELS}%",
        "rows": [_row(place, bar, most) for place, bar in enumerate(bars)],
        "words": "; ".join(f"{bar.label}: baseline {bar.baseline}, new {bar.new}" for bar in bars)
        or "none",
    }


def _row(place: int, bar: Bar, most: int) -> tuple[str, int, list[tuple[str, int, str, str, int]]]:
    top = place * _ROW
    sides = [("old", top + 3, bar.baseline), ("new", top + 16, bar.new)]
    widths = [(side, y, _BARS * count / most, count) for side, y, count in sides]
    return (
        bar.label,
        top + 19,
        [(side, y, f"{w:.2f}%", f"{_LABELS + w:.2f}%", count) for side, y, w, count in widths],
    )
