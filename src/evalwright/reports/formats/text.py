"""Values as text that people may read: nothing hidden, and short enough for a page."""

import re
from typing import Any

from evalwright.trace.model import text_of

# Control, zero-width, bidi, tag and variation characters, and halves of pairs: what a reader
# cannot see, or what makes a text read otherwise than it is. Tab and newline stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_SEEN = b"\t\n" + bytes(range(0x20, 0x7F))
_LEFT_OUT = "(nothing that can be written as text)"
_SCHEME = re.compile(r"[^/?#]*:")


def display_text(text: str) -> str:
    """The text with its hidden characters written out: `␛`, `⟦U+202E⟧`."""
    # To delete all plain characters is the quickest way to find out whether there are others.
    rest = text.encode("utf-8", "surrogatepass").translate(None, _SEEN)
    if not rest:
        return text
    is_hidden = _HIDDEN.search(rest.decode("utf-8", "surrogatepass"))
    return _HIDDEN.sub(_written_out, text) if is_hidden else text


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return f"⟦U+{code:04X}⟧"


def shown(value: Any) -> str:
    """A JSON value as a reader sees it: strings as they are, the rest as JSON."""
    if type(value) is str:
        return value or '""'
    if value is None:
        return "null"
    if value is True:
        return "true"
    return as_json(value)


def as_json(value: Any) -> str:
    """A JSON value as JSON; one that is too deep or too odd for that, by what it holds."""
    if isinstance(value, str):
        return f'"{value}"' if value.isprintable() else repr(value)
    return text_of(value) or _LEFT_OUT


def clipped(value: Any, limit: int) -> str:
    """A value for a table cell: visible, and with a mark where it was shortened."""
    return display_text(shortened(value, limit))


def shortened(value: Any, limit: int) -> str:
    """A value as it is, with a mark where it was shortened."""
    text = shown(value)
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (shortened, {limit:,} of {len(text):,} characters)"


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values hold the same; False where they are too deep to tell."""
    try:
        return bool(a == b)
    except RecursionError:
        return False


def relative_href(href: str | None) -> str:
    """A link that stays in the report folder, or nothing."""
    if not href or not href.isprintable() or href[0] in "/\\":
        return ""
    if ":" in href and _SCHEME.match(href):
        return ""
    climbs = ".." in href and ".." in href.replace("\\", "/").split("/")
    return "" if climbs else href
