"""The templates of the report."""

from functools import cache
from importlib.resources import files
from typing import Any

from minijinja import Environment


def render(template: str, **values: Any) -> str:
    """A template with its values; every value is escaped."""
    return _environment().render_template(template, **values)


@cache
def _environment() -> Environment:
    """The templates, compiled once in each process."""
    folder = files("evalwright.reports.html") / "templates"
    return Environment(
        templates={each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
    )
