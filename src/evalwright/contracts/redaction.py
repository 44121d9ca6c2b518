"""Known secrets are replaced by `[REDACTED:<id>]` before anything is stored."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from evalwright.contracts import events, suite, summary
from evalwright.contracts.marks import redacted

SHORTEST_SECRET = 8  # characters; anything shorter would be found in ordinary words

# In valid JSON quotes only enclose strings, and a colon after one marks a key.
_STRING = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?', re.DOTALL)
_FREE_SPELLINGS = (b"\\u", b"\\/")  # escapes that JSON leaves to the writer


class Redactor:
    """Replaces the values of known secrets wherever a string holds one, as plain substrings.

    Where secrets overlap, all that any of them covers goes, in the name of the longest.
    """

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        known = [
            _SecretForm(form, redacted(name), len(value))
            for name, value in (secrets or {}).items()
            if len(value) >= SHORTEST_SECRET and _is_unicode(value)
            # As it is, and as JSON text spells it.
            for form in dict.fromkeys((value, _spelled(value), json.dumps(value)[1:-1]))
        ]
        self.knows_secrets = bool(known)
        self._known = sorted(known, key=lambda each: (-each.length, each.form, each.mark))
        self._written = [_spelled(each.form).encode() for each in self._known]
        self._own_names = _field_names() if self._known else frozenset()

    def redact(self, document: bytes) -> bytes:
        """A JSON document without the secrets; one that holds none is returned as it is.

        Everything but the strings that held a secret stays byte for byte. So do keys that are
        field names of our own, without which nobody could read the log, and numbers.
        """
        if not self.knows_secrets:
            return document
        if not any(each in document for each in (*self._written, *_FREE_SPELLINGS)):
            return document
        changed = _STRING.sub(self._redact_token, document)
        return document if changed == document else changed

    def redact_text(self, text: str) -> str:
        pieces: list[str] = []
        end = 0
        for found in _merged(self._find(text)):
            pieces += text[end : found.start], found.mark
            end = found.end
        return "".join((*pieces, text[end:])) if pieces else text

    def _redact_token(self, found: re.Match[bytes]) -> bytes:
        token, colon = found.group(1), found.group(2) or b""
        text = msgspec.json.decode(token, type=str)
        if colon and text in self._own_names:
            return found.group()
        changed = self.redact_text(text)
        return found.group() if changed == text else msgspec.json.encode(changed) + colon

    def _find(self, text: str) -> list["_SecretPlace"]:
        return [
            _SecretPlace(start, start + len(known.form), known.mark, known.length)
            for known in self._known
            for start in _occurrences(known.form, text)
        ]


class _SecretForm(NamedTuple):
    form: str
    mark: str
    length: int  # of the secret itself


class _SecretPlace(NamedTuple):
    start: int
    end: int
    mark: str
    length: int


NOTHING_SECRET = Redactor()


def _occurrences(part: str, text: str) -> Iterator[int]:
    """Where a part occurs in a text, also where it overlaps itself."""
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _merged(found: list[_SecretPlace]) -> list[_SecretPlace]:
    merged: list[_SecretPlace] = []
    for each in sorted(found, key=lambda each: each.start):
        if merged and each.start < merged[-1].end:
            last = merged.pop()
            longest = max(last, each, key=lambda one: one.length)
            each = longest._replace(start=last.start, end=max(last.end, each.end))  # noqa: PLW2901
        merged.append(each)
    return merged


def _is_unicode(text: str) -> bool:
    """Whether JSON can hold a text: an environment variable may be any bytes."""
    return text.encode("utf-8", "replace").decode() == text


def _spelled(text: str) -> str:
    return msgspec.json.encode(text)[1:-1].decode()


def _field_names() -> frozenset[str]:
    return frozenset(
        name
        for module in (events, suite, summary)
        for struct in vars(module).values()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
        for name in struct.__struct_encode_fields__
    )
