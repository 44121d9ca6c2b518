"""Colour, where it is wanted."""

import os
from typing import TextIO


class Style:
    """Marks text for a terminal, or leaves it plain."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """The style that fits a stream: colour on a terminal, unless `NO_COLOR` is set."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colour=wanted and stream.isatty())

    def bold(self, text: str) -> str:
        """Bold text."""
        return self._mark("1", text)

    def dim(self, text: str) -> str:
        """Faint text."""
        return self._mark("2", text)

    def red(self, text: str) -> str:
        """Red text."""
        return self._mark("31", text)

    def green(self, text: str) -> str:
        """Green text."""
        return self._mark("32", text)

    def yellow(self, text: str) -> str:
        """What is to be taken with care."""
        return self._mark("33", text)

    def _mark(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
