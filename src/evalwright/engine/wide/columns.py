"""From a row to a task: which column is what, as it is said or as the usual names suggest."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from evalwright.engine.wide.rows import Row
from evalwright.trace.model import text_of

_ASKED = (
    *("question", "prompt", "input", "inputs", "query", "instruction", "user_input", "problem"),
    *("request", "user_message", "message", "messages", "utterance", "task", "goal", "text"),
)
_WITH_IT = ("context", "passage", "choices", "options")
_EXPECTED = (
    *("expected", "expected_output", "expectedoutput", "expected_answer", "expected_response"),
    *("answer", "ideal", "ground_truth", "groundtruth", "gold", "gold_answer", "correct_answer"),
    *("reference", "reference_answer", "reference_output", "reference_outputs", "target"),
    *("label", "solution", "output", "outputs", "completion", "response", "answers"),
)
_IDS = ("id", "task_id", "taskid", "question_id", "questionid", "qid", "example_id", "uid", "uuid")
_TAGS = ("tags", "tag")
_TITLES = ("title",)
_WHOLE = ("input", "inputs")  # the input itself, not a part of it
_SEPARATORS = re.compile(r"\s*[,;]\s*")


class Fields(NamedTuple):
    """What is taken out of a row."""

    input: Any
    expected: Any
    id: Any
    tags: list[str]
    title: str


class UnknownColumn(Exception):
    """A map that names a column that a row does not have."""

    def __init__(self, field: str, column: str, columns: Iterable[str]) -> None:
        self.field = field
        self.column = column
        known = [each for each in columns if each]
        near = get_close_matches(column, known, 1)
        self.remedy = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        super().__init__(f"there is no column {column!r}")


def guessed(columns: Iterable[str]) -> dict[str, str]:
    """A map for columns with usual names; without one for the input, none can be told."""
    named = {re.sub(r"[\s-]+", "_", each.strip().lower()): each for each in columns if each}
    found: dict[str, str] = {}
    asked = next((name for name in _ASKED if name in named), None)
    if asked in _WHOLE:
        found["input"] = named[asked]
    elif asked:
        taken = [asked, *(name for name in _WITH_IT if name in named)]
        found |= {f"input.{named[name]}": named[name] for name in taken}
    for field, names in (
        ("expected", _EXPECTED),
        ("id", _IDS),
        ("tags", _TAGS),
        ("title", _TITLES),
    ):
        column = next((name for name in names if name in named and name != asked), None)
        if column:
            found[field] = named[column]
    return found


def as_told(fields: Mapping[str, str]) -> str:
    """A map in words."""
    return ", ".join(f"{field} from {column}" for field, column in fields.items())


def missing_columns(fields: Mapping[str, str], row: Row) -> list[UnknownColumn]:
    """Every column of a map that a row does not have."""
    return [
        UnknownColumn(each, column, row) for each, column in fields.items() if column not in row
    ]


def taker(fields: Mapping[str, str]) -> Callable[[Row], Fields]:
    """What takes the fields of a map out of rows; it raises `UnknownColumn`."""
    given = _value_of({k: v for k, v in fields.items() if _is_of(k, "input")}, "input")
    expected = _value_of({k: v for k, v in fields.items() if _is_of(k, "expected")}, "expected")
    id_column, tags_column = fields.get("id"), fields.get("tags")
    title_column = fields.get("title")

    def take(row: Row) -> Fields:
        try:
            return Fields(
                given(row),
                expected(row),
                None if id_column is None else row[id_column],
                [] if tags_column is None else tags_of(row[tags_column]),
                "" if title_column is None else text_of(row[title_column]).strip(),
            )
        except KeyError as missing:
            column = missing.args[0]
            field = next(field for field, each in fields.items() if each == column)
            raise UnknownColumn(field, column, row) from None

    return take


def _is_of(field: str, name: str) -> bool:
    return field == name or field.startswith(f"{name}.")


def _value_of(fields: dict[str, str], name: str) -> Callable[[Row], Any]:
    if not fields:
        return lambda _row: msgspec.UNSET
    if name in fields:
        column = fields[name]
        return lambda row: row[column]
    # A name with dots in it that is the column's own is one name.
    keys = [(field.removeprefix(f"{name}."), column) for field, column in fields.items()]
    if not any("." in key and key != column for key, column in keys):
        return lambda row: {key: row[column] for key, column in keys}

    def nested(row: Row) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, column in keys:
            *way, last = key.split(".") if key != column else [key]
            inner = built
            for part in way:
                within = inner.get(part)
                inner[part] = inner = within if isinstance(within, dict) else {}
            inner[last] = row[column]
        return built

    return nested


def tags_of(cell: Any) -> list[str]:
    """The tags in a cell: a list, or a text with commas or semicolons between them."""
    if isinstance(cell, str):
        cell = _SEPARATORS.split(cell.strip())
    if not isinstance(cell, list):
        cell = [] if cell is None else [cell]
    return [text for text in map(str, cell) if text]
