"""From the entries of a wide suite to tasks: defaults, variables, templates, checks."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.suite import MAX_TASK_ID, Expected, Fixtures, Task
from evalwright.engine.wide.templates import BadTemplate, Render, Templates
from evalwright.scoring.checks.table import prepare_checks

MOST_COMBINED = 10_000  # tasks of one matrix
MOST_PROBLEMS = 1000
# The very objects that an encoder leaves out as defaults.
_DEFAULTS = dict(
    zip(
        Task.__struct_fields__[-len(Task.__struct_defaults__) :],
        Task.__struct_defaults__,
        strict=True,
    )
)
_NOT_A_SLUG = re.compile(r"[^a-z0-9]+")
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")


class TooManyProblems(Exception):
    """There is no use in looking for more."""


class Problems:
    """What is wrong with a suite, up to a number that nobody reads to the end."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, path: str, message: str, remedy: str = "") -> None:
        """Note a problem."""
        self.found.append(Problem(path, message, remedy))
        if len(self.found) >= MOST_PROBLEMS:
            raise TooManyProblems


class Recipe:
    """How tasks are made of one entry: a task as written, or a file of rows."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        defaults: Mapping[str, Any],
        path: str,
        templates: Templates,
        problems: Problems,
    ) -> None:
        self.path = path
        self._problems = problems
        self._entry = entry
        self._templates = templates
        self.checks = CheckList(entry.get("checks", []), f"{path}.checks", self)
        self._more = CheckList(defaults.get("checks", []), "$.defaults.checks", self)
        if not self.checks.documents and not self._more.documents:
            remedy = "add checks here, or to defaults"
            problems.add(path, "no checks, so that every answer would pass", remedy)
        chosen = {**_DEFAULTS, **defaults, **entry}
        self.tags = list(dict.fromkeys([*defaults.get("tags", []), *entry.get("tags", [])]))
        self._weight: float = chosen["weight"]
        self._repeat: int = chosen["repeat"]
        self._pass_rate: float = chosen["pass_rate"]
        self._threshold: float | None = chosen.get("threshold")
        fixtures = chosen["fixtures"]
        self._fixtures = fixtures and msgspec.convert(fixtures, Fixtures)
        self._constant: Expected | None = None
        self.input = self.compiled("input")
        self.expected = self.compiled("expected")

    def compiled(self, field: str) -> Render | None:
        """What renders a field of the entry; None if there is no template in it."""
        return self.compile(self._entry.get(field), f"{self.path}.{field}")

    def compile(self, value: Any, path: str) -> Render | None:
        """What renders a value; a template that cannot be used is a problem."""
        try:
            return self._templates.compile(value, path)
        except BadTemplate as bad:
            self._problems.add(bad.path, bad.message, bad.remedy)
            return None

    def task(
        self,
        task_id: str,
        given: Any,
        reference: Any,
        values: Mapping[str, Any],
        tags: list[str],
        where: str,
    ) -> Task:
        """One task; raises `BadTemplate`."""
        return Task(
            task_id,
            given,
            self._constant or self._checks(values, where),
            self._fixtures,
            tags,
            self._weight,
            self._repeat,
            self._pass_rate,
            reference,
        )

    def _checks(self, values: Mapping[str, Any], where: str) -> Expected:
        own = self.checks.rendered(values, where)
        made = Expected(
            kind="checks",
            checks=[*own, *self._more.rendered(values, where)],
            threshold=self._threshold,
        )
        if self.checks.is_constant and self._more.is_constant:
            self._constant = made
        return made

    def refuse_checks(self, checks: Sequence[Any], path: str, where: str = "") -> None:
        """Note what is wrong with checks; `where` is the row that they were rendered for."""
        for problem in prepare_checks(checks, path)[1]:
            place = f"{where}, {problem.path}" if where else problem.path
            self._problems.add(place, problem.message, problem.remedy)


class CheckList:
    """The checks of an entry, or of the defaults; those without templates are checked once."""

    def __init__(self, documents: list[Any], path: str, recipe: Recipe) -> None:
        self.documents = documents
        self._path = path
        self._recipe = recipe
        self._render = recipe.compile(documents, path)
        self.is_constant = self._render is None
        if self.is_constant:
            recipe.refuse_checks(documents, path)

    def rendered(self, values: Mapping[str, Any], where: str) -> list[Any]:
        """The checks for one task; raises `BadTemplate`."""
        if self._render is None:
            return self.documents
        checks: list[Any] = self._render(values)
        self._recipe.refuse_checks(checks, self._path, where)
        return checks


def tasks_of_entry(
    entry: Mapping[str, Any], shared: Mapping[str, Any], recipe: Recipe, problems: Problems
) -> Iterator[Task]:
    """The task of an entry as written, or those of its matrix; `shared` are the suite's `vars`."""
    for suffix, variables in _combinations(entry, shared, recipe.path, problems):
        values = {**variables, "vars": variables}
        try:
            reference = entry.get("expected", msgspec.UNSET)
            if recipe.expected:
                reference = recipe.expected(values)
            if reference is not msgspec.UNSET:
                values["expected"] = reference
            given = recipe.input(values) if recipe.input else entry.get("input")
            values["input"] = given
            task_id = entry.get("id") or content_id("task", given, reference)
            task_id = f"{task_id}-{suffix}" if suffix else task_id
            yield recipe.task(task_id, given, reference, values, recipe.tags, "")
        except BadTemplate as bad:
            problems.add(bad.path, bad.message, bad.remedy)


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
        suffix = "-".join(_part_of_id(value) for value in chosen)
        yield suffix, {**variables, **dict(zip(names, chosen, strict=True))}


def _part_of_id(value: Any) -> str:
    """A value as a part of an id: itself where that is short and plain, else a hash of it."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    plain = slug(text)
    return plain if 0 < len(plain) <= 24 and plain == text.lower() else f"{_digest(value)[:8]}"


def slug(text: str) -> str:
    """A text as an id of a task: lower-case letters, digits and hyphens; empty if none is left."""
    if _PLAIN_ID.fullmatch(text):
        return text
    return _NOT_A_SLUG.sub("-", text.lower()).strip("-")[:MAX_TASK_ID]


def content_id(kind: str, given: Any, reference: Any) -> str:
    """An id that stays as long as what is asked, and what is expected, stays."""
    return f"{kind}-{_digest([given, None if reference is msgspec.UNSET else reference])}"


def _digest(value: Any) -> str:
    return blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=6).hexdigest()
