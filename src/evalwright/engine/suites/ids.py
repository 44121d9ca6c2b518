"""Ids of tasks: as they are given, or made from the content, and none of them twice."""

import re
from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from evalwright.contracts.suite import MAX_TASK_ID

_NOT_A_SLUG = re.compile(r"[^a-z0-9]+")
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_KEPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.:/#-]*")  # a slug of these is as good as themselves
_NUMBER = 40  # bits


class Ids:
    """Which ids are taken, and where; it holds numbers only, as there may be many rows."""

    def __init__(self, place: Callable[[int], str]) -> None:
        self._places = [place]
        self._taken: set[int] = set()
        self._order, self._numbers = array("q"), array("q")  # of what was taken
        self._counts: dict[str, int] = {}

    def enter(self, place: Callable[[int], str]) -> None:
        """Begin with another source of tasks; `place` tells where its number n stands."""
        self._places.append(place)

    def claim(self, task_id: str, number: int) -> bool:
        """Take an id for a task; False if it was taken before."""
        key = hash(task_id)
        if key in self._taken:
            return False
        self._taken.add(key)
        self._order.append(key)
        self._numbers.append((len(self._places) - 1) << _NUMBER | number)
        return True

    def place(self, task_id: str) -> str:
        return self._place(self._numbers[self._order.index(hash(task_id))])

    def _place(self, code: int) -> str:
        return self._places[code >> _NUMBER](code & (1 << _NUMBER) - 1)

    @property
    def last_place(self) -> str:
        return self._place(self._numbers[-1])

    def numbered(self, task_id: str, number: int) -> str:
        while True:
            count = self._counts[task_id] = self._counts.get(task_id, 1) + 1
            made = f"{task_id}-{count}"
            if self.claim(made, number):
                return made


def slug(text: str) -> str:
    """A text as an id of a task: lower-case letters, digits and hyphens; empty if none is left."""
    if _PLAIN_ID.fullmatch(text):
        return text
    return _NOT_A_SLUG.sub("-", text.lower()).strip("-")[:MAX_TASK_ID]


def row_id(cell: Any) -> str | None:
    """The id of a row from its cell; None if that is empty."""
    if cell is None or cell == "":
        return None
    text = cell if isinstance(cell, str) else msgspec.json.encode(cell).decode()
    if _PLAIN_ID.fullmatch(text):
        return text
    plain = slug(text)
    if _KEPT.fullmatch(text) and len(text) <= MAX_TASK_ID:
        return plain
    return f"{plain[: MAX_TASK_ID - 13]}-{digest(text)}".lstrip("-")


def part_of_id(value: Any) -> str:
    """A value as a part of an id: itself where that is short and plain, else a hash of it."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    plain = slug(text)
    return plain if 0 < len(plain) <= 24 and plain == text.lower() else digest(value)[:8]


def content_id(kind: str, given: Any, reference: Any) -> str:
    """An id that stays as long as what is asked, and what is expected, stays."""
    return f"{kind}-{digest([given, None if reference is msgspec.UNSET else reference])}"


def digest(value: Any) -> str:
    """Twelve digits that tell a value from others."""
    return blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=6).hexdigest()
