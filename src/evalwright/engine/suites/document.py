"""Reading a suite from its document: one in a file, one that was sent, or a file of rows alone."""

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
from evalwright.contracts.documents import (
    YAML_ENDINGS,
    parse_document,
    read_input,
    without_collecting,
)
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.run_plan import SuiteSource
from evalwright.contracts.schema import SUITE_WITH_CHECKS_OUTLINE, check_schema
from evalwright.contracts.suite import (
    MAX_TASK_ID,
    WORLD_OPERATIONS,
    Mode,
    Suite,
    Task,
    Thresholds,
    World,
)
from evalwright.engine.suites.attachments import Attachments
from evalwright.engine.suites.data import OTHERWISE, DataReading
from evalwright.engine.suites.ids import Ids, slug
from evalwright.engine.suites.problems import Missing, missing_function, placed
from evalwright.engine.suites.tasks import Problems, Recipe, Shared, TooManyProblems, tasks_of_entry
from evalwright.engine.suites.templates import RenderBudget, Templates, too_large
from evalwright.engine.suites.worlds import WorldReading
from evalwright.scoring.checks.base import RefusedCheck
from evalwright.scoring.checks.table import CHECKS, name_and_argument

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
_NO_INPUT = '"input" is a required property', "or `turns` or a `user`, for a conversation"
_ONE_OPERATION = Problem(
    "$", "a tool of a world does one thing", f"write one of {', '.join(WORLD_OPERATIONS)}"
)
_ROW_PLACE = re.compile(r"([^$].*), (line|row) (\d+)", re.DOTALL)
_ELSEWHERE = ("http://", "https://", "cmd:")
EXPECTED = "{{ expected }}"
_MADE_FROM = {
    re.compile(r"\$\.data\[0\]\.map"): "{@input}",
    re.compile(r"\$\.data\[0\]\.checks\[\d+\][.\w]*"): "{@check}",
}
_CHOOSE = "choose with {@input}, {@expected} and {@id}"
_SUITE_FIELDS = frozenset({"evalwright", "suiteId", "tasks"})
_WITHIN = {"json": "equals"}  # where the expected value is a part of the argument


class LoadedSuite(NamedTuple):
    """A suite as a run takes it, and what its reader should be told."""

    suite: Suite
    source: SuiteSource
    agent: str | None = None
    notices: tuple[Text, ...] = ()
    claims: Claims = NO_CLAIMS


def suite_from_file(source: bytes, path: str | Path, document: Any) -> LoadedSuite:
    """A suite from its file; raises `InvalidDocument` with every problem and its line.

    Code and data are found from the folder of the file.
    """
    name = str(path)
    try:
        return load_suite(
            document,
            name=name,
            folder=Path(path).parent,
            allow_code=True,
            allow_files=True,
        )
    except InvalidDocument as error:
        raise InvalidDocument(name, placed(error.problems, source, document)) from None


def load_suite(
    document: Any,
    *,
    name: str = "suite",
    folder: Path | None = None,
    allow_code: bool = False,
    allow_files: bool = False,
    functions: Collection[str] = (),
) -> LoadedSuite:
    """A suite from a document; raises `InvalidDocument` with every problem.

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
    called = document.get("name") or Path(name).stem
    suite = Suite(
        suite_id=document.get("suiteId") or f"local.evals.{slug(called) or 'suite'}",
        version=document.get("version", VERSION),
        modes=document.get("modes", MODES),
        tasks=tasks,
        target_agent_id=document.get("targetAgentId"),
        allowed_models=document.get("allowedModels"),
        thresholds=msgspec.convert(document.get("thresholds", {}), Thresholds, strict=False),
        worlds=reading.worlds,
        attachments=reading.attachments.kept,
    )
    content_hash = f"sha256:{sha256(msgspec.json.encode(suite)).hexdigest()}"
    source = SuiteSource(folder=str(folder or ""), content_hash=content_hash)
    agent, claims = document.get("agent"), NO_CLAIMS
    if isinstance(agent, dict):
        claims = Claims(agent.get("tools"), agent.get("usage"), agent.get("isolate", False))
        agent = agent["ref"]
    found = agent and found_from(agent, folder or Path())
    return LoadedSuite(suite, source, found, tuple(reading.notices), claims)


def read_document(
    document: Any,
    name: str,
    folder: Path | None,
    *,
    allow_code: bool,
    allow_files: bool,
    functions: Collection[str] = (),
) -> "SuiteReading":
    """A reading of a document that has the form of a suite; raises `InvalidDocument`."""
    if isinstance(document, dict) and "data" in document:
        data = document["data"]
        listed = data if isinstance(data, list) else [data]
        named = [{"file": each} if isinstance(each, str) else each for each in listed]
        document = {**document, "data": named}
    problems = check_schema(document, SUITE_WITH_CHECKS_OUTLINE)
    if isinstance(document, dict) and document.keys().isdisjoint(("tasks", "data")):
        problems = [
            _NO_TASKS if each.path == "$" and "anyOf" in each.message else each for each in problems
        ]
    problems = [
        Problem(each.path, *_NO_INPUT)
        if "'anyOf'" in each.message and _ENTRY.fullmatch(each.path)
        else each
        for each in problems
    ]
    problems = [
        _ONE_OPERATION.below(each.path) if "'oneOf'" in each.message else each for each in problems
    ]
    reading = partial(SuiteReading, document, folder or Path(), allow_code, allow_files, functions)
    if problems:
        broken = _broken_entries(problems, document)
        more = [] if broken is None else reading(broken).all_problems()
        raise InvalidDocument(name, problems + more)
    return reading()


def _broken_entries(problems: list[Problem], document: Any) -> set[str] | None:
    if not isinstance(document, dict):
        return None
    broken = set()
    for problem in problems:
        found = _ENTRY.match(problem.path)
        if found is None and problem.path != "$":
            return None
        if found is None:
            continue
        entry = document[found[1]][int(found[2])]
        # Of an entry with a field too many, the checks can be looked at as well.
        is_more = problem.path == found[0] and problem.message.startswith("unknown field")
        if not (is_more and "checks" in entry and "input" in entry):
            broken.add(found[0])
    return broken


def suite_problems(
    document: Any, source: bytes, path: str | Path, seen: Callable[[Task], None] | None = None
) -> list[Problem]:
    """Every problem of a suite by line.

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


def lines_of_rows(path: Path, document: Any) -> dict[str, tuple[str, int]]:
    """The file and the line of each task that a row of a data file made, by its id."""
    reading = read_document(document, str(path), path.parent, allow_code=True, allow_files=True)
    found = {}
    for task_id, place in reading.places():
        if (told := _ROW_PLACE.fullmatch(place)) is not None:
            found[task_id] = told[1], int(told[3]) if told[2] == "line" else 1
    return found


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


class SuiteReading:
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
        with suppress(TooManyProblems):
            for task in self._bounded_tasks():
                yield task.task_id, self._ids.last_place

    def all_problems(self) -> list[Problem]:
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
        document = self._document
        if "agent" in document and not self._allow_code:
            self.problems.add("$.agent", "code is not run here", "leave it out")
        for index, entry in self._entries("tasks"):
            if "user" in entry and not self._allow_code:
                message = "users are not played here"
                self.problems.add(f"$.tasks[{index}].user", message, "write `turns`")
            recipe = Recipe(entry, f"$.tasks[{index}]", self._shared)
            for task in tasks_of_entry(entry, document.get("vars", {}), recipe, self.problems):
                self._claim(task.task_id, index)
                yield task
        for index, entry in self._entries("data"):
            recipe = Recipe(entry, f"$.data[{index}]", self._shared)
            rows = DataReading(entry, recipe, document.get("vars", {}), self.problems, self._ids)
            yield from rows.tasks(self._folder, allow_files=self._allow_files)
            self.notices += rows.notices

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
    def worlds(self) -> dict[str, World]:
        """The worlds of the document that can be used."""
        given = self._document.get("worlds", {})
        read = WorldReading(
            self._folder,
            self._missing_code,
            self.problems,
            allow_code=self._allow_code,
            allow_files=self._allow_files,
        )
        return read.worlds(given)

    @cached_property
    def attachments(self) -> Attachments:
        """The files that inputs name, as far as tasks were made."""
        return Attachments(self._folder, self.problems, allow_files=self._allow_files)

    @cached_property
    def _shared(self) -> Shared:
        budget = RenderBudget(suite_bytes=MOST_READ)
        if not self._allow_files:
            budget = RenderBudget(MOST_RENDERED, MOST_SENT, RENDER_SECONDS)
        templates = Templates(self._document, budget)
        named = self._document.get("worlds", {})
        worlds = {name: self.worlds.get(name) for name in named}
        defaults = self._document.get("defaults", {})
        return Shared(defaults, templates, self.problems, worlds, self.attachments)

    def _claim(self, task_id: str, index: int) -> None:
        if not self._ids.claim(task_id, index):
            message = f"the id {task_id!r} is already used by {self._ids.place(task_id)}"
            self.problems.add(f"$.tasks[{index}]", message, "give every task its own id")
        elif len(task_id) > MAX_TASK_ID:
            message = f"the id has {len(task_id)} characters; at most {MAX_TASK_ID} are allowed"
            self.problems.add(f"$.tasks[{index}]", message, "shorten it")


class ColumnChoice(NamedTuple):
    """What the command line says of a data file."""

    inputs: tuple[str, ...] = ()
    expected: str | None = None
    id: str | None = None
    checks: tuple[str, ...] = ()


def read_data_suite(name: str, choice: ColumnChoice) -> LoadedSuite:
    """A suite with a task in each row of a file."""
    if not choice.checks:
        message = "{name}: say what a good answer is, for example with {@check:contains}"
        raise BadInput(phrase(message, "no_checks", name=name))
    if name.lower().endswith((".json", *YAML_ENDINGS)):  # which may be a suite, with its own checks
        given = parse_document(read_input(name), name)
        if isinstance(given, dict) and _SUITE_FIELDS & given.keys():
            chosen = "{@input}, {@expected}, {@id} and {@check}"
            message = f"{{name}}: a suite says this itself; {chosen} are for files of rows"
            raise BadInput(phrase(message, name=name))
    path = Path(name)
    checks = [_named_check(name, each) for each in choice.checks]
    entry: dict[str, Any] = {"file": path.name, "checks": checks}
    fields = {f"input.{column}": column for column in choice.inputs}
    others = {"expected": choice.expected, "id": choice.id}
    fields |= {field: column for field, column in others.items() if column is not None}
    document = {"evalwright": 1, "name": path.name.partition(".")[0], "data": [entry]}
    if fields:
        entry["map"] = fields
    try:
        loaded = load_suite(
            document, name=name, folder=path.parent, allow_code=True, allow_files=True
        )
    except InvalidDocument as error:
        raise InvalidDocument(name, _as_options(error.problems, path.name)) from None
    told = (str(each).removeprefix(f"{path.name}: ") for each in loaded.notices)
    return loaded._replace(
        notices=tuple(
            phrase("{told}" + _CHOOSE, told=each.removesuffix(OTHERWISE))
            if each.endswith(OTHERWISE)
            else each
            for each in told
        )
    )


def _as_options(problems: list[Problem], file: str) -> list[Problem]:
    """Problems of the document that was made, in the words of the command line.

    What is wrong with an option is the same in every row, and told for the first of them.
    """
    told: dict[tuple[str, str], list[Problem]] = {}  # places by what is wrong
    for each in problems:
        place, option = each.path.removeprefix(f"{file}, "), None
        for pattern, template in _MADE_FROM.items():
            if (found := pattern.search(place)) is not None:
                before, after = place[: found.start()], place[found.end() :]
                option = phrase("{before}" + template + "{after}", before=before, after=after)
                break
        made = Problem("$" if place == file else place, each.message, each.remedy, option)
        told.setdefault((each.message, str(each.remedy)), []).append(made)
    found_in = []
    for first, *more in told.values():
        rows = "row" if len(more) == 1 else "rows"
        as_in = f", as in {len(more):,} more {rows}" if more else ""
        found_in.append(msgspec.structs.replace(first, message=first.message + as_in))
    return found_in


def _named_check(file: str, text: str) -> dict[str, Any]:
    """A check that there is; raises `BadInput`, once and not for every row."""
    document = check_of(text)
    try:
        name_and_argument(document)
    except RefusedCheck as refused:
        known = text.partition(":")[0].strip()
        remedy = f"write {known}=VALUE" if known in CHECKS else refused.remedy
        message = "{file}: {@check}: {why} ({remedy})"
        raise BadInput(phrase(message, file=file, why=refused.message, remedy=remedy)) from None
    return document


def check_of(text: str) -> dict[str, Any]:
    """A check from `name`, whose argument is the expected value, or from `name=argument`.

    An argument that is JSON is taken as such, any other as a text.
    """
    name, equals, argument = text.partition("=")
    if not equals:
        return {name: {_WITHIN[name]: EXPECTED} if name in _WITHIN else EXPECTED}
    try:
        return {name: msgspec.json.decode(argument)}
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {name: argument}
