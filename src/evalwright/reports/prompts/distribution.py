"""How scores spread, as bars for inline SVG, with the same said in words."""

from collections.abc import Sequence
from typing import Any

_BINS = 20
_WIDTH = 100 / _BINS
_HEIGHT = 120  # pixels of the highest bar
_TOP = 16


def distribution(scores: Sequence[float], threshold: float) -> dict[str, Any]:
    """Bars of five points each: what is below the threshold stands under what is not."""
    below, above = [0] * _BINS, [0] * _BINS
    for score in scores:
        place = min(int(score / _WIDTH), _BINS - 1)
        (below if score < threshold else above)[place] += 1
    most = max([1, *(low + high for low, high in zip(below, above, strict=True))])
    return {
        "height": _TOP + _HEIGHT + 20,
        "base": _TOP + _HEIGHT,
        "threshold": f"{threshold:g}%",
        "bars": [
            bar
            for place in range(_BINS)
            for bar in _bars(place, below[place], above[place], _HEIGHT / most)
        ],
        "counts": [
            (
                f"{(place + 0.5) * _WIDTH:g}%",
                round(_TOP + _HEIGHT - total * _HEIGHT / most - 4),
                total,
            )
            for place in range(_BINS)
            if (total := below[place] + above[place])
        ],
        "labels": [f"{label}%" for label in range(10, 100, 10)],
        "words": "; ".join(
            f"{place * _WIDTH:g} to {(place + 1) * _WIDTH:g}%: {below[place] + above[place]}"
            for place in range(_BINS)
            if below[place] + above[place]
        )
        or "no scores",
    }


def _bars(place: int, below: int, above: int, unit: float) -> list[tuple[str, str, str, str, str]]:
    """Rectangles: tone, left, top, width, height."""
    left, width = f"{place * _WIDTH + 0.4:g}%", f"{_WIDTH - 0.8:g}%"
    low, high = below * unit, above * unit
    found = [("low", low, low), ("high", low + high, high)]
    return [
        (tone, left, f"{_TOP + _HEIGHT - top:.1f}", width, f"{height:.1f}")
        for tone, top, height in found
        if height
    ]
