"""Suites in folders: which of the files there are suites."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.agents.load import ARCHIVES
from evalwright.contracts.errors import BadInput

_SUFFIXES = (".yaml", ".yml", ".json")
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_BEGINNING = 1 << 20
_WIDE = re.compile(rb"^[\"']?evalwright[\"']?[ \t]*:[ \t]*1[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_PORTABLE = re.compile(rb"^[\"']?(suiteId|tasks)[\"']?[ \t]*:", re.MULTILINE)
_NOT_A_SUITE = frozenset({"aggregateScore", "passedCount", "suiteVersion"})  # a summary


class FoundSuites(NamedTuple):
    """The suites that were named or found, and how many files in folders are none."""

    paths: list[Path]
    passed_over: int


def find_suites(named: Iterable[Path]) -> FoundSuites:
    """Files as they are named; of folders, the suites in them, by path.

    Raises `BadInput` for a folder without any.
    """
    paths: dict[Path, None] = {}
    passed_over = 0
    for path in named:
        if not path.is_dir():
            paths[path] = None
            continue
        files = sorted(_files(path))
        found = [file for file in files if _is_suite(file)]
        if not found:
            raise BadInput(
                f"{path}: no suite among its {len(files)} files; a suite has `evalwright: 1` at "
                "its top, or `suiteId` and `tasks`"
            )
        passed_over += len(files) - len(found)
        paths.update(dict.fromkeys(found))
    return FoundSuites(list(paths), passed_over)


def _files(folder: Path) -> Iterator[Path]:
    """Every file below a folder that is not hidden, nor in a hidden folder or one of libraries."""
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS
        ]
        yield from (Path(place, name) for name in files if not name.startswith("."))


def _is_suite(path: Path) -> bool:
    """By its content; a suite with mistakes is one, so that they are told."""
    if not path.name.lower().endswith(_SUFFIXES) or path.name.lower().endswith(ARCHIVES):
        return False
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        return False
    if beginning.lstrip()[:1] == b"{":
        return _is_suite_object(path, beginning)
    return bool(_WIDE.search(beginning)) or len(set(_PORTABLE.findall(beginning))) == 2


def _is_suite_object(path: Path, beginning: bytes) -> bool:
    if b'"evalwright"' not in beginning and b'"suiteId"' not in beginning:
        return False
    try:
        members = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    is_wide = bytes(members.get("evalwright", msgspec.Raw(b""))).strip() == b"1"
    return is_wide or ({"suiteId", "tasks"} <= members.keys() and _NOT_A_SUITE.isdisjoint(members))
