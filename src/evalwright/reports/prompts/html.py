"""Records as one self-contained HTML page: a table, how scores spread, and every file in detail."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.design.markup import as_markup, content_policy, source_hash
from evalwright.reports.formats.html import STYLE_SHEET, Html, own_file, render
from evalwright.reports.formats.text import clipped
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import File, Overview
from evalwright.reports.prompts.html_page import file_values, page_values

_BINS = 20
_WIDTH = 100 / _BINS
_HEIGHT = 120  # pixels of the highest bar
_TOP = 16


def render_html(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The page; it needs no other file and no network, and works without its script."""
    own = _own_sources()
    overview = Overview(results)
    page = render(
        "prompts",
        "report.html",
        csp=content_policy(source_hash(own.style), source_hash(own.script)),
        style=as_markup(own.style),
        script=as_markup(own.script),
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
    return page.encode("utf-8", "backslashreplace")


def render_file(file: File, text: str | None) -> Html:
    """What was found out about one file, and its text with the findings in it."""
    values = file_values(file, 1, text, None, {})
    return render("prompts", "file.html", file=values, judges=len(file.groups) > 1)


class _PageSources(NamedTuple):
    style: Html
    script: Html


@cache
def _own_sources() -> _PageSources:
    """The style and the script that are part of the page."""
    style = Html(STYLE_SHEET + own_file("prompts", "templates/report.css"))
    return _PageSources(style, own_file("prompts", "templates/report.js"))


def distribution(scores: Sequence[float], threshold: float) -> dict[str, Any]:
    """Bars of five points each: what is below the threshold is drawn under what is not."""
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
