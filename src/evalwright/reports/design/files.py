"""The files of the design system: pages of a host link to them, reports have them inside."""

import re
from functools import cache
from importlib.resources import files

_SYMBOL = re.compile(r'<symbol id="([^"]+)".*?</symbol>', re.DOTALL)


@cache
def text(name: str, package: str = "design") -> str:
    """A file of the design system, or of another package of reports."""
    place = files(f"evalwright.reports.{package}") / "static" / name
    return place.read_text(encoding="utf-8")


@cache
def symbols() -> dict[str, str]:
    """Each icon and shape by its id."""
    return {match[1]: match[0] for match in _SYMBOL.finditer(text("icons.svg"))}


@cache
def sprite(*names: str) -> str:
    """Icons and shapes for the head of a page, by their ids; all of them where none is named."""
    drawn = "".join(drawn for name, drawn in symbols().items() if name in names or not names)
    return f'<svg class="sprite" aria-hidden="true">{drawn}</svg>'


def token(name: str) -> str:
    """The value of a token in the light, for what has no style sheet."""
    found = re.search(rf"--{name}: light-dark\((#[0-9a-f]{{6}})", text("tokens.css"))
    assert found, f"there is no colour --{name}"
    return found[1]
