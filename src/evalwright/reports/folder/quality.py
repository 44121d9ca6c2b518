"""Does the folder on disk keep its promises? Looked at last, file by file."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
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
    if not path or "\0" in path or "\\" in path or ":" in path.split("/", 1)[0]:
        return False
    pure = PurePosixPath(unquote(path))
    return not (pure.is_absolute() or PureWindowsPath(path).is_absolute() or ".." in pure.parts)


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
