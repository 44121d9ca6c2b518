"""Does the folder on disk keep its promises? Looked at last, file by file."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec

from evalwright.contracts.report import QualityFlags

_MOST_LISTED = 1_000


class Links(msgspec.Struct):
    """The links of an item; whatever else it holds is skipped."""

    artifacts: dict[str, str]

    def hrefs(self) -> Iterator[str]:
        """All links."""
        yield from self.artifacts.values()


def is_portable(path: str) -> bool:
    """Whether a path is relative, stays in its folder, and means the same on any machine."""
    told = unquote(path)
    if not told or "\0" in told or "\\" in told or ":" in told.split("/", 1)[0]:
        return False
    return not (told.startswith("/") or ".." in told.split("/"))


def file_behind(folder: Path, href: str) -> Path | None:
    """The file in the folder that a browser opens for a portable link; None where there is none.

    What follows `#` or `?` is no part of a file's name in a link, unless it is escaped.
    """
    told = href.partition("#")[0].partition("?")[0]
    try:
        target = (folder / unquote(told)).resolve()
        return target if target.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, links in a circle
        return None


def check_quality(
    report: Path, items: Iterable[bytes], unavailable: Iterable[str], *, masked: bool
) -> QualityFlags:
    """The flags of a report whose items are given as JSON, one by one."""
    missing = list(unavailable)
    violations: list[str] = []
    known: set[str] = set()  # links that many items share
    for item in items:
        for href in msgspec.json.decode(item, type=Links).hrefs():
            if href in known:
                continue
            if href.endswith("/run.json"):
                known.add(href)
            if not is_portable(href):
                violations.append(href)
            elif not os.path.isfile(f"{report}/{unquote(href)}"):  # noqa: PTH113 - many thousands
                missing.append(href)
    return QualityFlags(
        self_contained=not missing,
        portable_paths=not violations,
        missing_assets_count=len(missing),
        path_violations_count=len(violations),
        missing_assets=tuple(missing[:_MOST_LISTED]),
        path_violations=tuple(violations[:_MOST_LISTED]),
        secrets_masked=masked,
    )
