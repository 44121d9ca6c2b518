"""What a golden strategy is, and the strategies of the published suite schema.

To add one: write a module with a `GoldenStrategy`, and name it in `golden.STRATEGIES`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import (
    JsonPath,
    NotJson,
    canonical,
    child,
    json_equal,
    parse,
    stringify,
)

_LONGEST_QUOTE = 80
_JSON_MARKS = frozenset('{}[]"')


class GoldenStrategy(msgspec.Struct, frozen=True):
    """One way to hold an output against the expected value of a task.

    `refuse` says why a value cannot be expected, or None; without it all values can. It is asked
    of any JSON value before the run starts, so `matches` and `explain` see valid values only.
    `explain` says where an output that does not match differs. `assertion` gives the fields that a
    case of a compare report gets under `expected`: empty where only the score can tell.
    """

    name: str
    refuse: Callable[[Any], str | None] | None
    matches: Callable[[Any, Any], bool]
    explain: Callable[[Any, Any], str]
    assertion: Callable[[Any], dict[str, Any]]


def left_to_score(value: Any) -> dict[str, Any]:  # noqa: ARG001
    """No assertion: only the score can tell."""
    return {}


def quoted(value: Any) -> str:
    """A value as JSON, shortened for a message."""
    text = canonical(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


def _is_exact(output: Any, value: Any) -> bool:
    return stringify(output) == stringify(value)


def _explain_exact(output: Any, value: Any) -> str:
    got, wanted = stringify(output), stringify(value)
    shared = min(len(got), len(wanted))
    at = next((place for place in range(shared) if got[place] != wanted[place]), shared)
    return (
        f"the texts differ from character {at + 1} on: "
        f"expected {quoted(wanted[at:])}, got {quoted(got[at:])}"
    )


def _contains(output: Any, value: Any) -> bool:
    return stringify(value) in stringify(output)


def _explain_contains(output: Any, value: Any) -> str:
    return f"{quoted(stringify(value))} is not in the output {quoted(stringify(output))}"


def _text_included(value: Any) -> dict[str, Any]:
    """Text that looks like JSON is left to the score.

    An output that is an object is compared in its canonical form, which is not the text that an
    assertion sees.
    """
    if not isinstance(value, str) or not value or _JSON_MARKS & set(value):
        return {}
    return {"must_include": [value]}


def _is_same_json(output: Any, value: Any) -> bool:
    if json_equal(output, value):
        return True
    return isinstance(output, str) and json_equal(_parsed(output), value)


def _parsed(output: Any) -> Any:
    """The data that a string of JSON holds; anything else as it is."""
    try:
        return parse(output) if isinstance(output, str) else output
    except NotJson:
        return output


def _explain_json(output: Any, value: Any) -> str:
    return _first_difference(_parsed(output), value, "$") or ""


def _first_difference(got: Any, wanted: Any, path: JsonPath) -> str | None:
    """Where two values differ first, or None: every part is looked at once."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        shared = sorted(got.keys() & wanted.keys())
        return _first_in([(got[key], wanted[key], key) for key in shared], path) or _other_keys(
            got, wanted, path
        )
    if isinstance(got, list) and isinstance(wanted, list):
        pairs = zip(got, wanted, range(len(got)), strict=False)
        lengths = f"{path}: expected {len(wanted)} items, got {len(got)}"
        return _first_in(pairs, path) or (lengths if len(got) != len(wanted) else None)
    if json_equal(got, wanted):
        return None
    return f"{path}: expected {quoted(wanted)}, got {quoted(got)}"


def _first_in(pairs: Iterable[tuple[Any, Any, str | int]], path: JsonPath) -> str | None:
    found = (_first_difference(got, wanted, child(path, key)) for got, wanted, key in pairs)
    return next(filter(None, found), None)


def _other_keys(got: dict[str, Any], wanted: dict[str, Any], path: JsonPath) -> str | None:
    missing, added = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
    if missing:
        return f"{child(path, missing[0])}: missing, expected {quoted(wanted[missing[0]])}"
    if added:
        return f"{child(path, added[0])}: not expected, got {quoted(got[added[0]])}"
    return None


EXACT = GoldenStrategy("exact", None, _is_exact, _explain_exact, _text_included)
CONTAINS = GoldenStrategy("contains", None, _contains, _explain_contains, _text_included)
JSON_MATCH = GoldenStrategy("json-match", None, _is_same_json, _explain_json, left_to_score)
