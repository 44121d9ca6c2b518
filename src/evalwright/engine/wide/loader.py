"""Reading wide suites: from a file, or from a document that was sent to a host."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.planning import SuiteSource
from evalwright.contracts.schema import WIDE_OUTLINE, check_schema
from evalwright.contracts.suite import MAX_TASK_ID, Mode, Suite, Task, Thresholds
from evalwright.engine.wide.data import DataReading
from evalwright.engine.wide.ids import Ids, slug
from evalwright.engine.wide.lowering import (
    Problems,
    Recipe,
    Shared,
    TooManyProblems,
    tasks_of_entry,
)
from evalwright.engine.wide.places import placed
from evalwright.engine.wide.references import Missing, missing_function
from evalwright.engine.wide.templates import RenderBudget, Templates, too_large

MODES: list[Mode] = ["golden", "rubric", "adversarial", "regression", "live-shadow"]
VERSION = "0.0.0"
MOST_READ = 512 << 20  # bytes of tasks
MOST_SENT = 64 << 20  # bytes of tasks, where no files are read
MOST_RENDERED = 100_000  # templates, there
RENDER_SECONDS = 10.0  # of CPU, there
_ENTRY = re.compile(r"\$\.(tasks|data)\[(\d+)\]")
_NO_TASKS = Problem(
    "$",
    "there are no tasks",
    "add some to `tasks` or `data`; by `defaults` alone `evalwright score` scores recorded traces",
)
_ROW_PLACE = re.compile(r"([^$].*), (line|row) (\d+)", re.DOTALL)
_ELSEWHERE = ("http://", "https://", "cmd:")


class WideSuite(NamedTuple):
    """A wide suite as a run takes it, and what its reader should be told."""

    suite: Suite
    source: SuiteSource
    agent: str | None = None
    notices: tuple[str, ...] = ()
    claims: Claims = NO_CLAIMS


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
    functions: Collection[str] = (),
) -> WideSuite:
    """A wide suite from a document; raises `InvalidDocument` with every problem.

    A host allows neither the user's own code nor files. `functions` are own checks that need not
    be looked for.
    """
    reading = read_document(
        document,
        name,
        folder,
        allow_code=allow_code,
        allow_files=allow_files,
        functions=functions,
    )
    with without_collecting():
        tasks = list(reading.sound_tasks())
    if reading.problems.found:
        raise InvalidDocument(name, reading.problems.found)
    suite = _suite(document, tasks, name)
    source = SuiteSource(folder=str(folder or ""), content_hash=content_hash(suite))
    agent, claims = agent_and_claims(document.get("agent"))
    found = agent and found_from(agent, folder or Path())
    return WideSuite(suite, source, found, tuple(reading.notices), claims)


def read_document(
    document: Any,
    name: str,
    folder: Path | None,
    *,
    allow_code: bool,
    allow_files: bool,
    functions: Collection[str] = (),
) -> "WideReading":
    """A reading of a document that has the form of a wide suite; raises `InvalidDocument`."""
    if isinstance(document, dict) and "data" in document:
        document = {**document, "data": _entries(document["data"])}
    problems = [_said(each, document) for each in check_schema(document, WIDE_OUTLINE)]
    reading = partial(WideReading, document, folder or Path(), allow_code, allow_files, functions)
    if problems:
        broken = _broken_entries(problems, document)
        more = [] if broken is None else reading(broken).all_problems()
        raise InvalidDocument(name, problems + more)
    return reading()


def _broken_entries(problems: list[Problem], document: Any) -> set[str] | None:
    """The tasks and data that are not of the form; None where more than these are not."""
    broken = set()
    for problem in problems if isinstance(document, dict) else ():
        entry = _ENTRY.match(problem.path)
        if entry is None and problem.path != "$":
            return None
        if entry is None:
            continue
        is_own = problem.path == entry[0]  # not of something in it
        if not (is_own and _has_checks_beside(problem, document[entry[1]][int(entry[2])])):
            broken.add(entry[0])
    return broken if isinstance(document, dict) else None


def _has_checks_beside(problem: Problem, entry: Any) -> bool:
    """Whether the problem is a field too many, and checks can be looked at as well."""
    return problem.message.startswith("Additional") and "checks" in entry and "input" in entry


def _said(problem: Problem, document: Any) -> Problem:
    """A problem, in words if it is just that there are no tasks."""
    lacks_tasks = isinstance(document, dict) and document.keys().isdisjoint(("tasks", "data"))
    is_that = lacks_tasks and problem.path == "$" and "anyOf" in problem.message
    return _NO_TASKS if is_that else problem


def _entries(data: Any) -> Any:
    """The entries of `data`, of which each may be only the name of a file."""
    listed = data if isinstance(data, list) else [data]
    return [{"file": each} if isinstance(each, str) else each for each in listed]


def wide_problems(
    document: Any, source: bytes, path: str | Path, seen: Callable[[Task], None] | None = None
) -> list[Problem]:
    """Every problem of a wide suite by line.

    Its tasks are looked at one by one, by `seen` as long as there is no problem, and not kept.
    """
    try:
        reading = read_document(
            document, str(path), Path(path).parent, allow_code=True, allow_files=True
        )
    except InvalidDocument as error:
        return placed(error.problems, source, document)
    for task in reading.sound_tasks():
        if seen is not None and not reading.problems.found:
            seen(task)
    return placed(reading.problems.found, source, document)


def content_hash(suite: Suite) -> str:
    """What tells a suite from another: a hash of its tasks, and of all else that is in it."""
    return f"sha256:{sha256(msgspec.json.encode(suite)).hexdigest()}"


def lines_of_rows(path: Path, document: Any) -> dict[str, tuple[str, int]]:
    """The file and the line of each task that a row of a data file made, by its id."""
    reading = read_document(document, str(path), path.parent, allow_code=True, allow_files=True)
    found = {}
    for task_id, place in reading.places():
        if (told := _ROW_PLACE.fullmatch(place)) is not None:
            found[task_id] = told[1], int(told[3]) if told[2] == "line" else 1
    return found


def agent_and_claims(given: Any) -> tuple[str | None, Claims]:
    """The reference of a suite's `agent`, and what the suite claims of it."""
    if not isinstance(given, dict):
        return given, NO_CLAIMS
    return given["ref"], Claims(given.get("tools"), given.get("usage"), given.get("isolate", False))


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
        self,
        document: dict[str, Any],
        folder: Path,
        allow_code: bool,  # noqa: FBT001 - of `read_document`, which names it
        allow_files: bool,  # noqa: FBT001
        functions: Collection[str] = (),  # own checks that are at hand
        broken: Collection[str] = (),  # paths of entries that are passed over
    ) -> None:
        self.problems = Problems(self._missing_code)
        self._broken = broken
        self._document = document
        self._folder = folder
        self._allow_code = allow_code
        self._allow_files = allow_files
        self._ids = Ids(lambda index: f"$.tasks[{index}]")
        self._functions = functions
        self.notices: list[str] = []

    def sound_tasks(self) -> Iterator[Task]:
        """All tasks, as long as there is any use in looking for more problems."""
        made, has_weight, count = self._bounded_tasks(), False, 0
        empty = dict.fromkeys(self._document.get("thresholds", {}).get("tags", {}))
        try:
            for task in made:
                has_weight, count = has_weight or task.weight > 0, count + 1
                for tag in task.tags if empty else ():
                    empty.pop(tag, None)
                yield task
            for tag in empty:
                message = f"no task has the tag {tag!r}, so its bar would mean nothing"
                remedy = "give the tag to tasks, or leave out the bar"
                self.problems.add(f"$.thresholds.tags.{tag}", message, remedy)
            if not count and not self.problems.found:
                self.problems.add("$", "there are no tasks", "add some to `tasks` or `data`")
            if count and not has_weight:
                message = "the weights sum to 0, so there is no score"
                self.problems.add("$.tasks", message, "raise one")
        except TooManyProblems:
            return

    def places(self) -> Iterator[tuple[str, str]]:
        """The id of each task, and where it stands."""
        with suppress(TooManyProblems):
            for task in self._bounded_tasks():
                yield task.task_id, self._ids.last_place

    def all_problems(self) -> list[Problem]:
        """Every problem of entries that are not broken."""
        with suppress(TooManyProblems):
            for _ in self._bounded_tasks():
                pass
        return self.problems.found

    def _bounded_tasks(self) -> Iterator[Task]:
        """All tasks, up to a number of bytes: a short document may stand for very many."""
        most = MOST_READ if self._allow_files else MOST_SENT
        size, encode = 0, msgspec.json.Encoder().encode
        for task in self.tasks():
            size += len(encode(task))
            if size > most:
                bad = too_large(most)
                message = f"{bad.message}, with task {task.task_id!r}"
                self.problems.add("$", message, bad.remedy)
                return
            yield task

    def tasks(self) -> Iterator[Task]:
        """All tasks: those that stand in the document, then those of its data."""
        document = self._document
        if "agent" in document and not self._allow_code:
            self.problems.add("$.agent", "code is not run here", "leave it out")
        for index, entry in self._entries("tasks"):
            recipe = Recipe(entry, f"$.tasks[{index}]", self._shared)
            for task in tasks_of_entry(entry, document.get("vars", {}), recipe, self.problems):
                self._claim(task.task_id, index)
                yield task
        for index, entry in self._entries("data"):
            yield from self._rows(entry, index)

    def _entries(self, name: str) -> Iterable[tuple[int, dict[str, Any]]]:
        numbered = enumerate(self._document.get(name, []))
        if not self._broken:
            return numbered
        return [each for each in numbered if f"$.{name}[{each[0]}]" not in self._broken]

    def _missing_code(self, function: str) -> Missing | None:
        if function in self._functions:
            return None
        if self._allow_code:
            return missing_function(function, self._folder)
        return Missing("code is not run here", "use the other checks")

    @cached_property
    def _shared(self) -> Shared:
        budget = RenderBudget(suite_bytes=MOST_READ)
        if not self._allow_files:
            budget = RenderBudget(MOST_RENDERED, MOST_SENT, RENDER_SECONDS)
        templates = Templates(self._document, budget)
        return Shared(self._document.get("defaults", {}), templates, self.problems)

    def _claim(self, task_id: str, index: int) -> None:
        if not self._ids.claim(task_id, index):
            message = f"the id {task_id!r} is already used by {self._ids.place(task_id)}"
            self.problems.add(f"$.tasks[{index}]", message, "give every task its own id")
        elif len(task_id) > MAX_TASK_ID:
            message = f"the id has {len(task_id)} characters; at most {MAX_TASK_ID} are allowed"
            self.problems.add(f"$.tasks[{index}]", message, "shorten it")

    def _rows(self, entry: dict[str, Any], index: int) -> Iterator[Task]:
        recipe = Recipe(entry, f"$.data[{index}]", self._shared)
        shared = self._document.get("vars", {})
        reading = DataReading(entry, recipe, shared, self.problems, self._ids)
        yield from reading.tasks(self._folder, allow_files=self._allow_files)
        self.notices += reading.notices
