"""Static files: their names hold a hash of their content, so a browser keeps them for good."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.responses import Response

from evalwright.reports.formats.html import STYLE_SHEET, own_file

PREFIX = "/static/"
FOR_GOOD = "max-age=31536000, immutable"

_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_SOURCES = {
    "app.js": ("app.js", "keys.js", "charts.js"),
    "icon.svg": ("icon.svg",),
    "htmx.js": ("vendor/htmx.min.js", "vendor/hx-sse.min.js"),
    "uplot.js": ("vendor/uPlot.iife.min.js",),
    "uplot.css": ("vendor/uPlot.min.css",),
    "web.css": ("web.css", "views.css"),
}


class StaticFile(NamedTuple):
    """A file as it is sent."""

    path: str
    media_type: str
    content: bytes
    packed: bytes

    def response(self, accepted: str, *, is_public: bool) -> Response:
        headers = {
            "Cache-Control": f"{'public' if is_public else 'private'}, {FOR_GOOD}",
            "Vary": "Accept-Encoding",
        }
        if "gzip" not in accepted:
            return Response(self.content, 200, headers, self.media_type)
        headers["Content-Encoding"] = "gzip"
        return Response(self.packed, 200, headers, self.media_type)


def address_of(name: str) -> str:
    """The address of a file, by its plain name."""
    return _by_name()[name].path


def file_at(path: str) -> StaticFile | None:
    """The file with this address."""
    return _by_path().get(path)


@cache
def _by_name() -> dict[str, StaticFile]:
    folder = files("evalwright.host.web") / "static"
    contents = {
        name: b"\n".join((folder / source).read_bytes() for source in sources)
        for name, sources in _SOURCES.items()
    }
    # One design system: the pages have the style sheet of the reports, and a little beside it.
    shared = STYLE_SHEET + own_file("run", "templates/page.css")
    contents["style.css"] = shared.encode() + contents.pop("web.css")
    contents["prompts.css"] = own_file("prompts", "templates/report.css").encode()
    found = {}
    for name, content in contents.items():
        stem, _, kind = name.rpartition(".")
        path = f"{PREFIX}{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{kind}"
        packed = gzip.compress(content, 9, mtime=0)
        found[name] = StaticFile(path, _TYPES[kind], content, packed)
    return found


@cache
def _by_path() -> dict[str, StaticFile]:
    return {each.path: each for each in _by_name().values()}
