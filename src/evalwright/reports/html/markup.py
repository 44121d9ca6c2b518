"""Text from outside as HTML text: visible and escaped.

The templates escape by themselves. The steps of a trace are too many for that to be quick and are
written here by hand; whatever they show passes through `text_html` or `name_html`.
"""

from functools import lru_cache
from html import escape

from evalwright.reports.html.visible import visible
from evalwright.reports.html.words import Label

_LONGEST_NAME = 90


def text_html(text: str) -> str:
    """A text as the content of an element."""
    if not text.isprintable():
        text = visible(text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_known_name = lru_cache(maxsize=4096)(text_html)


def name_html(name: str) -> str:
    """A name, which is short and comes again, as the content of an element."""
    if len(name) > _LONGEST_NAME:
        return f"{text_html(name[:_LONGEST_NAME])}…"
    return _known_name(name)


def status_html(label: Label) -> str:
    """A label with its sign and its tone."""
    return f'<span class="st {label.tone}">{label.sign} {name_html(label.words)}</span>'


def link_html(href: str) -> str:
    """A relative link that shows where it leads."""
    return f'<a href="{escape(href)}">{text_html(href)}</a>'
