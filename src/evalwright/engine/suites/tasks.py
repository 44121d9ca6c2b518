"""From the entries of a suite to tasks: defaults, variables, templates, checks, ids."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.messages import Text
from evalwright.contracts.suite import (
    Expected,
    Fixtures,
    SimulatedUser,
    Task,
    ToolFault,
    ToolResponse,
    UserTurn,
    World,
)
from evalwright.engine.suites.attachments import Attachments
from evalwright.engine.suites.ids import content_id, part_of_id
from evalwright.engine.suites.problems import Missing
from evalwright.engine.suites.templates import BadTemplate, Render, Templates, TooMuch
from evalwright.engine.suites.worlds import check_use
from evalwright.scoring.checks.base import CodeAsk
from evalwright.scoring.checks.table import prepare_checks
from evalwright.trace.model import text_of

_OF_ALL_TURNS = ("state", "max")
_WITHIN = ("not", "all", "any")  # checks of checks
_ASKED = ("turns", "user", "input")  # what an agent is asked by
_A = {"input": "an input", "user": "a simulated user"}
MOST_TITLE = 500  # characters
MOST_COMBINED = 10_000  # tasks of one matrix
MOST_PROBLEMS = 1000
_NAMED = re.compile(r"\{\{ *(?:row\.)?([\w.]+)")
_ANY_TEXT = frozenset({"contains", "ends_with", "equals", "starts_with"})
# The very objects that an encoder leaves out as defaults.
_DEFAULTS = dict(
    zip(
        Task.__struct_fields__[-len(Task.__struct_defaults__) :],
        Task.__struct_defaults__,
        strict=True,
    )
)


class TooManyProblems(Exception):
    """There is no use in looking for more."""


class Problems:
    """What is wrong with a suite, up to a number that nobody reads to the end."""

    def __init__(self, refuse_code: Callable[[str], Missing | None] | None = None) -> None:
        self.found: list[Problem] = []
        self._refuse_code = cache(refuse_code) if refuse_code else None

    def add(self, path: str, message: str, remedy: Text = "") -> None:
        self.found.append(Problem(path, message, remedy))
        if len(self.found) >= MOST_PROBLEMS:
            raise TooManyProblems

    def add_bad_template(self, bad: BadTemplate, place: str) -> None:
        self.add(place, bad.message, bad.remedy)
        if isinstance(bad, TooMuch):
            raise TooManyProblems

    def see_checks(self, checks: list[Any], path: str) -> None:
        prepared, found = prepare_checks(checks, path, _signal_kinds(checks))
        if found or any(each.asks for each in prepared):
            for index, check in enumerate(checks):
                self.see_check(check, f"{path}[{index}]")

    def see_check(self, check: Any, path: str, row: str = "") -> None:
        prepared, found = prepare_checks([check], "$", _signal_kinds(check))
        for ask in (ask for each in prepared for ask in each.asks if isinstance(ask, CodeAsk)):
            missing = self._refuse_code(ask.function) if self._refuse_code else None
            if missing is not None:  # a function that is not there, or must not be run
                self.add(path, missing.message, missing.remedy)
        for problem in found:
            place = path + problem.path.removeprefix("$[0]")
            self.add(f"{row}, {place}" if row else place, problem.message, problem.remedy)


class Shared:
    """What all entries of a document have: its defaults, its templates, and its problems."""

    def __init__(
        self,
        defaults: Mapping[str, Any],
        templates: Templates,
        problems: Problems,
        worlds: Mapping[str, World | None],
        attachments: Attachments,
    ) -> None:
        """`worlds` are those of the suite; None stands for one that cannot be used."""
        self.templates = templates
        self.problems = problems
        self.given = {**_DEFAULTS, "threshold": None, "faults": [], **defaults}
        self.tags: list[str] = defaults.get("tags", [])
        self.worlds = worlds
        self.attachments = attachments
        self.checks = CheckList(defaults.get("checks", []), "$.defaults.checks", self)

    def compile(self, value: Any, path: str) -> Render | None:
        """What renders a value; a template that cannot be used is a problem."""
        try:
            return self.templates.compile(value, path)
        except BadTemplate as bad:
            self.problems.add(bad.path, bad.message, bad.remedy)
            return None


class Recipe:
    """How tasks are made of one entry: a task as written, or a file of rows."""

    def __init__(self, entry: Mapping[str, Any], path: str, shared: Shared) -> None:
        self.path = path
        self._entry = entry
        self._shared = shared
        self.checks = CheckList(entry.get("checks", []), f"{path}.checks", shared)
        self._more = shared.checks
        self._entry_turns: list[Any] = entry.get("turns", [])
        in_turns = any(turn.get("checks") for turn in self._entry_turns)
        given_as = [each for each in _ASKED if each in entry]
        if len(given_as) > 1:
            message = f"a conversation has {given_as[0]}, not {_A[given_as[1]]}"
            shared.problems.add(f"{path}.{given_as[1]}", message, "leave one out")
        if not self.checks.documents and not self._more.documents and not in_turns:
            remedy = "add checks here, or to defaults"
            shared.problems.add(path, "no checks, so that every answer would pass", remedy)
        self.tags = shared.tags
        if "tags" in entry:
            self.tags = list(dict.fromkeys([*shared.tags, *entry["tags"]]))
        given = shared.given
        self._weight: float = entry.get("weight", given["weight"])
        self._repeat: int = entry.get("repeat", given["repeat"])
        self._pass_rate: float = entry.get("pass_rate", given["pass_rate"])
        self._threshold: float | None = entry.get("threshold", given["threshold"])
        fixtures = entry.get("fixtures", given["fixtures"])
        self._fixtures: Fixtures | None = fixtures and msgspec.convert(fixtures, Fixtures)
        place = f"{path}.fixtures" if "fixtures" in entry else "$.defaults.fixtures"
        self._responses: Render | None = None
        self._responses_place = f"{place}.toolResponses"
        if fixtures and shared.templates.may_be and "toolResponses" in fixtures:
            self._responses = shared.compile(fixtures["toolResponses"], self._responses_place)
        self._world: str = entry.get("world", given["world"])
        faults: list[Any] = entry.get("faults", given["faults"])
        self._faults = msgspec.convert(faults, list[ToolFault])
        # With names of tools that are templates, only the tasks have the tools of the faults.
        self._is_used_late = bool(self._responses and self._faults) and any(
            "{" in each["tool"] for each in fixtures["toolResponses"]
        )
        if not self._is_used_late:
            self._check_use(self._fixtures, path)
        documents = [*self.checks.documents, *self._more.documents]
        if not self._world and any("state" in each for each in documents):
            message = "`state` looks at the world of its task, and this one has none"
            shared.problems.add(f"{path}.checks", message, "name one with `world`")
        self._constant: Expected | None = None
        self.columns: Mapping[str, str] = {}  # of the fields of rows
        self._entry_user: Any = entry.get("user")
        self._render_user = self.compiled("user")
        self._render_turns = self.compiled("turns")
        if self._render_turns is None:
            self._turns = self._made_turns(self._entry_turns)
        self.input = self.compiled("input")
        self.expected = self.compiled("expected")
        self.title = self.compiled("title")

    def _check_use(self, fixtures: Fixtures | None, path: str) -> None:
        shared = self._shared
        check_use(self._world, self._faults, fixtures, shared.worlds, path, shared.problems)

    def compiled(self, field: str) -> Render | None:
        if not self._shared.templates.may_be:
            return None
        return self._shared.compile(self._entry.get(field), f"{self.path}.{field}")

    def task(
        self,
        task_id: str,
        given: Any,
        reference: Any,
        values: Mapping[str, Any],
        tags: list[str],
        title: str = "",
        place: Callable[[int], str] | None = None,
        number: int = 0,
    ) -> Task:
        """One task, of the row `number` where it is of one; raises `BadTemplate`."""
        expected = self._constant
        if expected is None:
            expected = self._checks(values, lambda check: self._row(place, number, check))
        fixtures = self._fixtures
        if self._responses is not None and fixtures is not None:
            documents = _with_texts(self._responses(values), "tool", self._responses_place)
            responses = msgspec.convert(documents, list[ToolResponse])
            fixtures = msgspec.structs.replace(fixtures, tool_responses=responses)
            if self._is_used_late:
                self._check_use(fixtures, self.path if place is None else place(number))
        turns = (
            self._turns
            if self._render_turns is None
            else self._made_turns(
                _with_texts(self._render_turns(values), "user", f"{self.path}.turns")
            )
        )
        if not turns:
            given = self._shared.attachments.taken(
                given, f"{self.path}.input" if place is None else place(number)
            )
        else:
            given, title = said_in(turns), title or turns[0].user[:MOST_TITLE]
        user = self._user(values)
        if user is not None:
            given, title = {"goal": user.goal}, title or (user.opening or user.goal)[:MOST_TITLE]
        return Task(
            task_id,
            given,
            expected,
            fixtures,
            tags,
            self._weight,
            self._repeat,
            self._pass_rate,
            reference,
            title,
            self._world,
            self._faults,
            turns,
            user,
        )

    def _user(self, values: Mapping[str, Any]) -> SimulatedUser | None:
        document = self._entry_user
        if self._render_user is not None:
            document = self._render_user(values)
            for field in {"goal", "style", "opening", "model"} & document.keys():
                (document,) = _with_texts([document], field, f"{self.path}.user")
        return None if document is None else msgspec.convert(document, SimulatedUser)

    def _made_turns(self, documents: list[Any]) -> list[UserTurn]:
        self._check_branches(documents)
        for index, document in enumerate(documents):
            place, checks = f"{self.path}.turns[{index}].checks", document.get("checks", [])
            problems = self._shared.problems
            problems.see_checks(checks, place)
            for name in _of_all_turns(checks):
                message = f"`{name}` is of a whole conversation"
                problems.add(place, message, "add it to the checks of the task")
            asking = [each for each in prepare_checks(checks, place)[0] if each.asks]
            if document.get("stop") and asking:
                message = f"`stop` cannot wait for what {asking[0].name} asks"
                problems.add(f"{self.path}.turns[{index}].stop", message, "leave it out")
        return msgspec.convert(documents, list[UserTurn])

    def _check_branches(self, documents: list[Any]) -> None:
        problems, numbers = self._shared.problems, dict[str, int]()
        for index, document in enumerate(documents):
            if (name := document.get("id", "")) and numbers.setdefault(name, index) != index:
                place, message = f"{self.path}.turns[{index}].id", f"{name!r} is another turn's id"
                problems.add(place, message, "give every turn its own id")
        for index, document in enumerate(documents):
            for number, branch in enumerate(document.get("then", [])):
                place = f"{self.path}.turns[{index}].then[{number}]"
                if "if" in branch:
                    problems.see_checks([branch["if"]], f"{place}.if")
                    asking = [each for each in prepare_checks([branch["if"]], "$")[0] if each.asks]
                    if asking or _of_all_turns([branch["if"]]):
                        message = "a branch looks at one answer, and asks nobody"
                        problems.add(f"{place}.if", message, "use another check")
                target = numbers.get(branch.get("turn", ""))
                if "turn" in branch and target is None:
                    known = ", ".join(numbers) or "none has an id"
                    message = f"there is no turn {branch['turn']!r}"
                    problems.add(f"{place}.turn", message, f"turns: {known}")
                elif target is not None and target <= index:
                    message = (
                        f"a loop: {branch['turn']!r} is turn {target + 1}, this is {index + 1}"
                    )
                    problems.add(f"{place}.turn", message, "name a later turn")

    def begin_task(self) -> None:
        self._shared.templates.begin_task()

    @property
    def has_templates(self) -> bool:
        is_constant = self.checks.is_constant and self._more.is_constant
        rendered = (
            *(self.input, self.expected, self.title, self._responses),
            *(self._render_turns, self._render_user),
        )
        return not is_constant or any(each is not None for each in rendered)

    def _checks(self, values: Mapping[str, Any], where: Callable[[Any], str]) -> Expected:
        own = self.checks.rendered(values, where)
        made = Expected(
            kind="checks",
            checks=[*own, *self._more.rendered(values, where)],
            threshold=self._threshold,
        )
        if self.checks.is_constant and self._more.is_constant:
            self._constant = made
        return made

    def _row(self, place: Callable[[int], str] | None, number: int, check: Any) -> str:
        if place is None:
            return ""
        names = set(_NAMED.findall(msgspec.json.encode(check).decode()))
        about = {self.columns.get(name, name) for name in names}
        return f"{place(number)}, column {about.pop()}" if len(about) == 1 else place(number)


class CheckList:
    """The checks of an entry, or of the defaults; those without templates are checked once."""

    def __init__(self, documents: list[Any], path: str, shared: Shared) -> None:
        self.documents = documents
        self._problems = shared.problems
        self._parts: list[tuple[Any, Render | None, str]] = []
        self.is_constant = True
        if not shared.templates.may_be:
            shared.problems.see_checks(documents, path)
            return
        for index, document in enumerate(documents):
            place = f"{path}[{index}]"
            render = shared.compile(document, place)
            self._parts.append((document, render, place))
            if render is None:
                shared.problems.see_check(document, place)
        self.is_constant = not any(render for _, render, _ in self._parts)

    def rendered(self, values: Mapping[str, Any], where: Callable[[Any], str]) -> list[Any]:
        """The checks for one task; raises `BadTemplate`."""
        if self.is_constant:
            return self.documents
        checks = []
        for document, render, place in self._parts:
            if render is None:
                checks.append(document)
                continue
            check = render(values)
            if not _is_surely_right(check):
                self._problems.see_check(check, place, where(document))
            checks.append(check)
        return checks


def _of_all_turns(checks: Any) -> list[str]:
    """The checks among these, and within them, that nothing can be told of in one turn."""
    found: list[str] = []
    for check in checks if isinstance(checks, list) else [checks]:
        for name, argument in check.items() if isinstance(check, dict) else ():
            if name in _OF_ALL_TURNS:
                found.append(name)
            elif name in _WITHIN:
                found += _of_all_turns(argument)
    return list(dict.fromkeys(found))


def _signal_kinds(check: Any) -> Collection[str] | None:
    if b'"no_signals"' not in msgspec.json.encode(check):
        return None
    from evalwright.signals.kinds import KINDS  # with every detector

    return [kind.name for kind in KINDS]


def _is_surely_right(check: dict[str, Any]) -> bool:
    """Whether it is a check that can be given any text, and is given one."""
    if len(check) != 1:
        return False
    ((name, argument),) = check.items()
    return name in _ANY_TEXT and isinstance(argument, str) and bool(argument)


def _with_texts(documents: list[Any], field: str, path: str) -> list[Any]:
    """Rendered documents with a text in a field, whatever its template gave."""
    texts = [text_of(each[field]) for each in documents]
    if "" in texts:
        where = f"{path}[{texts.index('')}].{field}"
        raise BadTemplate("its template gives no text", "give its variables a value", where)
    return [{**each, field: text} for each, text in zip(documents, texts, strict=True)]


def said_in(turns: Sequence[UserTurn]) -> list[dict[str, Any]]:
    """The input of a conversation: what the user says."""
    return [{"role": "user", "content": turn.user} for turn in turns]


def tasks_of_entry(
    entry: Mapping[str, Any], shared: Mapping[str, Any], recipe: Recipe, problems: Problems
) -> Iterator[Task]:
    """The task of an entry as written, or those of its matrix; `shared` are the suite's `vars`."""
    if not recipe.has_templates and not entry.get("matrix"):
        given, reference = entry.get("input"), entry.get("expected", msgspec.UNSET)
        asked = next((entry[name] for name in _ASKED if name in entry), None)
        task_id = entry.get("id") or content_id("task", asked, reference)
        yield recipe.task(task_id, given, reference, {}, recipe.tags, entry.get("title", ""))
        return
    for suffix, variables in _combinations(entry, shared, recipe.path, problems):
        values = {**variables, "vars": variables}
        recipe.begin_task()
        try:
            reference = entry.get("expected", msgspec.UNSET)
            if recipe.expected:
                reference = recipe.expected(values)
            if reference is not msgspec.UNSET:
                values["expected"] = reference
            given = recipe.input(values) if recipe.input else entry.get("input")
            values["input"] = given
            asked = entry.get("turns", entry.get("user", given))
            task_id = entry.get("id") or content_id("task", asked, reference)
            task_id = f"{task_id}-{suffix}" if suffix else task_id
            title = text_of(recipe.title(values)) if recipe.title else entry.get("title", "")
            yield recipe.task(task_id, given, reference, values, recipe.tags, title)
        except BadTemplate as bad:
            is_own = bad.path.startswith(recipe.path)
            place = bad.path if is_own else f"{recipe.path}, {bad.path}"
            problems.add_bad_template(bad, place)


def _combinations(
    entry: Mapping[str, Any], shared: Mapping[str, Any], path: str, problems: Problems
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The values of the variables for each task, with what tells it from the others."""
    variables = {**shared, **entry.get("vars", {})}
    matrix = entry.get("matrix", False)
    if not matrix:
        yield "", variables
        return
    lists = {name: value for name, value in variables.items() if isinstance(value, list)}
    names = list(lists) if matrix is True else matrix
    for name in names:
        if name not in lists:
            known = ", ".join(lists) or "none"
            problems.add(f"{path}.matrix", f"{name!r} is no list in vars", f"lists: {known}")
            return
    if not names:
        problems.add(f"{path}.matrix", "there is no list in vars", "add one, or leave matrix out")
    count = 1
    for name in names:
        count *= len(lists[name])
    if count > MOST_COMBINED:
        message = f"{count:,} combinations; at most {MOST_COMBINED:,} are allowed"
        problems.add(f"{path}.matrix", message, "name fewer lists in matrix")
        return
    for chosen in itertools.product(*(lists[name] for name in names)) if names else ():
        suffix = "-".join(part_of_id(value) for value in chosen)
        yield suffix, {**variables, **dict(zip(names, chosen, strict=True))}
