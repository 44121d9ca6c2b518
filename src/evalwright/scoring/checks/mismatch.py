"""How outputs are held against what is expected of them, and where they differ.

Shared by the checks, the golden strategies of OpenWOP suites and the expectations of `compare`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from evalwright.contracts.jsonvalue import JsonPath, NotJson, child, json_equal, parse
from evalwright.scoring.checks.quotes import quoted, quoted_json

Made = TypeVar("Made")
Say = Callable[[Any], str]

_PIECE = 256


def found_among(texts: Sequence[str], folded: str) -> list[str]:
    """Those of the texts that are in an output without regard to case."""
    return [text for text in texts if text.casefold() in folded]


def most_in_order(wanted: Sequence[Callable[[Made], bool]], made: Iterable[Made]) -> int:
    """How many of the wanted ones come after each other, with others in between."""
    rest = iter(made)
    for count, is_it in enumerate(wanted):
        if not any(map(is_it, rest)):  # looks on from where the last one was found
            return count
    return len(wanted)


def first_other_place(got: str, wanted: str) -> int:
    """Where two texts differ first; the end of the shorter one, if it is how the other begins."""
    shared = min(len(got), len(wanted))
    for start in range(0, shared, _PIECE):
        if got[start : start + _PIECE] != wanted[start : start + _PIECE]:
            end = min(shared, start + _PIECE)
            return next((at for at in range(start, end) if got[at] != wanted[at]), end)
    return shared


def parsed(output: Any) -> Any:
    """The data that a text of JSON holds; anything else as it is."""
    try:
        return parse(output) if isinstance(output, str) else output
    except NotJson:
        return output


def told(value: Any) -> str:
    """A value within a message about values, where a text has to be told from a number."""
    try:
        return quoted_json(value)
    except NotJson:
        return quoted(value)


def first_difference(got: Any, wanted: Any, path: JsonPath = "$", say: Say = told) -> str | None:
    """Where two JSON values differ first, or None: every part is looked at once."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        shared = sorted(got.keys() & wanted.keys())
        pairs = [(got[key], wanted[key], key) for key in shared]
        if found := _first_in(pairs, path, say):
            return found
        if missing := wanted.keys() - got.keys():
            first = min(missing)
            return f"{child(path, first)}: missing, expected {say(wanted[first])}"
        if added := got.keys() - wanted.keys():
            first = min(added)
            return f"{child(path, first)}: not expected, got {say(got[first])}"
        return None
    if isinstance(got, list) and isinstance(wanted, list):
        found = _first_in(zip(got, wanted, range(len(got)), strict=False), path, say)
        lengths = f"{path}: expected {len(wanted)} items, got {len(got)}"
        return found or (lengths if len(got) != len(wanted) else None)
    if json_equal(got, wanted):
        return None
    return f"{path}: expected {say(wanted)}, got {say(got)}"


def _first_in(pairs: Iterable[tuple[Any, Any, str | int]], path: JsonPath, say: Say) -> str | None:
    found = (first_difference(got, want, child(path, key), say) for got, want, key in pairs)
    return next(filter(None, found), None)
