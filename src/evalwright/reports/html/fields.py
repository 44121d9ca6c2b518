"""A payload as rows of a page: its fields, shortened with a mark, and what differs in them."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from evalwright.reports.html.markup import (
    NO_HTML,
    Html,
    KnownNames,
    Parts,
    as_json,
    display_text,
    equal,
    link_html,
    name_html,
    shown,
)
from evalwright.reports.html.worddiff import Segment, agreeing, mark_differences


class PayloadWriter:
    """Writes the payloads of one side; what it leaves out is in the file at `href`."""

    def __init__(self, events: int, href: str) -> None:
        self.parts = Parts()
        # Less where events are very many, so that a browser can open the page.
        self.characters, self.fields = (
            (1_500, 40) if events <= 400 else (300, 12) if events <= 4_000 else (80, 4)
        )
        self._href = href

    def rows(self, value: Any) -> None:
        """Write the rows of a payload that is not compared."""
        if type(value) is not dict or not value:
            self.row(_SAME[""], shown(value))
            return
        for key, each in islice(value.items(), self.fields):
            self.row(_SAME[key], shown(each))
        self.rest(len(value), self.fields)

    def row(self, opening: Html, text: str) -> None:
        """Write one field and its text."""
        if len(text) <= self.characters:
            self.parts += (opening, text)
        else:
            self.parts += (opening, text[: self.characters], self._cut(text), "")

    def marked_row(self, opening: Html, segments: Iterable[Segment], text: str, start: int) -> None:
        """Write a field with the words marked that differ; `start` is where they begin in it."""
        self.parts += (opening, "")
        for differs, words in segments:
            self.parts += (_MARK, words, _END_OF_MARK, "") if differs else (NO_HTML, words)
        if start or len(text) > self.characters:
            self.parts += (self._cut(text, start), "")

    def _cut(self, text: str, start: int = 0) -> Html:
        """The remark that a text was shortened."""
        shown = min(self.characters, len(text) - start)
        place = Html(f", from {start:,} on" if start else "")
        size = Html(f"{shown:,} of {len(text):,} characters{place}")
        return Html(f" {self._remark(size)}")

    def rest(self, fields: int, written: int) -> None:
        """Remark that fields were left out, where some were."""
        if written < fields:
            size = Html(f"{written} of {fields:,} fields")
            self.parts += (Html(f"<dd>{self._remark(size)}"), "")

    def _remark(self, size: Html) -> Html:
        full = Html(f"; full: {link_html(self._href)}" if self._href else "")
        return Html(f'<small class="cut">[shortened, {size}{full}]</small>')


_MARK, _END_OF_MARK = Html("<mark>"), Html("</mark>")


def _openings(mark: Html) -> KnownNames:
    """The beginnings of rows with a mark, by their keys."""

    def opening(key: str) -> Html:
        return Html(f"<dt>{name_html(key)}<dd{mark}>" if key else f"<dt hidden>value<dd{mark}>")

    return KnownNames(opening)


_SAME = _openings(NO_HTML)
_PARTLY = _openings(Html(' class="x"'))  # some words are marked
_WHOLLY = _openings(Html(' class="x w"'))


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
        # Texts of containers may differ in the order of keys alone.
        same = text_a == text_b or (
            (type(value) is dict or type(value) is list) and equal(value, b[key])
        )
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
