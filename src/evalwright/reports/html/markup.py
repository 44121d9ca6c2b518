"""Text from outside as HTML text: visible and escaped.

The templates escape by themselves. The steps of a trace are too many for that to be quick and are
written here by hand, and so are the tables that every page has; whatever they show passes through
`text_html`, `NAMES` or `quoted_html`.
"""

from collections.abc import Callable
from html import escape

from evalwright.reports.html.visible import visible
from evalwright.reports.html.words import Label

_LONGEST_NAME = 90
_MOST_KNOWN = 4096
_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b"&<>")


def text_html(text: str) -> str:
    """A text as the content of an element."""
    # Most texts are plain: deleting all plain characters is the quickest way to find that out.
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    return escape(visible(text), quote=False)


def texts_html(a: str, b: str) -> tuple[str, str]:
    """Two texts, each as the content of an element; looking at both at once is quicker."""
    both = a + b
    if both.isascii() and not both.encode().translate(None, _PLAIN):
        return a, b
    return text_html(a), text_html(b)


def quoted_html(text: str) -> str:
    """A text as the templates write it: quotation marks and slashes are escaped too."""
    return escape(visible(text)).replace("/", "&#x2f;")


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


def name_html(name: str) -> str:
    """A name, which is meant to be short, as the content of an element."""
    if len(name) > _LONGEST_NAME:
        return f"{text_html(name[:_LONGEST_NAME])}…"
    return text_html(name)


NAMES = KnownNames(name_html)


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
