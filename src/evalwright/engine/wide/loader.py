"""Reading wide suites: from a file, or from a document that was sent to a host."""

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.planning import SuiteSource
from evalwright.contracts.schema import WIDE_OUTLINE, check_schema
from evalwright.contracts.suite import MAX_TASK_ID, Mode, Suite, Task, Thresholds
from evalwright.engine.wide.data import DataReading
from evalwright.engine.wide.ids import Ids, slug
from evalwright.engine.wide.lowering import (
    Problems,
    Recipe,
    TooManyProblems,
    tasks_of_entry,
)
from evalwright.engine.wide.places import placed
from evalwright.engine.wide.references import Missing, missing_function
from evalwright.engine.wide.templates import Templates

MODES: list[Mode] = ["golden", "rubric", "adversarial", "regression", "live-shadow"]
VERSION = "0.0.0"
_ELSEWHERE = ("http://", "https://", "cmd:")


class WideSuite(NamedTuple):
    """A wide suite as a run takes it, and what its reader should be told."""

    suite: Suite
    source: SuiteSource
    agent: str | None = None
    notices: tuple[str, ...] = ()


def wide_from(source: bytes, path: str | Path, document: Any) -> WideSuite:
    """A wide suite from its file; raises `InvalidDocument` with every problem and its line.

    Code and data are found from the folder of the file.
    """
    name = str(path)
    try:
        return load_wide(
            document,
            name=name,
            folder=Path(path).parent,
            allow_code=True,
            allow_files=True,
        )
    except InvalidDocument as error:
        raise InvalidDocument(name, placed(error.problems, source, document)) from None


def load_wide(
    document: Any,
    *,
    name: str = "suite",
    folder: Path | None = None,
    allow_code: bool = False,
    allow_files: bool = False,
) -> WideSuite:
    """A wide suite from a document; raises `InvalidDocument` with every problem.

    A host allows neither the user's own code nor files.
    """
    problems = check_schema(document, WIDE_OUTLINE)
    if problems:
        raise InvalidDocument(name, problems)
    reading = WideReading(
        document, folder or Path(), allow_code=allow_code, allow_files=allow_files
    )
    try:
        with without_collecting():
            tasks = list(reading.tasks())
    except TooManyProblems:
        tasks = []
    if reading.problems.found:
        raise InvalidDocument(name, reading.problems.found)
    suite = _suite(document, tasks, name)
    source = SuiteSource(folder=str(folder or ""), content_hash=content_hash(suite))
    agent = document.get("agent")
    found = agent and found_from(agent, folder or Path())
    return WideSuite(suite, source, found, tuple(reading.notices))


def content_hash(suite: Suite) -> str:
    """What tells a suite from another: a hash of its tasks, and of all else that is in it."""
    return f"sha256:{sha256(msgspec.json.encode(suite)).hexdigest()}"


def found_from(agent: str, folder: Path) -> str:
    """The reference of an agent that stands in a file, as it is from the working folder."""
    if agent.lower().startswith(_ELSEWHERE) or folder == Path():
        return agent
    source, colon, name = agent.rpartition(":")
    module = source.replace(".", "/") + ".py"
    if colon and not source.endswith(".py") and (folder / module).is_file():
        return f"{folder / module}:{name}"
    is_file = source.endswith(".py") or (folder / agent.partition("#")[0]).exists()
    return os.fspath(folder / agent) if is_file else agent


def _suite(document: dict[str, Any], tasks: list[Task], name: str) -> Suite:
    called = document.get("name") or Path(name).stem
    return Suite(
        suite_id=document.get("suiteId") or f"local.evals.{slug(called) or 'suite'}",
        version=document.get("version", VERSION),
        modes=document.get("modes", MODES),
        tasks=tasks,
        target_agent_id=document.get("targetAgentId"),
        allowed_models=document.get("allowedModels"),
        thresholds=msgspec.convert(document.get("thresholds", {}), Thresholds, strict=False),
    )


class WideReading:
    """One reading of a document: its tasks one by one, and every problem."""

    def __init__(
        self, document: dict[str, Any], folder: Path, *, allow_code: bool, allow_files: bool
    ) -> None:
        self.problems = Problems(self._missing_code)
        self._document = document
        self._folder = folder
        self._allow_code = allow_code
        self._allow_files = allow_files
        self._templates = Templates()
        self._ids = Ids(lambda index: f"$.tasks[{index}]")
        self.notices: list[str] = []

    def tasks(self) -> Iterator[Task]:
        """All tasks: those that stand in the document, then those of its data."""
        document = self._document
        if "agent" in document and not self._allow_code:
            self.problems.add("$.agent", "code is not run here", "leave it out")
        for index, entry in enumerate(document.get("tasks", [])):
            recipe = self._recipe(entry, f"$.tasks[{index}]")
            for task in tasks_of_entry(entry, document.get("vars", {}), recipe, self.problems):
                self._claim(task.task_id, index)
                yield task
        data = document.get("data", [])
        for index, entry in enumerate([data] if isinstance(data, str) else data):
            yield from self._rows({"file": entry} if isinstance(entry, str) else entry, index)

    def _missing_code(self, function: str) -> Missing | None:
        if self._allow_code:
            return missing_function(function, self._folder)
        return Missing("code is not run here", "use the other checks")

    def _recipe(self, entry: Mapping[str, Any], path: str) -> Recipe:
        defaults = self._document.get("defaults", {})
        return Recipe(entry, defaults, path, self._templates, self.problems)

    def _claim(self, task_id: str, index: int) -> None:
        earlier = self._ids.claim(task_id, index)
        if earlier is not None:
            message = f"the id {task_id!r} is already used by {earlier}"
            self.problems.add(f"$.tasks[{index}]", message, "give every task its own id")
        elif len(task_id) > MAX_TASK_ID:
            message = f"the id has {len(task_id)} characters; at most {MAX_TASK_ID} are allowed"
            self.problems.add(f"$.tasks[{index}]", message, "shorten it")

    def _rows(self, entry: dict[str, Any], index: int) -> Iterator[Task]:
        recipe = self._recipe(entry, f"$.data[{index}]")
        shared = self._document.get("vars", {})
        reading = DataReading(entry, recipe, shared, self.problems, self._ids)
        yield from reading.tasks(self._folder, allow_files=self._allow_files)
        self.notices += reading.notices
