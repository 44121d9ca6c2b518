"""Text on a console: from outside it cannot steer the terminal, and it is coloured if wanted."""

import os
from typing import Any, NamedTuple, TextIO

import msgspec

from evalwright.contracts.jsonvalue import NotJson, stringify

SHORT = 160


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


class Style(NamedTuple):
    """Marks text for a terminal, or leaves it plain."""

    colour: bool

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """The style that fits a stream: colour on a terminal, unless `NO_COLOR` is set."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colour=wanted and stream.isatty())

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
