"""How outputs are held against what is expected of them, and where they differ.

Shared by the checks, the golden strategies of portable suites and the expectations of `compare`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from unicodedata import normalize

from evalwright.contracts.jsonvalue import JsonPath, NotJson, child, json_equal
from evalwright.scoring.checks.quoting import piece, quoted, quoted_json

Made = TypeVar("Made")
Say = Callable[[Any], str]

_JSON_MARKS = frozenset('{}[]"')
_PIECE = 256
_BEFORE = 12  # characters before a difference that show where it is


def text_included(value: Any) -> dict[str, Any]:
    """What a case of a compare report expects of an output that has this text.

    Text that looks like JSON is left to the score: an output that is an object is compared in its
    canonical form, which is not the text that an assertion sees.
    """
    if not isinstance(value, str) or not value or _JSON_MARKS & set(value):
        return {}
    return {"must_include": [value]}


def found_among(texts: Sequence[str], output: str, *, ignore_case: bool) -> list[str]:
    """Those of the texts that are in the output."""
    if not ignore_case:
        return [text for text in texts if text in output]
    folded = output.casefold()
    return [text for text in texts if text.casefold() in folded]


def most_in_order(wanted: Sequence[Callable[[Made], bool]], made: Iterable[Made]) -> int:
    """How many of the wanted ones come after each other, with others in between."""
    rest = iter(made)
    for count, is_it in enumerate(wanted):
        if not any(map(is_it, rest)):  # looks on from where the last one was found
            return count
    return len(wanted)


def text_difference(got: str, wanted: str) -> tuple[str, int]:
    """Where two texts that are not equal differ first, said and as a place in them."""
    place = first_other_place(got, wanted)
    if not got:
        return "the output is empty", 0
    if got.casefold() == wanted.casefold():
        return "they differ only in case, which `ignore_case: true` accepts", place
    if got.strip() == wanted.strip():
        return "they differ only in the white space around them", place
    if " ".join(got.split()) == " ".join(wanted.split()):
        return "they differ only in white space", place
    if not got.isascii() and normalize("NFC", got) == normalize("NFC", wanted):
        return "they look the same: only the forms of their characters differ (NFC, NFD)", place
    after = f" after {piece(wanted[:place], place - _BEFORE, place)}" if place else ""
    found = f"got {piece(got, place, place + 40)}" if place < len(got) else "the output ends"
    said = f"expected {piece(wanted, place, place + 40)}"
    said = said if place < len(wanted) else "nothing more was expected"
    return f"from character {place + 1} on{after}, {said}, {found}", place


def first_other_place(got: str, wanted: str) -> int:
    """Where two texts differ first; the end of the shorter one, if it is how the other begins."""
    shared = min(len(got), len(wanted))
    for start in range(0, shared, _PIECE):
        if got[start : start + _PIECE] != wanted[start : start + _PIECE]:
            end = min(shared, start + _PIECE)
            return next((at for at in range(start, end) if got[at] != wanted[at]), end)
    return shared


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
        return _first_in(pairs, path, say) or _other_keys(got, wanted, path, say)
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


def _other_keys(
    got: dict[str, Any], wanted: dict[str, Any], path: JsonPath, say: Say
) -> str | None:
    missing, added = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
    if missing:
        return f"{child(path, missing[0])}: missing, expected {say(wanted[missing[0]])}"
    if added:
        return f"{child(path, added[0])}: not expected, got {say(got[added[0]])}"
    return None
