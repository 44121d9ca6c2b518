"""A payload as rows of a page: its fields, shortened with a mark, and what differs in them."""

from html import escape
from typing import Any

from evalwright.reports.html.markup import link_html, name_html, text_html
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
        return f"{_named(key)}{mark}>{body}"

    def marked_row(self, key: str, parts: list[Segment], cut: str) -> str:
        """One field with the words marked that differ; the parts are visible already."""
        body = "".join([_part(differs, part) for differs, part in parts]) + cut
        return f"{_named(key)}{_PARTLY}>{body}"

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


def _named(key: str) -> str:
    """The beginning of a row, up to where its mark stands."""
    return f"<dt>{name_html(key)}<dd" if key else "<dd"


def _part(differs: bool, part: str) -> str:  # noqa: FBT001 - a segment, unpacked
    text = escape(part, quote=False)
    return f"<mark>{text}</mark>" if differs else text


def compared_rows(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    """The rows of two payloads, with their differences marked; fields of both come first."""
    if type(a) is not dict or type(b) is not dict:
        return _of_other_kinds(a, b, old, new)
    rows_a: list[str] = []
    rows_b: list[str] = []
    for key, value in a.items():
        if len(rows_a) == old.fields:
            break
        if key in b:
            other = b[key]
            short = type(value) is str is type(other) and len(value) + len(other) < old.characters
            pair = _short_texts if short else _compared
            row, twin = pair(key, value, other, old, new)
            rows_b.append(twin)
        else:
            row = old.row(key, shown(value), _WHOLLY)
        rows_a.append(row)
    if len(rows_a) == len(a) == len(b) == len(rows_b):  # the same keys, all of them written
        return "".join(rows_a), "".join(rows_b)
    added = [key for key in b if key not in a][: new.fields - len(rows_b)]
    rows_b += [new.row(key, shown(b[key]), _WHOLLY) for key in added]
    rest_a, rest_b = old.rest(len(rows_a), len(a)), new.rest(len(rows_b), len(b))
    return "".join(rows_a) + rest_a, "".join(rows_b) + rest_b


def _short_texts(
    key: str, a: str, b: str, old: PayloadWriter, new: PayloadWriter
) -> tuple[str, str]:
    """Two texts that need not be shortened: most of what a page holds, so without detours."""
    if not a or not b or a[:4] == b[:4] or a[-4:] == b[-4:]:
        return _compared(key, a, b, old, new)
    named = _named(key)
    return f"{named}{_WHOLLY}>{text_html(a)}", f"{named}{_WHOLLY}>{text_html(b)}"


def _of_other_kinds(a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    if type(a) is dict or type(b) is dict:
        return old.row("", shown(a), _WHOLLY), new.row("", shown(b), _WHOLLY)
    return _compared("", a, b, old, new)


def _compared(key: str, a: Any, b: Any, old: PayloadWriter, new: PayloadWriter) -> tuple[str, str]:
    text_a, text_b = (a, b) if type(a) is str is type(b) and a and b else _texts(a, b)
    if text_a == text_b:
        row = old.row(key, text_a)
        return row, row if len(text_a) <= old.characters else new.row(key, text_b)
    if type(a) is not str and _equal(a, b):
        return old.row(key, text_a), new.row(key, text_b)
    if text_a[:4] != text_b[:4] and text_a[-4:] != text_b[-4:]:  # spares the search: quicker
        return old.row(key, text_a, _WHOLLY), new.row(key, text_b, _WHOLLY)
    return _marked(key, text_a, text_b, old, new)


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
