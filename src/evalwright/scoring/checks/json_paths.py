"""Paths into JSON (`$.a[0].b`), and the JSON that a text holds."""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from evalwright.contracts.jsonvalue import NotJson, parse

MOST_STARTS = 64  # places of a text at which JSON is looked for
_LONGEST_TEXT = 2_000_000

_PART = re.compile(
    r"""\.(?P<name>[^\s.\[\]'"*]+)|\.(?P<all>\*)|\[(?P<each>\*)\]|\[(?P<index>-?\d{1,9})\]"""
    r"""|\['(?P<single>(?:[^'\\]|\\.)*)'\]|\["(?P<double>(?:[^"\\]|\\.)*)"\]"""
)
_FENCES = ("```", "~~~")
_START = re.compile(r"[{\[]")


class Absent:
    """Nothing is at a path."""


ABSENT = Absent()
Part = str | int | None  # None stands for each of the members


@lru_cache(maxsize=4096)
def path_parts(path: str) -> tuple[Part, ...]:
    """The steps of a path; raises `ValueError` with what is wrong with it."""
    if not path.startswith("$"):
        raise ValueError("a path begins with $")
    parts: list[Part] = []
    place = 1
    while place < len(path):
        found = _PART.match(path, place)
        if found is None:
            raise ValueError(f"cannot be read from character {place + 1} on: {path[place:][:40]}")
        parts.append(_part(found))
        place = found.end()
    return tuple(parts)


def _part(found: re.Match[str]) -> Part:
    if found["index"] is not None:
        return int(found["index"])
    if found["all"] or found["each"]:
        return None
    if found["name"] is not None:
        return found["name"]
    quoted = found["single"] if found["single"] is not None else found["double"]
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)


def value_at(value: Any, parts: tuple[Part, ...]) -> tuple[Any, int]:
    """What stands at a path, or `ABSENT`, and how many of its steps there are.

    After a step to each member, it is the list of what is found from there on.
    """
    for place, part in enumerate(parts):
        if part is None:
            members = value.values() if isinstance(value, dict) else value
            if isinstance(members, str) or not hasattr(members, "__iter__"):
                return ABSENT, place
            rest = [value_at(member, parts[place + 1 :])[0] for member in members]
            return [each for each in rest if each is not ABSENT], len(parts)
        value = _member(value, part)
        if value is ABSENT:
            return ABSENT, place
    return value, len(parts)


def _member(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        if isinstance(value, list | tuple) and -len(value) <= part < len(value):
            return value[part]
        return ABSENT
    return value.get(part, ABSENT) if isinstance(value, dict) else ABSENT


def json_of(output: Any, *, strict: bool, anywhere: bool) -> Any:
    """The JSON that an output is or holds: all of it, a fenced block, or, if `anywhere`, a part."""
    if not isinstance(output, str):
        return output
    whole = _parsed(output)
    if whole is not ABSENT or strict or len(output) > _LONGEST_TEXT:
        return whole
    for block in _fenced(output):
        if (found := _parsed(block)) is not ABSENT:
            return found
    return _part_of_text(output) if anywhere else ABSENT


def _fenced(text: str) -> Iterator[str]:
    if not any(fence in text for fence in _FENCES):
        return
    fence = ""
    block: list[str] = []
    for line in text.splitlines(keepends=True):
        mark = line.strip()[:3]
        if not fence and mark in _FENCES:
            fence, block = mark, []
        elif fence and mark == fence:
            yield "".join(block)
            fence = ""
        elif fence:
            block.append(line)


def _parsed(text: str) -> Any:
    if text[:1].isalpha() and text[:1] not in "tfn":  # not even the beginning of JSON
        return ABSENT
    try:
        return parse(text)
    except NotJson:
        return ABSENT


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    parse_constant=_refuse_constant
).raw_decode


def _part_of_text(text: str) -> Any:
    for number, start in enumerate(_START.finditer(text)):
        if number == MOST_STARTS:
            break
        try:
            return _decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue
    return ABSENT
