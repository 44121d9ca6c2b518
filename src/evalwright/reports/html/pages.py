"""The pages of the report as bytes: one for each case, the overview, and the parts of its table."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec
from minijinja import Environment, safe

from evalwright.reports.html.assets import (
    ASSETS,
    OVERVIEW_SCRIPT,
    case_policy,
    overview_policy,
)
from evalwright.reports.html.case import CaseView, case_context
from evalwright.reports.html.overview import (
    OverviewRow,
    OverviewView,
    overview_context,
    overview_row,
    safe_row,
)

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
    context = case_context(view)
    steps = context["steps"]
    if steps:  # they are most of the page: to take them through the template would double its cost
        context["steps"] = _STEPS_HERE
    page = _environment().render_template("case.html", csp=_CASE_POLICY, **context)
    return page.replace(_STEPS_HERE, steps, 1).encode()


def render_overview(view: OverviewView) -> bytes:
    """The first page of the report, with the first rows of its table."""
    context = overview_context(view)
    page = _environment().render_template(
        "overview.html", csp=overview_policy(), script=safe(OVERVIEW_SCRIPT), **context
    )
    return page.encode()


def render_rows_chunk(rows: Sequence[OverviewRow], number: int) -> bytes:
    """A part of the overview's table, as the script file that brings it; numbers begin with 1."""
    data = msgspec.json.encode([safe_row(row) for row in rows])
    data = data.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028")
    return b"evalwrightRows(%d,%s)\n" % (number, data.replace(b"\xe2\x80\xa9", b"\\u2029"))


_CASE_POLICY = case_policy()
_STEPS_HERE = "\0"  # what is shown never holds it: `visible` writes it out


@cache
def _environment() -> Environment:
    """The templates, compiled once in each process; every value is escaped."""
    folder = files("evalwright.reports.html") / "templates"
    return Environment(
        templates={each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
    )
