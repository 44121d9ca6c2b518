"""Text from outside as HTML text: visible and escaped.

The templates escape by themselves. What every page has is too much for that to be quick and is
written by hand; whatever is shown there passes through `text_html`, `quoted_html`, or the functions
for parts and names that do the same.
"""

from collections.abc import Callable
from html import escape
from typing import TypeAlias

from evalwright.reports.html.display_text import display_text, hides_something, without
from evalwright.reports.html.words import Label

Parts: TypeAlias = list[str]  # markup of ours and text from outside in turn, markup first

_LONGEST_NAME = 90
_MOST_KNOWN = 4096
_PLAIN = bytes(code for code in (*b"\t\n", *range(0x20, 0x7F)) if code not in b"&<>")
_PLAIN_IN_QUOTES = bytes(code for code in _PLAIN if code not in b"\"'/")


def text_html(text: str) -> str:
    """A text as the content of an element."""
    return _escaped(display_text(text)) if without(text, _PLAIN) else text


def quoted_html(text: str) -> str:
    """A text as the templates write it: quotation marks and slashes are escaped too."""
    return _quoted(display_text(text)) if without(text, _PLAIN_IN_QUOTES) else text


def parts_html(parts: Parts) -> str:
    """Markup as it is, and between it the texts, each as `text_html` writes it."""
    return _joined(parts, _PLAIN, _escaped)


def quoted_parts_html(parts: Parts) -> str:
    """Markup as it is, and between it the texts, each as `quoted_html` writes it."""
    return _joined(parts, _PLAIN_IN_QUOTES, _quoted)


def _joined(parts: Parts, plain: bytes, write: Callable[[str], str]) -> str:
    """The parts as one text; they are used up by it."""
    if len(parts) % 2:  # markup and text would have changed places somewhere
        raise ValueError("parts of a page that are no pairs of markup and text")
    texts = parts[1::2]
    rest = without("".join(texts), plain)
    if not rest:
        return "".join(parts)
    if hides_something(rest):
        texts = list(map(display_text, texts))
    # All texts as one are quicker to write; what is visible holds no NUL.
    parts[1::2] = write("\0".join(texts)).split("\0")
    return "".join(parts)


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _quoted(text: str) -> str:
    return escape(text).replace("/", "&#x2f;")


class KnownNames(dict[str, str]):
    """The HTML of names, written when it is first asked for: a few names come again and again."""

    def __init__(self, write: Callable[[str], str]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, name: str) -> str:
        html = self._write(name)
        if len(name) <= _LONGEST_NAME and len(self) < _MOST_KNOWN:
            self[name] = html
        return html


def short_name(name: str) -> str:
    """A name, which is meant to be short, with a mark where it was not."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def name_html(name: str) -> str:
    """A name as the content of an element."""
    return text_html(short_name(name))


NAMES = KnownNames(name_html)
QUOTED = KnownNames(quoted_html)


def status_html(label: Label) -> str:
    """A label with its sign and its tone."""
    return f'<span class="st {label.tone}">{label.sign} {name_html(label.words)}</span>'


def badge_html(label: Label) -> str:
    """A label with its sign, set off from the text around it."""
    sign = f'<span aria-hidden="true">{label.sign}</span>'
    return f'<span class="badge {label.tone}">{sign} {label.words}</span>'


def link_html(href: str) -> str:
    """A relative link that shows where it leads."""
    return f'<a href="{escape(href)}">{text_html(href)}</a>'
