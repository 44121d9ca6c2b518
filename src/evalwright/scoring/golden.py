"""Golden scoring: `exact`, `contains` and `json-match`."""

from collections.abc import Callable
from typing import Any

from evalwright.contracts.jsonvalue import NotJson, canonical, parse
from evalwright.contracts.suite import Match


def score_golden(output: Any, match: Match) -> float:
    """1.0 when the output meets the expectation, else 0.0."""
    return 1.0 if _STRATEGIES[match.strategy](output, match.value) else 0.0


def stringify(value: Any) -> str:
    """A string as it is, anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical(value)


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, true is not 1, the order of keys is nothing."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            json_equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def _exact(output: Any, value: Any) -> bool:
    return stringify(output) == stringify(value)


def _contains(output: Any, value: Any) -> bool:
    return stringify(value) in stringify(output)


def _json_match(output: Any, value: Any) -> bool:
    if json_equal(output, value):
        return True
    if not isinstance(output, str):
        return False
    try:
        return json_equal(parse(output), value)
    except NotJson:
        return False


_STRATEGIES: dict[str, Callable[[Any, Any], bool]] = {
    "exact": _exact,
    "contains": _contains,
    "json-match": _json_match,
}
