"""Static files: their names hold a hash of their content, so a browser keeps them for good."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.responses import Response

from evalwright.reports.design import files as design

PREFIX = "/static/"
FOR_GOOD = "max-age=31536000, immutable"

_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_SOURCES = {
    "app.js": ("app.js",),
    "htmx.js": ("vendor/htmx.min.js", "vendor/hx-sse.min.js"),
}
_DESIGN = {  # of the design system, which reports share
    "style.css": ("tokens.css", "parts.css"),
    "sheet.css": ("sheet.css",),
    "theme.js": ("theme.js",),
    "pages.js": ("pages.js",),
    "mark.svg": ("mark.svg",),
    "favicon.svg": ("favicon.svg",),
}


class StaticFile(NamedTuple):
    """A file as it is sent."""

    path: str
    media_type: str
    content: bytes
    packed: bytes

    def response(self, accepted: str, *, is_public: bool) -> Response:
        """The file, compressed where the browser takes that."""
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
    found = {
        name: b"\n".join((folder / source).read_bytes() for source in sources)
        for name, sources in _SOURCES.items()
    }
    found |= {name: "\n".join(map(design.text, parts)).encode() for name, parts in _DESIGN.items()}
    return {name: _static(name, content) for name, content in found.items()}


@cache
def _by_path() -> dict[str, StaticFile]:
    return {each.path: each for each in _by_name().values()}


def _static(name: str, content: bytes) -> StaticFile:
    stem, _, kind = name.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:12]
    packed = gzip.compress(content, 9, mtime=0)
    return StaticFile(f"{PREFIX}{stem}.{digest}.{kind}", _TYPES[kind], content, packed)
