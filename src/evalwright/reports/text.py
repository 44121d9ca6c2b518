"""Text from outside, made safe and short enough to print."""

from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import NotJson, stringify

SHORT = 160


def printable(text: str) -> str:
    """The text without control characters: nothing an agent says may steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in text)


def one_line(value: Any, limit: int | None = SHORT) -> str:
    """A JSON value on one line, shortened in the middle of nowhere but always with a mark."""
    text = printable(_text(value).replace("\n", "⏎"))
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def _text(value: Any) -> str:
    try:
        return stringify(value)
    except NotJson:  # nested too deeply to be sorted
        return msgspec.json.encode(value).decode()


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
