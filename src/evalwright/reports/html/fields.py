"""A payload as rows of a page: its fields, shortened with a mark, and what differs in them."""

from itertools import islice
from typing import Any

from evalwright.reports.html.markup import (
    KnownNames,
    link_html,
    name_html,
    text_html,
    texts_html,
)
from evalwright.reports.html.visible import as_json, shown, visible
from evalwright.reports.html.worddiff import Segment, agreeing, mark_differences

_SAME = ""
_PARTLY = ' class="x"'  # some words are marked
_WHOLLY = ' class="x w"'


class PayloadWriter:
    """Writes the payloads of one side; what it leaves out is in the file at `href`."""

    def __init__(self, events: int, href: str) -> None:
        self.characters, self.fields = _limits(events)
        self._full = f"; full: {link_html(href)}" if href else ""

    def rows(self, value: Any) -> str:
        """The rows of a payload that is not compared."""
        if type(value) is dict and value:
            kept = list(value.items())[: self.fields]
            rows = [self.row(key, shown(each)) for key, each in kept]
            return "".join(rows) + self.rest(len(rows), len(value))
        return self.row("", shown(value))

    def row(self, key: str, text: str, mark: str = _SAME) -> str:
        """One field and its text."""
        if len(text) > self.characters:
            body = text_html(text[: self.characters]) + self.cut(text)
        else:
            body = text_html(text)
        return f"{_OPENINGS[key]}{mark}>{body}"

    def marked_row(self, key: str, parts: list[Segment], cut: str) -> str:
        """One field with the words marked that differ."""
        body = "".join([_part(differs, part) for differs, part in parts]) + cut
        return f"{_OPENINGS[key]}{_PARTLY}>{body}"

    def cut(self, text: str, start: int = 0) -> str:
        """The remark that a text was shortened, where it was."""
        if not start and len(text) <= self.characters:
            return ""
        shown = min(self.characters, len(text) - start)
        place = f", from {start:,} on" if start else ""
        size = f"{shown:,} of {len(text):,} characters{place}"
        return f' <small class="cut">[shortened, {size}{self._full}]</small>'

    def rest(self, written: int, fields: int) -> str:
        """The remark that fields were left out, where some were."""
        if written >= fields:
            return ""
        size = f"{written} of {fields:,} fields"
        return f'<dd><small class="cut">[shortened, {size}{self._full}]</small>'


# The beginnings of rows, by their keys, up to where the mark stands.
_OPENINGS = KnownNames(lambda key: f"<dt>{name_html(key)}<dd" if key else "<dd")


def _part(differs: bool, part: str) -> str:  # noqa: FBT001 - a segment, unpacked
    text = text_html(part)
    return f"<mark>{text}</mark>" if differs else text


def compared_rows(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    """The rows of two payloads, with their differences marked; fields of both come first."""
    if type(a) is not dict or type(b) is not dict:
        return _of_other_kinds(a, b, old, new)
    html_a = html_b = ""
    shared = 0
    kept = a if len(a) <= old.fields else dict(islice(a.items(), old.fields))
    for key, value in kept.items():
        if key in b:
            row, twin = _compared(key, value, b[key], old, new)
            html_b += twin
            shared += 1
        else:
            row = old.row(key, shown(value), _WHOLLY)
        html_a += row
    if shared == len(a) == len(b):
        return html_a, html_b
    added = [key for key in b if key not in a][: new.fields - shared]
    html_b += "".join([new.row(key, shown(b[key]), _WHOLLY) for key in added])
    return html_a + old.rest(len(kept), len(a)), html_b + new.rest(shared + len(added), len(b))


def _of_other_kinds(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    if type(a) is dict or type(b) is dict:
        return old.row("", shown(a), _WHOLLY), new.row("", shown(b), _WHOLLY)
    return _compared("", a, b, old, new)


def _compared(key: str, a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    text_a, text_b = (a, b) if type(a) is str is type(b) and a and b else _texts(a, b)
    if text_a == text_b and 2 * len(text_a) <= old.characters:
        row = f"{_OPENINGS[key]}>{text_html(text_a)}"
        return row, row
    if text_a == text_b or (type(a) is not str and _equal(a, b)):
        mark = _SAME
    elif (text_a[0] != text_b[0] or text_a[:4] != text_b[:4]) and (
        text_a[-1] != text_b[-1] or text_a[-4:] != text_b[-4:]
    ):  # spares the search for what is common; the first look is the quickest
        mark = _WHOLLY
    else:
        return _marked(key, text_a, text_b, old, new)
    if len(text_a) + len(text_b) > old.characters:
        return old.row(key, text_a, mark), new.row(key, text_b, mark)
    opening = _OPENINGS[key]
    html_a, html_b = texts_html(text_a, text_b)
    return f"{opening}{mark}>{html_a}", f"{opening}{mark}>{html_b}"


def _texts(a: Any, b: Any) -> tuple[str, str]:
    """Both values as text; where they differ in their type alone, so that it can be seen."""
    text_a, text_b = shown(a), shown(b)
    if type(a) is not type(b) and text_a == text_b:
        return as_json(a), as_json(b)
    return text_a, text_b


def _marked(key: str, a: str, b: str, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    start = _window(a, b, old.characters)
    end = start + old.characters
    marked = mark_differences(visible(a[start:end]), visible(b[start:end]))
    if marked is None:
        return old.row(key, a, _WHOLLY), new.row(key, b, _WHOLLY)
    return (
        old.marked_row(key, marked[0], old.cut(a, start)),
        new.marked_row(key, marked[1], new.cut(b, start)),
    )


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
