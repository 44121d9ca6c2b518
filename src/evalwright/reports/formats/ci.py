"""What continuous integration shows: the summary of a job, and notes at the lines of files."""

import contextlib
import hashlib
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from evalwright.contracts.documents import parse_document, read_input
from evalwright.contracts.errors import EvalwrightError
from evalwright.reports.forms import STEP_SUMMARY

_ANY = [{"contains": "any"}]  # of a file of rows, where only its lines matter
MOST_NOTES = 10  # GitHub shows no more of one step
_REPOSITORY = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
_IN_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = str.maketrans({**_IN_DATA, ord(":"): "%3A", ord(","): "%2C"})

Level = Literal["error", "warning", "notice"]
Severity = Literal["info", "minor", "major", "critical", "blocker"]


class NotedFile:
    """The file of a suite; its lines are looked for when one is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """Its path from the top of the repository, as far as that is known."""
        return _from_top(self._path)

    def place(self, task_id: str) -> tuple[str, int]:
        """The file and the line of a task: that of its row, if a data file made it."""
        if task_id in self._lines:
            return self.name, self._lines[task_id]
        if task_id in self._rows:
            file, line = self._rows[task_id]
            return _from_top(self._path.parent / file), line
        return self.name, self._lines.get("", 1)

    def link(self, task_id: str) -> str | None:
        """The address of the line on the code host, in its own jobs."""
        found = [os.environ.get(name) for name in _REPOSITORY]
        if not all(found):
            return None
        server, repository, commit = map(str, found)
        path, line = self.place(task_id)
        return f"{server}/{repository}/blob/{commit}/{quote(path)}#L{line}"

    @cached_property
    def _lines(self) -> dict[str, int]:
        from evalwright.engine.suites.problems import lines_of_tasks

        try:
            return {} if self._is_data else lines_of_tasks(read_input(str(self._path)))
        except EvalwrightError:  # it may be gone by now, and a line is not worth an error
            return {}

    @cached_property
    def _rows(self) -> dict[str, tuple[str, int]]:
        from evalwright.engine.suites.document import lines_of_rows

        document: Any = {"evalwright": 1, "data": [{"file": self._path.name, "checks": _ANY}]}
        try:
            if not self._is_data:
                document = parse_document(read_input(str(self._path)), str(self._path))
            return lines_of_rows(self._path, document)
        except EvalwrightError:
            return {}

    @property
    def _is_data(self) -> bool:
        from evalwright.engine.suites.loader import is_data_file

        return is_data_file(self._path.name)


def _from_top(path: Path) -> str:
    top = Path(os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or ".")
    whole, top = path.absolute(), top.absolute()
    return (whole.relative_to(top) if whole.is_relative_to(top) else path).as_posix()


class Note(NamedTuple):
    """Something to be said at a line of a file."""

    title: str
    message: str
    path: str | None = None
    line: int = 1
    level: Level = "error"


def append_step_summary(content: bytes) -> None:
    """Add to the job's summary, where there is one; if it cannot be written, nothing is lost."""
    place = os.environ.get(STEP_SUMMARY)
    if place:
        with contextlib.suppress(OSError), open(place, "ab", opener=_without_waiting) as file:
            file.write(content + b"\n")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; of a named pipe nobody may ever read."""
    if not Path(path).is_fifo():
        return os.open(path, flags, 0o666)
    pipe = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(pipe, True)
    return pipe


def workflow_command(note: Note) -> str:
    """A note as GitHub reads it from the output of a job."""
    place = {} if note.path is None else {"file": note.path, "line": str(note.line)}
    properties = ",".join(
        f"{name}={value.translate(_IN_PROPERTY)}"
        for name, value in {**place, "title": note.title}.items()
    )
    return f"::{note.level} {properties}::{note.message.translate(_IN_DATA)}"


def quality_issue(
    rule: str, message: str, path: str, line: int, severity: Severity, *identity: str
) -> dict[str, Any]:
    """An entry of a GitLab code quality report; the same `identity` is the same issue tomorrow."""
    digest = hashlib.sha256("\0".join((rule, path, *identity)).encode()).hexdigest()
    return {
        "description": message,
        "check_name": rule,
        "fingerprint": digest,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }


def quality_report(issues: list[dict[str, Any]]) -> bytes:
    """A GitLab code quality report."""
    return msgspec.json.format(msgspec.json.encode(issues), indent=2) + b"\n"
