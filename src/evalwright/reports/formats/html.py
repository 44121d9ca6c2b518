"""Text from outside as HTML: visible, escaped, and short enough for a page.

Markup has the type `Html`, text the type `str`. `tools/mypy_html.py` lets the type checker prove
that markup is made of literals, numbers and other markup; only the functions below that escape a
text, and the templates, make markup of anything else. Rows that come by the thousand are put
together by code, since a template, quick as it is, takes longer than all the rest of it.
"""

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType

from minijinja import Environment

from evalwright.reports.design.markup import templates_of
from evalwright.reports.formats.text import display_text

if TYPE_CHECKING:
    Html = NewType("Html", str)
else:
    Html = str  # which a call of costs less
NO_HTML = Html("")

LONGEST_NAME = 90
_PLAIN = bytes(code for code in (*b"\t\n", *range(0x20, 0x7F)) if code not in b"&<>")
_PLAIN_IN_QUOTES = bytes(code for code in _PLAIN if code not in b"\"'/")

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


def short_name(name: str) -> str:
    """A name, which is meant to be short, with a mark where it was not."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def without(text: str, plain: bytes) -> str:
    """What is left of a text without some ASCII characters; most texts have no others.

    To delete all plain characters is the quickest way to find out whether there are others.
    """
    rest = text.encode("utf-8", "surrogatepass").translate(None, plain)
    return rest.decode("utf-8", "surrogatepass") if rest else ""


def render(package: str, template: str, **values: Any) -> Html:
    """A template of a package of reports with its values; all are escaped but `as_markup`."""
    return render_in(_environment(package), template, **values)


def render_in(templates: Templates, template: str, **values: Any) -> Html:
    """The same with templates from elsewhere."""
    page = templates.render_template(template, **values)
    return Html(page)  # type: ignore[unescaped]


def own_file(package: str, name: str) -> Html:
    """A file of a package of reports, such as a style sheet: ours, so it is taken as it is."""
    text = (files(f"evalwright.reports.{package}") / name).read_text(encoding="utf-8")
    return Html(text)  # type: ignore[unescaped]


@cache
def _environment(package: str) -> Templates:
    """The templates of a package of reports, compiled once in each process."""
    return templates_of(f"evalwright.reports.{package}")


STYLE_SHEET = own_file("formats", "style.css")

_UP, _CROSS, _TICK = Html("&#9650;"), Html("&#10007;"), Html("&#10003;")
_UNKNOWN, _DASH = Html("&#63;"), Html("&#8211;")


class Label(NamedTuple):
    """How a code is shown: its words, a sign that needs no colour, and a tone.

    The sign is a character reference, so that the pages are ASCII except for the data:
    ASCII text is several times faster to join.
    """

    words: str
    sign: Html
    tone: Literal["good", "plain", "info", "warn", "bad", "critical"]


VERDICTS = {
    "passed": Label("Passed", _TICK, "good"),
    "failed": Label("Failed", _CROSS, "bad"),
    "error": Label("Error", _UP, "warn"),
    "open": Label("No score", _UNKNOWN, "plain"),
    "skipped": Label("Skipped", _DASH, "plain"),
}
