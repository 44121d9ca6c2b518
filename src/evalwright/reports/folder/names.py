"""File names from case ids: one name per id, also where file systems ignore case."""

import re
from hashlib import sha256

_LONGEST = 120
_KEPT_OF_LONG = 80
_ESCAPED = re.compile(rb"[^a-z0-9_.\-]")
# Names that some systems give to devices, and our own file beside the responses.
_RESERVED = re.compile(r"^(run|con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")


def file_stem(case_id: str, repetition: int = 1) -> str:
    """The name that stands for an id: `a-z 0-9 _ - .` as they are, all else as `~` and hex.

    `~` itself is escaped and never followed by anything but two hex digits, so no two ids share
    a name; long ids end in `~~` and a hash of the whole.
    """
    stem = _ESCAPED.sub(_escape, case_id.encode("utf-8", "surrogatepass")).decode("ascii")
    if stem.startswith(".") or _RESERVED.match(stem):
        stem = f"~{ord(stem[0]):02x}{stem[1:]}"
    if len(stem) > _LONGEST:
        digest = sha256(case_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        stem = f"{_whole_escapes(stem[:_KEPT_OF_LONG])}~~{digest}"
    return stem if repetition == 1 else f"{stem}~x{repetition}"


def _escape(found: re.Match[bytes]) -> bytes:
    return b"~%02x" % found.group()[0]


def _whole_escapes(text: str) -> str:
    """Without an escape that was cut in two at the end."""
    return re.sub(r"~[0-9a-f]?$", "", text)
