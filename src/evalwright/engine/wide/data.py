"""Data of a wide suite: a task of each row."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.suite import Task
from evalwright.engine.wide.columns import (
    Fields,
    UnknownColumn,
    as_told,
    guessed,
    missing_columns,
    taker,
)
from evalwright.engine.wide.ids import Ids, content_id, row_id
from evalwright.engine.wide.lowering import Problems, Recipe
from evalwright.engine.wide.rows import (
    BadRows,
    NumberedRow,
    Row,
    data_file,
    read_huggingface,
    read_rows,
)
from evalwright.engine.wide.templates import BadTemplate

MOST_NAMED = 5  # duplicates
OTHERWISE = "choose with `map`"
_SOURCES = ("file", "huggingface", "rows")


class Opened(NamedTuple):
    """Rows to be read, and how messages call them."""

    rows: Generator[NumberedRow, None, None]
    label: str
    noun: str = "row"

    def place(self, number: int) -> str:
        """Where a row stands."""
        return f"{self.label}, {self.noun} {number}"


class DataReading:
    """One entry of `data`: its tasks, row by row, and what its reader should know."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        recipe: Recipe,
        shared: Mapping[str, Any],
        problems: Problems,
        ids: Ids,
    ) -> None:
        self._entry = entry
        self._recipe = recipe
        self._vars = {**shared, **entry.get("vars", {})}
        self._problems = problems
        self._ids = ids
        self._again: list[str] = []  # places of rows that repeat an earlier one
        self.notices: list[str] = []

    def tasks(self, folder: Path, *, allow_files: bool) -> Iterator[Task]:
        """A task of each row that is in order; of the others there are problems."""
        path = self._recipe.path
        try:
            opened = open_data(self._entry, path, folder, allow_files=allow_files)
            self._ids.enter(opened.place)
            with closing(opened.rows):
                yield from self._made(opened)
        except BadRows as bad:
            problem = bad.problem
            label = self._entry.get("file") or self._entry.get("huggingface") or path
            place = ", ".join(filter(None, [label, problem.path]))
            self._problems.add(place, problem.message, problem.remedy)

    def _made(self, opened: Opened) -> Iterator[Task]:
        first = next(opened.rows, None)
        if first is None:
            raise BadRows("", "there are no rows", "leave it out, or fill it")
        fields = self._fields(first[1], opened.label)
        if fields is None:
            return
        if missing := missing_columns(fields, first[1]):
            for each in missing:
                self._refuse_row(each, opened.place(first[0]))
            return  # it is the same with every other row
        take = taker(fields)
        self._recipe.columns = fields
        for number, row in islice(chain([first], opened.rows), self._entry.get("limit")):
            try:
                yield self._task(row, take(row), opened, number)
            except (UnknownColumn, BadTemplate) as error:
                self._refuse_row(error, opened.place(number))
                if number == first[0]:
                    return  # it is the same with every other row
        self._tell_again(opened.label)

    def _refuse_row(self, error: UnknownColumn | BadTemplate, place: str) -> None:
        if isinstance(error, BadTemplate):
            self._problems.add_bad_template(error, f"{place}, {error.path}")
        else:
            message = f"{error}, for {error.field}"
            self._problems.add(f"{place}, column {error.column}", message, error.remedy)

    def _fields(self, row: Row, label: str) -> dict[str, str] | None:
        """The map of the entry; what it leaves out goes by the usual names, and that is told."""
        given: dict[str, str] = self._entry.get("map", {})
        has_input = "input" in self._entry or any(_is_input(field) for field in given)
        usual = {
            field: column
            for field, column in guessed(row).items()
            if not (has_input and _is_input(field)) and not _is_said(field, given)
        }
        if not has_input and not any(_is_input(field) for field in usual):
            names = ", ".join(name for name in row if name)
            message = f"no column has a usual name for the input, of {names}"
            remedy = "say which it is with map: {input.question: COLUMN}, or --input COLUMN"
            self._problems.add(f"{label}, {self._recipe.path}.map", message, remedy)
            return None
        if usual:
            told = as_told(usual)
            self.notices.append(f"{label}: by their names, {told}; {OTHERWISE}")
        return {**usual, **given}

    def _task(self, row: Row, fields: Fields, opened: Opened, number: int) -> Task:
        recipe = self._recipe
        given, reference = fields.input, fields.expected
        values: dict[str, Any] = {}
        if recipe.has_templates:
            recipe.begin_task()
            values = {**row, **self._vars, "row": row, "vars": self._vars}
            if recipe.expected:
                reference = recipe.expected(values)
            if reference is not msgspec.UNSET:
                values["expected"] = reference
            given = recipe.input(values) if recipe.input else given
            values["input"] = given
        if recipe.input is None and "input" in self._entry:
            given = self._entry["input"]
        tags = [*recipe.tags, *fields.tags] if fields.tags else recipe.tags
        task_id = self._id(fields, given, reference, number, opened)
        place = opened.place
        return recipe.task(task_id, given, reference, values, tags, fields.title, place, number)

    def _id(self, fields: Fields, given: Any, reference: Any, number: int, opened: Opened) -> str:
        named = row_id(fields.id)
        if named is not None:
            if not self._ids.claim(named, number):
                message = f"the id {named!r} is already used by {self._ids.place(named)}"
                self._problems.add(opened.place(number), message, "give every row its own id")
            return named
        made = content_id("row", given, reference)
        if self._ids.claim(made, number):
            return made
        if len(self._again) < MOST_NAMED:
            self._again.append(f"{opened.noun} {number}")
        return self._ids.numbered(made, number)

    def _tell_again(self, label: str) -> None:
        if self._again:
            more = " and others" if len(self._again) == MOST_NAMED else ""
            places = ", ".join(self._again)
            self.notices.append(f"{label}: the same as an earlier row: {places}{more}")


def _is_input(field: str) -> bool:
    return field == "input" or field.startswith("input.")


def _is_said(field: str, given: Mapping[str, str]) -> bool:
    return any(each == field or each.startswith(f"{field}.") for each in given)


def open_data(entry: Mapping[str, Any], path: str, folder: Path, *, allow_files: bool) -> Opened:
    """The rows of an entry of `data`; raises `BadRows`."""
    kinds = [kind for kind in _SOURCES if kind in entry]
    if len(kinds) != 1:
        raise BadRows(path, "rows come from one place", f"write one of {', '.join(_SOURCES)}")
    if "rows" in entry:
        return Opened((row for row in enumerate(entry["rows"], 1)), f"{path}.rows")
    if not allow_files:
        raise BadRows(path, "files are not read here", "write the rows into the suite: `rows`")
    if "huggingface" in entry:
        name = entry["huggingface"]
        rows = read_huggingface(name, entry.get("subset"), entry.get("split", "test"))
        return Opened(rows, name)
    chosen = {key: entry[key] for key in ("format", "encoding", "delimiter") if key in entry}
    file = data_file(_found(folder, entry["file"]), **chosen)
    return Opened(read_rows(file), entry["file"], file.noun)


def _found(folder: Path, name: str) -> Path:
    from difflib import get_close_matches

    path = folder / name
    if not path.exists():
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, beside, 1)
        remedy = f"did you mean {near[0]}?" if near else "it is looked for from the suite's folder"
        raise BadRows("", "there is no such file", remedy)
    return path
