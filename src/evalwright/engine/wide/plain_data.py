"""A data file as a suite of its own: `evalwright run questions.csv --check contains`."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.documents import YAML_ENDINGS, parse_document, read_input
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.engine.wide.data import OTHERWISE
from evalwright.engine.wide.loader import WideSuite, load_wide
from evalwright.scoring.checks.base import RefusedCheck
from evalwright.scoring.checks.table import CHECKS, name_and_argument

EXPECTED = "{{ expected }}"
_CHECK = re.compile(r"\$\.data\[0\]\.checks\[\d+\][.\w]*")
_CHOOSE = "choose with --input, --expected and --id"
_SUITE_FIELDS = frozenset({"evalwright", "suiteId", "tasks"})
_WITHIN = {"json": "equals"}  # where the expected value is a part of the argument


class ColumnChoice(NamedTuple):
    """What the command line says of a data file."""

    inputs: tuple[str, ...] = ()
    expected: str | None = None
    id: str | None = None
    checks: tuple[str, ...] = ()


def read_data_suite(name: str, choice: ColumnChoice) -> WideSuite:
    """A suite with a task in each row of a file."""
    if not choice.checks:
        raise BadInput(f"{name}: say what a good answer is, for example with --check contains")
    _refuse_suite(name)
    path = Path(name)
    checks = [_named_check(name, each) for each in choice.checks]
    entry: dict[str, Any] = {"file": path.name, "checks": checks}
    fields = {f"input.{column}": column for column in choice.inputs}
    chosen = {"expected": choice.expected, "id": choice.id}
    fields |= {field: column for field, column in chosen.items() if column is not None}
    document = {"evalwright": 1, "name": path.name.partition(".")[0], "data": [entry]}
    if fields:
        entry["map"] = fields
    try:
        wide = load_wide(document, name=name, folder=path.parent, allow_code=True, allow_files=True)
    except InvalidDocument as error:
        chosen_words = [_as_chosen(each, path.name) for each in error.problems]
        raise InvalidDocument(name, _told_once(chosen_words)) from None
    told = (each.removeprefix(f"{path.name}: ") for each in wide.notices)
    return wide._replace(notices=tuple(each.replace(OTHERWISE, _CHOOSE) for each in told))


def _refuse_suite(name: str) -> None:
    """JSON and YAML files may be suites, which have checks of their own."""
    if not name.lower().endswith((".json", *YAML_ENDINGS)):
        return
    document = parse_document(read_input(name), name)
    if isinstance(document, dict) and _SUITE_FIELDS & document.keys():
        chosen = "--input, --expected, --id and --check"
        raise BadInput(f"{name}: a suite says this itself; {chosen} are for files of rows")


def _as_chosen(problem: Problem, file: str) -> Problem:
    """A problem of the document that was made, in the words of the command line."""
    place = problem.path.removeprefix(f"{file}, ").replace("$.data[0].map", "--input")
    return Problem(
        "$" if place == file else _CHECK.sub("--check", place), problem.message, problem.remedy
    )


def _told_once(problems: list[Problem]) -> list[Problem]:
    """What is wrong with an option is the same in every row, and told for the first of them."""
    told: dict[tuple[str, str], list[Problem]] = {}
    for each in problems:
        told.setdefault((each.message, each.remedy), []).append(each)
    return [
        first
        if not more
        else Problem(first.path, _and_more(first.message, len(more)), first.remedy)
        for first, *more in told.values()
    ]


def _and_more(message: str, count: int) -> str:
    return f"{message}, as in {count:,} more {'row' if count == 1 else 'rows'}"


def _named_check(file: str, text: str) -> dict[str, Any]:
    """A check that there is; raises `BadInput`, once and not for every row."""
    document = check_of(text)
    try:
        name_and_argument(document)
    except RefusedCheck as refused:
        known = text.partition(":")[0].strip()
        remedy = f"write {known}=VALUE" if known in CHECKS else refused.remedy
        raise BadInput(f"{file}: --check: {refused.message} ({remedy})") from None
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
