"""Records as one self-contained HTML page: a table, how scores spread, and every file in detail."""

from collections.abc import Sequence
from typing import Any

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.design.files import text as own_text
from evalwright.reports.design.markup import render, render_file
from evalwright.reports.formats.text import clipped, display_text
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import File, Overview
from evalwright.reports.prompts.html_page import file_values, page_values

_BINS = 20
_WIDTH = 100 / _BINS
_UNIT = 4  # of the drawing, for a percent
_HEIGHT = 70  # of the highest bar
_TOP = 14


def render_html(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The page; it needs no other file and no network, and works without its script."""
    overview = Overview(results)
    return render_file(
        "prompts",
        "report.html",
        script=own_text("report.js", "prompts"),
        charts=[
            {
                "judge": clipped(judge, 80),
                **distribution(
                    [each.score for each in overview.of_judge(judge) if each.score is not None],
                    context.threshold,
                ),
            }
            for judge in overview.judges
        ],
        **page_values(overview, context),
    )


def render_one(file: File, text: str | None) -> tuple[str, str]:
    """What judges said of one file, and its text with the findings in it, as markup."""
    values = {
        "file": file_values(file, 1, text, None, {}),
        "judges": len(file.groups) > 1,
        "is_large": False,
    }
    judged, lines = (
        display_text(render("prompts", name, **values))
        for name in ("prompt_judged.html", "prompt_text.html")
    )
    return judged, lines


def distribution(scores: Sequence[float], threshold: float) -> dict[str, Any]:
    """Bars of five points each: what is below the threshold is drawn under what is not."""
    below, above = [0] * _BINS, [0] * _BINS
    for score in scores:
        place = min(int(score / _WIDTH), _BINS - 1)
        (below if score < threshold else above)[place] += 1
    most = max([1, *(low + high for low, high in zip(below, above, strict=True))])
    unit = _HEIGHT / most
    return {
        "base": _TOP + _HEIGHT,
        "threshold": threshold * _UNIT,
        "bars": [
            bar for place in range(_BINS) for bar in _bars(place, below[place], above[place], unit)
        ],
        "counts": [
            (
                round((place + 0.5) * _WIDTH * _UNIT, 1),
                round(_TOP + _HEIGHT - total * unit - 4),
                total,
            )
            for place in range(_BINS)
            if (total := below[place] + above[place])
        ],
        "labels": [(label, label * _UNIT) for label in range(0, 101, 20)],
        "words": "; ".join(
            f"{place * _WIDTH:g} to {(place + 1) * _WIDTH:g}%: {below[place] + above[place]}"
            for place in range(_BINS)
            if below[place] + above[place]
        )
        or "no scores",
    }


def _bars(place: int, below: int, above: int, unit: float) -> list[tuple[str, float, float, float]]:
    """Rectangles: tone, left, top, height."""
    left, low, high = round((place * _WIDTH + 0.4) * _UNIT, 1), below * unit, above * unit
    found = [("fail", low, low), ("pass", low + high, high)]
    return [
        (tone, left, round(_TOP + _HEIGHT - top, 1), round(height, 1))
        for tone, top, height in found
        if height
    ]
