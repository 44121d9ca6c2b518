"""Records as one self-contained HTML page: a table, how scores spread, and every file in detail."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from minijinja import safe

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.html.templating import STYLE_SHEET, content_policy, render, source_hash
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import Overview
from evalwright.reports.prompts.html_page import page_values


def render_html(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The page; it needs no other file and no network, and works without its script."""
    own = _own_sources()
    page = render(
        "prompts",
        "report.html",
        csp=content_policy(source_hash(own.style), source_hash(own.script)),
        style=safe(own.style),
        script=safe(own.script),
        **page_values(Overview(results), context),
    )
    return page.encode("utf-8", "backslashreplace")


class _PageSources(NamedTuple):
    style: str
    script: str


@cache
def _own_sources() -> _PageSources:
    """The style and the script that are part of the page."""
    folder = files("evalwright.reports.prompts") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    script = (folder / "report.js").read_text(encoding="utf-8")
    return _PageSources(STYLE_SHEET.decode() + style, script)
