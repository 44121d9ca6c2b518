"""Does the folder on disk keep the promises of the contract? Checked last, file by file."""

import os
import re
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

import msgspec

from evalwright.contracts.report import QualityFlags

_MOST_LISTED = 1_000
_PLAIN = re.compile(r"(?:[a-z]+/)?[\w~-][\w.~-]*", re.ASCII)
_PLAIN_LINES = re.compile(rf"(?:{_PLAIN.pattern}\n)*+", re.ASCII)
_LINES_AT_ONCE = 1 << 16  # bytes


class Listed(msgspec.Struct):
    """Counts all that is wrong, and keeps the first of it."""

    count: int = 0
    first: list[str] = []

    def add(self, each: str) -> None:
        """Take one."""
        self.count += 1
        if self.count <= _MOST_LISTED:
            self.first.append(each)


def is_portable(path: str) -> bool:
    """Whether a path is relative, stays in its folder, and means the same on any machine."""
    return _is_portable(unquote(path))


def _is_portable(path: str) -> bool:
    if _PLAIN.fullmatch(path):  # as our own links are
        return True
    if not path or "\0" in path or "\\" in path or ":" in path.split("/", 1)[0]:
        return False
    return not (path.startswith("/") or ".." in path.split("/"))


def file_behind(folder: Path, href: str) -> Path | None:
    """The file in the folder that a browser opens for a portable link; None where there is none.

    In a link, what follows `#` or `?` is not part of the file's name unless it is escaped.
    """
    path = href.partition("#")[0].partition("?")[0]
    try:
        target = (folder / unquote(path)).resolve()
        return target if target.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, links in a circle
        return None


def check_quality(report: Path, hrefs: BinaryIO, missing: Listed, *, masked: bool) -> QualityFlags:
    """The flags of a report whose links are given, each once and on its own line.

    `missing` holds what could not be copied, and is added to.
    """
    violations = Listed()
    while lines := b"".join(hrefs.readlines(_LINES_AT_ONCE)).decode():
        plain = _PLAIN_LINES.fullmatch(lines) is not None  # as our own links are
        for href in lines.split("\n")[:-1]:
            path = href if plain else unquote(href)
            if not plain and not _is_portable(path):
                violations.add(href)
            elif not os.path.isfile(f"{report}/{path}"):  # noqa: PTH113 - many thousands
                missing.add(href)
    return QualityFlags(
        self_contained=not missing.count,
        portable_paths=not violations.count,
        missing_assets_count=missing.count,
        path_violations_count=violations.count,
        missing_assets=tuple(missing.first),
        path_violations=tuple(violations.first),
        secrets_masked=masked,
    )
