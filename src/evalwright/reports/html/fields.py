"""A payload as rows of a page: its fields, shortened with a mark, and what differs in them."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from evalwright.reports.html.display_text import as_json, display_text, shown
from evalwright.reports.html.markup import KnownNames, Parts, link_html, name_html
from evalwright.reports.html.worddiff import Segment, agreeing, mark_differences


class PayloadWriter:
    """Writes the payloads of one side; what it leaves out is in the file at `href`."""

    def __init__(self, events: int, href: str) -> None:
        self.parts: Parts = []
        self.characters, self.fields = _limits(events)
        self._href = href

    def rows(self, value: Any) -> None:
        """Write the rows of a payload that is not compared."""
        if type(value) is not dict or not value:
            self.row(_SAME[""], shown(value))
            return
        for key, each in islice(value.items(), self.fields):
            self.row(_SAME[key], shown(each))
        self.rest(len(value), self.fields)

    def row(self, opening: str, text: str) -> None:
        """Write one field and its text."""
        if len(text) <= self.characters:
            self.parts += (opening, text)
        else:
            self.parts += (opening, text[: self.characters], self._cut(text), "")

    def marked_row(self, opening: str, segments: Iterable[Segment], text: str, start: int) -> None:
        """Write a field with the words marked that differ; `start` is where they begin in it."""
        self.parts += (opening, "")
        for differs, words in segments:
            self.parts += ("<mark>", words, "</mark>", "") if differs else ("", words)
        if start or len(text) > self.characters:
            self.parts += (self._cut(text, start), "")

    def _cut(self, text: str, start: int = 0) -> str:
        """The remark that a text was shortened."""
        shown = min(self.characters, len(text) - start)
        place = f", from {start:,} on" if start else ""
        size = f"{shown:,} of {len(text):,} characters{place}"
        return f" {self._remark(size)}"

    def rest(self, fields: int, written: int) -> None:
        """Remark that fields were left out, where some were."""
        if written < fields:
            size = f"{written} of {fields:,} fields"
            self.parts += (f"<dd>{self._remark(size)}", "")

    def _remark(self, size: str) -> str:
        full = f"; full: {link_html(self._href)}" if self._href else ""
        return f'<small class="cut">[shortened, {size}{full}]</small>'


def _openings(mark: str) -> KnownNames:
    """The beginnings of rows with a mark, by their keys."""
    return KnownNames(lambda key: f"<dt>{name_html(key)}<dd{mark}>" if key else f"<dd{mark}>")


_SAME = _openings("")
_PARTLY = _openings(' class="x"')  # some words are marked
_WHOLLY = _openings(' class="x w"')


def write_compared(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> None:
    """Write the rows of two payloads with their differences marked; fields of both come first.

    All fields of a page pass here, so what is usual is written in place.
    """
    if type(a) is not dict or type(b) is not dict:
        _write_values(a, b, old, new)
        return
    shared, old_parts, new_parts = 0, old.parts, new.parts
    for key, value in islice(a.items(), old.fields):
        if key not in b:
            old.row(_WHOLLY[key], shown(value))
            continue
        shared += 1
        text_a, text_b = value, b[key]
        if type(text_a) is not str or type(text_b) is not str or not text_a or not text_b:
            text_a, text_b = _texts(text_a, text_b)
        same = text_a == text_b or (type(value) is not str and _equal(value, b[key]))
        if not same and (
            (text_a[0] == text_b[0] and text_a[:4] == text_b[:4])
            or (text_a[-1] == text_b[-1] and text_a[-4:] == text_b[-4:])
        ):  # else the search for what is common is spared; the first look is the quickest
            _write_marked(key, text_a, text_b, old, new)
            continue
        opening = _SAME[key] if same else _WHOLLY[key]
        if len(text_a) + len(text_b) > old.characters:
            old.row(opening, text_a)
            new.row(opening, text_b)
        else:
            old_parts += (opening, text_a)
            new_parts += (opening, text_b)
    if not shared == len(a) == len(b):
        _write_rest(a, b, shared, old, new)


def _write_rest(
    a: dict[str, Any], b: dict[str, Any], shared: int, old: PayloadWriter, new: PayloadWriter
) -> None:
    """Write the fields that only the second payload has, and how many were left out."""
    added = [key for key in b if key not in a][: new.fields - shared]
    for key in added:
        new.row(_WHOLLY[key], shown(b[key]))
    old.rest(len(a), old.fields)
    new.rest(len(b), shared + len(added))


def _write_values(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> None:
    """Write two payloads of which at least one has no fields."""
    if type(a) is dict or type(b) is dict:
        old.row(_WHOLLY[""], shown(a))
        new.row(_WHOLLY[""], shown(b))
    else:
        write_compared({"": a}, {"": b}, old, new)


def _texts(a: Any, b: Any) -> tuple[str, str]:
    """Both values as text; where they differ in their type alone, so that it can be seen."""
    text_a = shown(a)
    if a is b:
        return text_a, text_a
    text_b = shown(b)
    if type(a) is not type(b) and text_a == text_b:
        return as_json(a), as_json(b)
    return text_a, text_b


def _write_marked(key: str, a: str, b: str, old: PayloadWriter, new: PayloadWriter) -> None:
    """Write two texts with the words marked that differ, where they have enough in common."""
    start = _window(a, b, old.characters)
    end = start + old.characters
    marked = mark_differences(display_text(a[start:end]), display_text(b[start:end]))
    if marked is None:
        old.row(_WHOLLY[key], a)
        new.row(_WHOLLY[key], b)
    else:
        old.marked_row(_PARTLY[key], marked[0], a, start)
        new.marked_row(_PARTLY[key], marked[1], b, start)


def _window(a: str, b: str, size: int) -> int:
    """Where to begin to show two texts of which only a part is shown: before they part."""
    if len(a) <= size and len(b) <= size:
        return 0
    common = agreeing(a, b)
    return 0 if common < size // 2 else common - size // 4


def _equal(a: Any, b: Any) -> bool:
    """Whether two containers hold the same; their texts may differ in the order of keys."""
    if type(a) is not dict and type(a) is not list:
        return False
    try:
        return bool(a == b)
    except RecursionError:
        return False


def _limits(events: int) -> tuple[int, int]:
    """Characters of a field, and fields: fewer where events are very many, so the page opens."""
    if events <= 400:
        return 1_500, 40
    return (300, 12) if events <= 4_000 else (80, 4)
