"""What a golden strategy is, and the strategies of the published suite schema.

To add one: write a module with a `GoldenStrategy`, and name it in `golden.STRATEGIES`.
"""

from collections.abc import Callable
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
    return _first_difference(_parsed(output), value, "$")


def _first_difference(got: Any, wanted: Any, path: JsonPath) -> str:
    if isinstance(got, dict) and isinstance(wanted, dict):
        for key in sorted(got.keys() & wanted.keys()):
            if not json_equal(got[key], wanted[key]):
                return _first_difference(got[key], wanted[key], child(path, key))
        missing, added = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
        if missing:
            return f"{child(path, missing[0])}: missing, expected {quoted(wanted[missing[0]])}"
        return f"{child(path, added[0])}: not expected, got {quoted(got[added[0]])}"
    if isinstance(got, list) and isinstance(wanted, list):
        for place, (one, other) in enumerate(zip(got, wanted, strict=False)):
            if not json_equal(one, other):
                return _first_difference(one, other, child(path, place))
        return f"{path}: expected {len(wanted)} items, got {len(got)}"
    return f"{path}: expected {quoted(wanted)}, got {quoted(got)}"


EXACT = GoldenStrategy("exact", None, _is_exact, _explain_exact, _text_included)
CONTAINS = GoldenStrategy("contains", None, _contains, _explain_contains, _text_included)
JSON_MATCH = GoldenStrategy("json-match", None, _is_same_json, _explain_json, left_to_score)
