"""Pages from templates, their content security policy, and the files that they are made with."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from minijinja import Environment, safe

from evalwright.reports.html.markup import Html


def render(package: str, template: str, **values: Any) -> Html:
    """A template of a package of reports with its values; all are escaped but `as_markup`."""
    page = _environment(package).render_template(template, **values)
    return Html(page)  # type: ignore[unescaped]


def as_markup(html: Html) -> object:
    """Markup as a value that a template does not escape again."""
    return safe(html)


def own_file(package: str, name: str) -> Html:
    """A file of a package of reports, such as a style sheet: ours, so it is taken as it is."""
    text = (files(f"evalwright.reports.{package}") / name).read_text(encoding="utf-8")
    return Html(text)  # type: ignore[unescaped]


@cache
def _environment(package: str) -> Environment:
    """The templates of a package, compiled once in each process."""
    found = (files(f"evalwright.reports.{package}") / "templates").iterdir()
    pages = [each for each in found if each.name.endswith(".html")]
    return Environment(
        templates={each.name: each.read_text(encoding="utf-8") for each in pages},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
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


STYLE_SHEET = own_file("html", "style.css")
