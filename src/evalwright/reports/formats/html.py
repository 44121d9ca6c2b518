"""Text from outside as HTML: visible, escaped, and short enough for a page.

Markup has the type `Html`, text the type `str`. `tools/mypy_html.py` lets the type checker prove
that markup is made of literals, numbers and other markup; only the functions below that escape a
text, and the templates, make markup of anything else. Rows that come by the thousand are put
together by code, since a template, quick as it is, takes longer than all the rest of it.
"""

import base64
import hashlib
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NewType

from minijinja import Environment, safe

from evalwright.trace.model import text_of

if TYPE_CHECKING:
    Html = NewType("Html", str)
else:
    Html = str  # which a call of costs less
NO_HTML = Html("")

LONGEST_NAME = 90
_PLAIN = bytes(code for code in (*b"\t\n", *range(0x20, 0x7F)) if code not in b"&<>")
_PLAIN_IN_QUOTES = bytes(code for code in _PLAIN if code not in b"\"'/")
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

Templates = Environment


def text_html(text: str) -> Html:
    """A text as the content of an element."""
    if without(text, _PLAIN):
        text = escape(display_text(text), quote=False)
    return Html(text)  # type: ignore[unescaped]


def quoted_html(text: str, *, is_address: bool = False, is_value: bool = False) -> Html:
    """A text as the templates write it: quotation marks are escaped too, slashes in prose.

    The value of a field is sent back, so its hidden characters stay as they are.
    """
    if without(text, _PLAIN_IN_QUOTES):
        text = escape(text if is_value else display_text(text))
        text = text if is_address else text.replace("/", "&#x2f;")
    return Html(text)  # type: ignore[unescaped]


def content_html(text: str) -> Html:
    """The same in a page whose hidden characters are written out when it is finished."""
    if "&" in text or "<" in text or ">" in text:
        text = escape(text, quote=False)
    return Html(text)  # type: ignore[unescaped]


def link_html(href: str) -> Html:
    """A relative link that shows where it leads."""
    target = Html(escape(href))  # type: ignore[unescaped]
    return Html(f'<a href="{target}">{text_html(href)}</a>')


def short_name(name: str) -> str:
    """A name, which is meant to be short, with a mark where it was not."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def name_html(name: str) -> Html:
    """A name as the content of an element."""
    return text_html(short_name(name))


def display_text(text: str) -> str:
    """The text with its hidden characters written out: `␛`, `⟦U+202E⟧`."""
    rest = without(text, _SEEN)
    return _HIDDEN.sub(_written_out, text) if rest and _HIDDEN.search(rest) else text


def without(text: str, plain: bytes) -> str:
    """What is left of a text without some ASCII characters; most texts have no others.

    To delete all plain characters is the quickest way to find out whether there are others.
    """
    rest = text.encode("utf-8", "surrogatepass").translate(None, plain)
    return rest.decode("utf-8", "surrogatepass") if rest else ""


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


def render(package: str, template: str, **values: Any) -> Html:
    """A template of a package of reports with its values; all are escaped but `as_markup`."""
    return render_in(_environment(package), template, **values)


def render_in(templates: Templates, template: str, **values: Any) -> Html:
    """The same with templates from elsewhere."""
    page = templates.render_template(template, **values)
    return Html(page)  # type: ignore[unescaped]


def as_markup(html: Html) -> object:
    """Markup as a value that a template does not escape again."""
    return safe(html)


def own_file(package: str, name: str) -> Html:
    """A file of a package of reports, such as a style sheet: ours, so it is taken as it is."""
    text = (files(f"evalwright.reports.{package}") / name).read_text(encoding="utf-8")
    return Html(text)  # type: ignore[unescaped]


@cache
def _environment(package: str) -> Templates:
    """The templates of a package of reports, compiled once in each process."""
    return templates_of(f"evalwright.reports.{package}")


def templates_of(*packages: str, **more: Any) -> Templates:
    """The templates of packages, which escape all values; `more` is for the environment."""
    pages = [
        each
        for package in packages
        for each in (files(package) / "templates").iterdir()
        if each.name.endswith(".html")
    ]
    filters = {"extent": _extent, "count": _counted, "href": _escaped, **more.pop("filters", {})}
    return Environment(
        templates={each.name: each.read_text(encoding="utf-8") for each in pages},
        auto_escape_callback=lambda _: "html",
        undefined_behavior="strict",
        filters=filters,
        **more,
    )


def _extent(share: float) -> str:
    """A share as the length of a shape."""
    return f"{100 * min(1.0, max(0.0, share)):.1f}%"


def _counted(number: int) -> str:
    return f"{number:,}"


def _escaped(address: str) -> object:
    return as_markup(quoted_html(address, is_address=True))


def content_policy(style_src: str, script_src: str = "") -> str:
    """A content security policy that allows styles and scripts from where is said, no more."""
    scripts = f"; script-src {script_src}" if script_src else ""
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {style_src}{scripts}"


def source_hash(source: str) -> str:
    """How a content security policy names a style or a script that is part of the page."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


STYLE_SHEET = own_file("formats", "style.css")
