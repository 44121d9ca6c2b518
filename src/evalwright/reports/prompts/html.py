"""Records as one self-contained HTML page: a table, how scores spread, and every file in detail."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from minijinja import Environment, safe

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.html.assets import ASSETS
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import Overview
from evalwright.reports.prompts.html_page import page_values


def render_html(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The page; it needs no other file and no network, and works without its script."""
    overview = Overview(results)
    page = _environment().render_template(
        "report.html",
        csp=_policy(),
        style=safe(_style()),
        script=safe(_script()),
        **page_values(overview, context),
    )
    return page.encode("utf-8", "backslashreplace")


@cache
def _style() -> str:
    own = files("evalwright.reports.prompts") / "templates" / "report.css"
    return ASSETS["report.css"].decode() + own.read_text(encoding="utf-8")


@cache
def _script() -> str:
    own = files("evalwright.reports.prompts") / "templates" / "report.js"
    return own.read_text(encoding="utf-8")


@cache
def _policy() -> str:
    """The page may use its own style and its own script, and load nothing."""
    style, script = (
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        for each in (_style(), _script())
    )
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{style}'; script-src 'sha256-{script}'"
    )


@cache
def _environment() -> Environment:
    """The template, compiled once; every value is escaped."""
    template = files("evalwright.reports.prompts") / "templates" / "report.html"
    return Environment(
        templates={"report.html": template.read_text(encoding="utf-8")},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
    )
