"""Templates and what they need: all that they write is escaped, but for markup of our own.

A template escapes every value. Python writes no markup but the marks around words that differ; only
`as_markup` says of a text that it is markup already: a file of ours, or what a template wrote.
"""

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from minijinja import Environment, safe

from evalwright.reports.design.files import sprite, text
from evalwright.reports.formats.text import display_text
from evalwright.reports.formats.word_diff import Marked

DESIGN = "evalwright.reports.design"
# The pages of a report folder share a style sheet that lies beside them.
STYLE_BESIDE = "'self' file:"


def as_markup(markup: str) -> Any:
    """Markup as a value that a template does not escape again."""
    return safe(markup)


def marked(text: str | Marked, tag: str, tone: str = "") -> Any:
    """A text with the pieces in an element that differ; hidden characters are written out."""
    if isinstance(text, str):
        return as_markup(escape(display_text(text), quote=False))
    opening, closing = f'<{tag} class="{tone}">' if tone else f"<{tag}>", f"</{tag}>"
    pieces = [
        f"{opening}{escape(piece, quote=False)}{closing}" if differs else escape(piece, quote=False)
        for differs, piece in text
    ]
    return as_markup(display_text("".join(pieces)))


def render(package: str, template: str, **values: Any) -> str:
    """A template of a package of reports with its values, which it escapes."""
    return _environment(package).render_template(template, **values)


def render_file(package: str, template: str, *, script: str = "", **values: Any) -> bytes:
    """A page that is one file: style and script are in it, and nothing else may run.

    Hidden characters are written out in the finished page, since no markup of ours has any.
    """
    style = style_sheet()
    page = render(
        package,
        template,
        csp=content_policy(source_hash(style), source_hash(script) if script else ""),
        style=as_markup(style),
        script=as_markup(script),
        sprite=as_markup(sprite()),
        mark=as_markup(mark()),
        **values,
    )
    return display_text(page).encode("utf-8", "backslashreplace")


@cache
def mark() -> str:
    """The mark, for the head of a page that says whose it is."""
    said = 'role="img" aria-label="Evalwright"'
    return text("mark.svg").replace(said, 'width="22" height="22" aria-hidden="true"')


@cache
def style_sheet() -> str:
    """All tokens and parts."""
    return text("tokens.css") + text("parts.css")


@cache
def _environment(package: str) -> Environment:
    """The templates of a package of reports, compiled once in each process."""
    return templates_of(
        f"evalwright.reports.{package}", DESIGN, trim_blocks=True, lstrip_blocks=True
    )


def templates_of(*packages: str, **more: Any) -> Environment:
    """The templates of packages, which escape all values; `more` is for the environment."""
    pages = [
        each
        for package in packages
        for each in (files(package) / "templates").iterdir()
        if each.name.endswith(".html")
    ]
    filters = {
        "extent": lambda share: f"{100 * min(1.0, max(0.0, share)):.4g}%",
        "count": lambda number: f"{number:,}",
        "marked": marked,
        "href": lambda address: safe(escape(display_text(address))),
        **more.pop("filters", {}),
    }
    return Environment(
        templates={each.name: each.read_text(encoding="utf-8") for each in pages},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
        filters=filters,
        **more,
    )


def content_policy(style_src: str, script_src: str = "") -> str:
    """A content security policy that allows styles and scripts from where is said, no more."""
    scripts = f"; script-src {script_src}" if script_src else ""
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {style_src}{scripts}"


def source_hash(source: str) -> str:
    """How a content security policy names a style or a script that is part of the page."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
