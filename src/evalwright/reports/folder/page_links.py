"""The links in the pages of a report: what they need must be there, and nothing from outside."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from pathlib import Path

from evalwright.contracts.errors import Problem
from evalwright.reports.folder.quality import file_behind, is_portable

_LINK = re.compile(rb'<(a|link|script|img|iframe)\b[^>]*?\s(?:href|src)="([^"]{0,2000})"')
_MOST_READ = 64 << 20


def check_pages(folder: Path, pages: Iterable[str]) -> Iterator[Problem]:
    """What the pages refer to and the report does not hold; each missing file is named once."""
    known: set[str] = set()
    for page in pages:
        for element, href in _links(folder / page):
            target = href.partition("#")[0]
            if target in known or not target:
                continue
            known.add(target)
            problem = _problem(folder, element, target)
            if problem is not None:
                yield Problem(page, *problem)


def _links(page: Path) -> Iterator[tuple[str, str]]:
    try:
        with page.open("rb") as file:
            source = file.read(_MOST_READ)
    except OSError:  # that a page is missing is told elsewhere
        return
    for element, href in _LINK.findall(source):
        yield element.decode(), unescape(href.decode("utf-8", "replace"))


def _problem(folder: Path, element: str, target: str) -> tuple[str, str] | None:
    if not is_portable(target):
        if element == "a":  # a link that is followed by hand needs no network to read the page
            return None
        return f"needs {target!r}, which is not in the report", "copy it into assets/"
    if file_behind(folder, target) is None:
        return f"refers to {target!r}, which is not in the report", "copy it there"
    return None
