"""Values as results show them: bounded, and cut where the two sides do not differ."""

from collections.abc import Callable
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import NotJson, canonical_beginning, stringify

LONGEST = 2_000  # characters of a value beside a failure
BRIEF = 300  # of one beside a pass
_QUOTE = 80


def shown(value: Any, *, brief: bool = False, text: Callable[[], str] | None = None) -> Any:
    """A value as a result carries it: itself, or the two ends of its text if it is long.

    `text` gives that text to whoever has it already.
    """
    most = BRIEF if brief else LONGEST
    if isinstance(value, str):
        return _ends(value, most)
    if value is None or isinstance(value, bool | int | float):
        return value
    try:
        if len(msgspec.json.encode(value)) <= most:
            return value
        return _ends(stringify(value) if text is None else text(), most)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        return _ends(str(value), most)


def shown_around(text: str, place: int) -> str:
    """A text as a result carries it, with what stands at a place in it."""
    if len(text) <= LONGEST:
        return text
    start = max(0, min(place - LONGEST // 4, len(text) - LONGEST))
    part = text[start : start + LONGEST]
    before = f"… ({start} characters) " if start else ""
    after = len(text) - start - len(part)
    return f"{before}{part}" + (f" … ({after} characters)" if after > 0 else "")


def quoted(value: Any, most: int = _QUOTE) -> str:
    """A value within a message."""
    try:
        text = value if isinstance(value, str) else canonical_beginning(value, most + 1)
    except NotJson:
        text = str(value)
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    return f"“{text}”" if isinstance(value, str) else text


def piece(text: str, start: int, end: int) -> str:
    """A part of a text within a message, marked where it is cut: it may be half of a secret."""
    before = "…" if start > 0 else ""
    return quoted(f"{before}{text[max(0, start) : end]}{'…' if end < len(text) else ''}")


def quoted_json(value: Any) -> str:
    """A value as JSON within a message; raises `NotJson` for what is no JSON value."""
    text = canonical_beginning(value, _QUOTE + 1)
    return text if len(text) <= _QUOTE else f"{text[: _QUOTE - 1]}…"


def named(names: list[str], most: int = 8) -> str:
    """A list of names within a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more


def _ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 2
    return f"{text[:end]} … ({len(text) - 2 * end} characters) … {text[-end:]}"
