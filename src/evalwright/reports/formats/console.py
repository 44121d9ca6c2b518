"""Text on a console: shapes, columns and wrapped lines; from outside, nothing steers the terminal.

The shapes are those of the pages. Colour repeats them, and is on where a terminal wants it.
"""

import codecs
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TextIO, TypeAlias

import msgspec

from evalwright.contracts.jsonvalue import NotJson, stringify

PLAIN_ERRORS = "evalwright-plain"  # how a stream deals with what it cannot say
SHORT = 160
WIDTH = 80  # columns, of what is no terminal
_WIDTHS = 60, 120  # that lines have on narrow and wide terminals
_LEAST = 8  # columns of a text that is cut
_PARTS = " ▏▎▍▌▋▊▉█"  # of a column, in eighths
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WORDS = re.compile(r"\s*\S+")
_PIECES = re.compile(r"(?:(?<=: )|^)evalwright [^;]*\S|\S*`[^`]+`\S*|\S+")  # of a message
_CUT = re.compile(r"[!-~]{2}…|…")

Shape: TypeAlias = Literal["passed", "failed", "error", "flaky", "running", "waiting", "ship"]
SHAPES: dict[Shape, str] = {
    "passed": "○",
    "failed": "■",  # or do not ship
    "error": "▲",  # or it cannot be told
    "flaky": "◆",
    "running": "◐",
    "waiting": "·",
    "ship": "●",  # it may
}
_TONES: dict[Shape, str] = {
    "passed": "32",
    "ship": "32",
    "failed": "31",
    "error": "33",
    "flaky": "33",
    "running": "36",
    "waiting": "2",
}
# What a terminal has in their place that does not know them; most take as much room.
_PLAIN = {
    **dict(zip("○■▲◆◐·−–—×█▉▊▋▌▍▎▏░’‘“”•⏎≈▼", "ox!~>.---x####====.''\"\"*/~v", strict=True)),  # noqa: RUF001
    "●": "ok",
    "→": "->",
    "↓": "v",
    "…": "...",
    "±": "+-",
    "✓": "o",
    "✗": "x",
}


def printable(text: str) -> str:
    """The text without control characters: nothing an agent says may steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char == "\n"
        else char.encode("unicode_escape", "backslashreplace").decode("ascii")
        for char in text
    )


def encoded(text: str, encoding: str) -> bytes:
    """The text for a stream; where it knows a character not, there is plain ASCII in its place."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        with suppress(UnicodeEncodeError):
            "…".encode(encoding)
            return text.encode(encoding, PLAIN_ERRORS)
        return _CUT.sub("...", text).encode(encoding, PLAIN_ERRORS)  # as wide as before


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that a stream does not know, as wide as they are."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char) or _likeness(char) for char in unknown), error.end


def _likeness(char: str) -> str:
    if unicodedata.category(char) == "Cs":  # a byte of a path that is no text
        return char.encode("unicode_escape", "backslashreplace").decode("ascii")
    parts = unicodedata.normalize("NFKD", char)
    if parts[0].isascii() and all(map(unicodedata.combining, parts[1:])):
        return parts[0]
    return "?" * _width(char)


codecs.register_error(PLAIN_ERRORS, _plain)


def one_line(value: Any, limit: int | None = SHORT) -> str:
    """A JSON value on one line, cut at the limit, always with a mark."""
    text = printable(_text(value).replace("\n", "⏎"))
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def _text(value: Any) -> str:
    try:
        return stringify(value)
    except NotJson:  # nested too deeply to be sorted
        return msgspec.json.encode(value).decode()


def width(text: str) -> int:
    """How many columns a text takes, without its colours."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    return sum(map(_width, _COLOURS.sub("", text)))


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, room: int) -> str:
    """The beginning of a text on one line, with a mark where it does not fit."""
    line = printable(" ".join(text[: 8 * room + 8].split()))
    if width(line) <= room and len(text) <= 8 * room + 8:
        return line
    return f"{_beginning(line, room - 1).rstrip()}…"


def _beginning(text: str, room: int) -> str:
    """As much of a text as there is room for."""
    used = 0
    for place, char in enumerate(text[: room + 1] if text.isascii() else text):
        used += _width(char)
        if used > room:
            return text[:place]
    return text


def wrapped(text: str, room: int, indent: str = "", hanging: str | None = None) -> list[str]:
    """The lines of a text, broken between words; `hanging` begins all but the first."""
    begin = indent if hanging is None else hanging
    lines: list[str] = []
    for paragraph in printable(text).splitlines() or [""]:
        line = ""
        for word in _WORDS.findall(paragraph):
            left = room - width(indent) - width(line)
            while len(word) > 4 * room or width(word) > left:
                is_long = len(word) > 4 * room or width(word) > room - width(begin)
                if line.strip() and (not is_long or left < _LEAST):
                    lines.append(indent + line)
                    word = word.lstrip()  # noqa: PLW2901 - without the space between
                else:  # a word that is longer than a line
                    head = _beginning(word, max(left, 1)) or word[:1]
                    lines.append(indent + line + head)
                    word = word[len(head) :]  # noqa: PLW2901
                line, indent = "", begin
                left = room - width(indent)
            line += word
        lines.append((indent + line).rstrip())
        indent = begin
    return lines


def folded(text: str, room: int) -> list[str]:
    """The lines of a message; what is copied stays whole: paths, addresses, commands."""
    lines: list[str] = []
    for paragraph in printable(text).splitlines() or [""]:
        if width(paragraph) <= room:
            lines.append(paragraph)
            continue
        line = indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
        for piece in _PIECES.findall(paragraph):
            if line.strip() and width(line) + 1 + width(piece) > room:
                lines.append(line)
                line = f"{indent}  "
            line += f" {piece}" if line.strip() else piece
        lines.append(line)
    return lines


def definitions(rows: Iterable[tuple[str, str]], room: int) -> list[str]:
    """Names, each with what it means beside it."""
    rows = list(rows)
    indent = max((width(name) for name, _ in rows), default=0) + 2
    return [
        line
        for name, text in rows
        for line in wrapped(f"{name:<{indent}}{text}", room, hanging=" " * indent)
    ]


def columns(rows: Sequence[Sequence[str]], kinds: str, room: int = WIDTH) -> list[str]:
    """Rows of cells as lines with columns.

    Each has a kind: `.` a shape beside the next cell, `<` a word, `>` a figure, which are never
    cut, `~` a text that is cut to the room that these leave. Columns without any text are left out.
    """
    rows = [
        [cut(text, room) if kinds[place] == "~" else text for place, text in enumerate(row)]
        for row in rows
    ]
    used = [place for place in range(len(kinds)) if any(row[place] for row in rows)]
    widths = {place: max(width(row[place]) for row in rows) for place in used}
    left = room - 2 * (len(used) - 1) + sum(kinds[place] == "." for place in used)
    left -= sum(widths[place] for place in used if kinds[place] != "~")
    texts = sorted((place for place in used if kinds[place] == "~"), key=widths.__getitem__)
    for number, place in enumerate(texts):
        widths[place] = min(widths[place], max(_LEAST, left // (len(texts) - number)))
        left -= widths[place]
    return [
        "".join(_cell(row[place], kinds[place], widths[place]) for place in used).rstrip()
        for row in rows
    ]


def _cell(text: str, kind: str, room: int) -> str:
    if kind == "~":
        text = cut(text, room) if width(text) > room else text
    space = " " * (room - width(text))
    gap = " " if kind == "." else "  "
    return (space + text if kind == ">" else text + space) + gap


def drawn_bar(share: float, size: int = 12) -> str:
    """A share from 0 to 1 as a bar."""
    eighths = round(8 * size * min(max(share, 0.0), 1.0))
    full, rest = divmod(eighths, 8)
    return f"{'█' * full}{_PARTS[rest] if rest else ''}".ljust(size, "·")


def draws(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Style(NamedTuple):
    """Marks text for a terminal, or leaves it plain, and says how wide lines may be."""

    colour: bool
    width: int = WIDTH

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """The style that fits a stream: colour on a terminal, unless `NO_COLOR` is set."""
        least, most = _WIDTHS
        room = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, least), most)
        return cls(colour=not os.environ.get("NO_COLOR") and draws(stream), width=room)

    @property
    def is_narrow(self) -> bool:
        """Whether lines have less room than usual, so that some columns are left out."""
        return self.width < WIDTH

    def shape(self, shape: Shape, times: int = 1) -> str:
        """A shape, several times."""
        return self._mark(_TONES[shape], SHAPES[shape] * times) if times else ""

    def tasks(self, counts: Iterable[tuple[Shape, int]], most: int = 40) -> str:
        """A shape for each task, or of many tasks as many as show the shares."""
        counted = [(shape, count) for shape, count in counts if count]
        total = sum(count for _, count in counted)
        if total > most:  # what is rare is seen all the same
            counted = [(shape, max(1, round(count * most / total))) for shape, count in counted]
            largest = max(range(len(counted)), key=lambda place: counted[place][1])
            shape, count = counted[largest]
            counted[largest] = shape, count + most - sum(count for _, count in counted)
        return "".join(self.shape(shape, count) for shape, count in counted)

    def bold(self, text: str) -> str:
        return self._mark("1", text)

    def dim(self, text: str) -> str:
        return self._mark("2", text)

    def red(self, text: str) -> str:
        return self._mark("31", text)

    def green(self, text: str) -> str:
        return self._mark("32", text)

    def yellow(self, text: str) -> str:
        """What is to be taken with care."""
        return self._mark("33", text)

    def _mark(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
