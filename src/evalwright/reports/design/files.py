"""The files of the design system: pages of a host link to them, reports have them inside."""

import re
from functools import cache
from importlib.resources import files

from evalwright.reports.formats.html import Html

TEMPLATES = "evalwright.reports.design"

_SYMBOL = re.compile(r'<symbol id="([^"]+)".*?</symbol>', re.DOTALL)
_USED = re.compile(r'href="#([isvd]-[a-z]+)"')


@cache
def text(name: str) -> Html:
    """A file of the design system: ours, so it is taken as it is."""
    content = (files(TEMPLATES) / "static" / name).read_text(encoding="utf-8")
    return Html(content)  # type: ignore[unescaped]


@cache
def symbols() -> dict[str, str]:
    """Each icon and shape by its id."""
    return {match[1]: match[0] for match in _SYMBOL.finditer(text("icons.svg"))}


def sprite(*pages: str) -> Html:
    """The icons that these pages use, for the head of a page; all of them without a page."""
    used = {name for page in pages for name in _USED.findall(page)}
    drawn = "".join(drawn for name, drawn in symbols().items() if name in used or not pages)
    return Html(f'<svg class="sprite" aria-hidden="true">{drawn}</svg>')  # type: ignore[unescaped]
