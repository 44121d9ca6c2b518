"""What a golden strategy is, and the strategies of the published suite schema.

To add one: write a module with a `GoldenStrategy`, and name it in `golden.STRATEGIES`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import (
    NotJson,
    has_text,
    is_same_text,
    json_equal,
    parse,
    stringify,
)
from evalwright.scoring.checks.mismatch import (
    first_difference,
    first_other_place,
)
from evalwright.scoring.checks.quotes import quoted_json as quoted

__all__ = ["CONTAINS", "EXACT", "JSON_MATCH", "GoldenStrategy", "left_to_score", "quoted"]


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


def _text_included(value: Any) -> dict[str, Any]:
    """That an output has this text.

    Text that looks like JSON is left to the score: an output that is an object is compared in its
    canonical form, which is not the text that an assertion sees.
    """
    if not isinstance(value, str) or not value or _JSON_MARKS & set(value):
        return {}
    return {"must_include": [value]}


def _explain_exact(output: Any, value: Any) -> str:
    got, wanted = stringify(output), stringify(value)
    at = first_other_place(got, wanted)
    return (
        f"the texts differ from character {at + 1} on: "
        f"expected {quoted(wanted[at:])}, got {quoted(got[at:])}"
    )


def _explain_contains(output: Any, value: Any) -> str:
    return f"{quoted(stringify(value))} is not in the output {quoted(stringify(output))}"


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
    return first_difference(_parsed(output), value, say=quoted) or ""


EXACT = GoldenStrategy(
    "exact",
    None,
    lambda output, value: (
        output == value
        if isinstance(output, str) and isinstance(value, str)
        else is_same_text(output, value)
    ),
    _explain_exact,
    _text_included,
)
CONTAINS = GoldenStrategy("contains", None, has_text, _explain_contains, _text_included)
JSON_MATCH = GoldenStrategy("json-match", None, _is_same_json, _explain_json, left_to_score)
