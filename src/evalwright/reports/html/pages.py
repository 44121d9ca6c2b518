"""The pages of the report as bytes: one for each case, the overview, and the parts of its table."""

from collections.abc import Sequence

import msgspec
from minijinja import safe

from evalwright.reports.html.assets import ASSETS, OVERVIEW_POLICY, OVERVIEW_SCRIPT
from evalwright.reports.html.case import CaseView, case_html
from evalwright.reports.html.overview import (
    OverviewRow,
    OverviewView,
    overview_context,
    overview_row,
    safe_row,
)
from evalwright.reports.html.templating import render

__all__ = [
    "ASSETS",
    "CaseView",
    "OverviewRow",
    "OverviewView",
    "overview_row",
    "render_case",
    "render_overview",
    "render_rows_chunk",
]


def render_case(view: CaseView) -> bytes:
    """The page of one case."""
    return case_html(view).encode()


def render_overview(view: OverviewView) -> bytes:
    """The first page of the report, with the first rows of its table."""
    context = overview_context(view)
    script = safe(OVERVIEW_SCRIPT)
    return render("html", "overview.html", csp=OVERVIEW_POLICY, script=script, **context).encode()


def render_rows_chunk(rows: Sequence[OverviewRow], number: int) -> bytes:
    """A part of the overview's table, as the script file that brings it; numbers begin with 1."""
    data = msgspec.json.encode([safe_row(row) for row in rows])
    data = data.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028")
    return b"evalwrightRows(%d,%s)\n" % (number, data.replace(b"\xe2\x80\xa9", b"\\u2029"))
