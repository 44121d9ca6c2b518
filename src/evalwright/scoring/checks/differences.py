"""Where two texts or two JSON values differ first."""

from collections.abc import Iterable
from typing import Any

from evalwright.contracts.jsonvalue import JsonPath, child, json_equal
from evalwright.scoring.checks.quoting import quoted

_PIECE = 256
_BEFORE = 12  # characters before a difference that show where it is
_DEEPEST = 200


def text_difference(got: str, wanted: str) -> tuple[str, int]:
    """Where two texts that are not equal differ first, said and as a place in them."""
    place = _first_other_place(got, wanted)
    if not got:
        return "the output is empty", 0
    if got.casefold() == wanted.casefold():
        return "they differ only in case, which `ignore_case: true` accepts", place
    if got.strip() == wanted.strip():
        return "they differ only in the white space around them", place
    if " ".join(got.split()) == " ".join(wanted.split()):
        return "they differ only in white space", place
    start = max(0, place - _BEFORE)
    after = f" after {quoted(wanted[start:place])}" if place else ""
    has, needs = got[place : place + 40], wanted[place : place + 40]
    found = f"got {quoted(has)}" if has else "the output ends"
    said = f"expected {quoted(needs)}" if needs else "nothing more was expected"
    return f"from character {place + 1} on{after}, {said}, {found}", place


def _first_other_place(got: str, wanted: str) -> int:
    shared = min(len(got), len(wanted))
    for start in range(0, shared, _PIECE):
        if got[start : start + _PIECE] != wanted[start : start + _PIECE]:
            end = min(shared, start + _PIECE)
            return next((at for at in range(start, end) if got[at] != wanted[at]), end)
    return shared


def first_difference(got: Any, wanted: Any, path: JsonPath = "$", depth: int = 0) -> str | None:
    """Where two JSON values differ first, or None: every part is looked at once."""
    if depth > _DEEPEST:
        return f"{path}: nested too deeply to be compared"
    if isinstance(got, dict) and isinstance(wanted, dict):
        shared = sorted(got.keys() & wanted.keys())
        pairs = [(got[key], wanted[key], key) for key in shared]
        return _first_in(pairs, path, depth) or _other_keys(got, wanted, path)
    if isinstance(got, list) and isinstance(wanted, list):
        found = _first_in(zip(got, wanted, range(len(got)), strict=False), path, depth)
        lengths = f"{path}: expected {len(wanted)} items, got {len(got)}"
        return found or (lengths if len(got) != len(wanted) else None)
    if json_equal(got, wanted):
        return None
    return f"{path}: expected {_value(wanted)}, got {_value(got)}"


def _first_in(
    pairs: Iterable[tuple[Any, Any, str | int]], path: JsonPath, depth: int
) -> str | None:
    found = (first_difference(got, want, child(path, key), depth + 1) for got, want, key in pairs)
    return next(filter(None, found), None)


def _other_keys(got: dict[str, Any], wanted: dict[str, Any], path: JsonPath) -> str | None:
    missing, added = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
    if missing:
        return f"{child(path, missing[0])}: missing, expected {_value(wanted[missing[0]])}"
    if added:
        return f"{child(path, added[0])}: not expected, got {_value(got[added[0]])}"
    return None


def _value(value: Any) -> str:
    return quoted(value)
