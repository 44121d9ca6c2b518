"""One scan for all that is sensitive in a text: secrets and personal data, each place once."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import msgspec

from evalwright.contracts.marks import MARK, MARK_START
from evalwright.contracts.report import CONFIDENCES, SEVERITIES
from evalwright.signals.patterns import occurs_in, quick_pattern
from evalwright.signals.pii import PII_KINDS, SHAPES, find_pii
from evalwright.signals.secrets.finder import GATE, find_secrets
from evalwright.signals.secrets.rules import CONTEXT_RULES, RULES
from evalwright.signals.sensitive_part import SensitivePart

_APART = "\n\x01"  # nothing is found across it
_MAY_GO_ON = "-----BEGIN"  # a key, up to an end that may be another text's
_MOST_KEPT, _LONGEST_KEPT = 2048, 4_000
# What occurs wherever there may be a secret, or personal data but for addresses of e-mail: most
# texts hold neither, and are passed over in one search in place of two.
_ANYTHING = quick_pattern(b"(?i:%b)|%b" % (GATE, SHAPES))


def scan_bytes(data: bytes) -> list[SensitivePart]:
    """All secrets and personal data in bytes of any ASCII-based encoding, without overlap."""
    plain, offsets = _readable(data)
    if b"@" not in plain and not occurs_in(_ANYTHING, plain):
        return []
    # Findings that share a place become one over all of it, named after the gravest.
    merged: list[SensitivePart] = []
    for each in sorted(
        find_secrets(plain) + find_pii(plain), key=lambda each: (each.start, -each.end)
    ):
        if merged and each.start < merged[-1].end:
            merged[-1] = _joined(merged[-1], each)
        else:
            merged.append(each)
    return merged if offsets is None else [_placed(each, offsets) for each in merged]


def scan(text: str, data: bytes | None = None) -> list[SensitivePart]:
    """The same of a text; `data` is it in UTF-8, where that is known."""
    data = text.encode("utf-8", "surrogatepass") if data is None else data
    parts = scan_bytes(data)
    if len(data) == len(text):
        return parts
    placed = []
    byte = character = 0
    for each in parts:
        start = character + len(data[byte : each.start].decode("utf-8", "surrogatepass"))
        end = start + len(data[each.start : each.end].decode("utf-8", "surrogatepass"))
        placed.append(msgspec.structs.replace(each, start=start, end=end))
        byte, character = each.end, end
    return placed


def scan_each(texts: Sequence[str]) -> list[Sequence[SensitivePart]]:
    """The sensitive parts of each text: one scan of all, as most of a scan is to start it."""
    together = _APART.join(texts)
    parts = scan(together)
    if _MAY_GO_ON in together:
        return [scan(text) for text in texts]
    if not parts:
        return [()] * len(texts)
    starts = [0, *accumulate(len(text) + len(_APART) for text in texts)]
    found: list[list[SensitivePart]] = [[] for _ in texts]
    for part in parts:
        place = bisect_right(starts, part.start) - 1
        start, end = part.start - starts[place], part.end - starts[place]
        if end > len(texts[place]):
            return [scan(text) for text in texts]
        found[place].append(msgspec.structs.replace(part, start=start, end=end))
    return list(found)


class RecentScans:
    """What is sensitive in texts, kept for a while: runs of an agent share many."""

    def __init__(self) -> None:
        self._known: dict[str, Sequence[SensitivePart]] = {}

    def of(self, texts: Sequence[str]) -> list[Sequence[SensitivePart]]:
        """The sensitive parts of each text."""
        known = self._known
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        if not unknown:
            return [known[text] for text in texts]
        scanned = dict(zip(unknown, scan_each(unknown), strict=True))
        found = [scanned[text] if text in scanned else known[text] for text in texts]
        known.update((text, each) for text, each in scanned.items() if len(text) <= _LONGEST_KEPT)
        if len(known) > _MOST_KEPT:
            self._known = dict(list(known.items())[-_MOST_KEPT // 2 :])
        return found


@cache
def rule_ids() -> frozenset[str]:
    """The ids of all rules, of secrets and of personal data."""
    ids = {rule.id for rule in RULES} | {rule.id for rule in CONTEXT_RULES}
    return frozenset(ids | {kind.id for kind in PII_KINDS} | {"private-key", "email"})


def _joined(one: SensitivePart, other: SensitivePart) -> SensitivePart:
    gravest = max(one, other, key=_gravity)
    return msgspec.structs.replace(gravest, start=one.start, end=max(one.end, other.end))


def _gravity(part: SensitivePart) -> tuple[bool, int, int]:
    severity = SEVERITIES.index(part.severity)
    return part.family == "secret", severity, CONFIDENCES.index(part.confidence)


# Below: JSON escapes, at any depth of nesting, become what they stand for, so that they neither
# hide a secret nor stick to one. Masks become a barrier: nothing is found in or across them.

_SPELLED = re.compile(rb"\\+(?:u00([2-7][0-9a-fA-F])|/)")
_CONTROL = re.compile(rb"\\u00[01][0-9a-fA-F]")
_ESCAPE = ord("\\")
_CODED = re.compile(rb"\\u[0-9a-fA-F]{4}")


class Offsets:
    """Where the bytes of a shortened text came from."""

    def __init__(self) -> None:
        self._here = [0]
        self._there = [0]

    def note(self, here: int, there: int) -> None:
        """From `here` on, bytes are those from `there` on."""
        self._here.append(here)
        self._there.append(there)

    def origin(self, here: int) -> int:
        """The original place of a byte."""
        nearest = bisect_right(self._here, here) - 1
        return self._there[nearest] + here - self._here[nearest]


def _readable(data: bytes) -> tuple[bytes, Offsets | None]:
    if data.find(MARK_START) >= 0:
        data = MARK.sub(_barrier, data)
    if _ESCAPE not in data:
        return data, None
    usual = data.replace(b"\\n", b"\n ").replace(b'\\"', b' "')
    return _all_escapes(data, usual) if _ESCAPE in usual else (usual, None)


def _all_escapes(data: bytes, usual: bytes) -> tuple[bytes, Offsets | None]:
    offsets = None
    if b"\\u00" in usual or b"\\/" in usual:
        data, offsets = _spelled_out(data)
        usual = data.replace(b"\\n", b"\n ").replace(b'\\"', b' "')
    if b"\\u" in usual:
        usual = _CODED.sub(b"\x80" * 6, _CONTROL.sub(b" " * 6, usual))
    for escape in (b"\\r", b"\\t", b"\\b", b"\\f"):
        usual = usual.replace(escape, b"  ")
    return usual.replace(b"\\", b" "), offsets


def _barrier(mask: re.Match[bytes]) -> bytes:
    known = mask[1].decode() in rule_ids()
    return b"\x01" * len(mask[0]) if known else mask[0]


def spelled_out(data: bytes) -> bytes:
    """The bytes with the escapes that can hide a secret replaced by what they stand for."""
    return _spelled_out(data)[0] if b"\\" in data else data


def _spelled_out(data: bytes) -> tuple[bytes, Offsets]:
    pieces = []
    offsets = Offsets()
    last = size = 0
    for escape in _SPELLED.finditer(data):
        meaning = bytes([int(escape[1], 16)]) if escape[1] else b"/"
        pieces += [data[last : escape.start()], meaning]
        size += escape.start() - last + 1
        last = escape.end()
        # The byte itself came from the start of its escape, what follows from after it.
        offsets.note(size - 1, escape.start())
        offsets.note(size, last)
    pieces.append(data[last:])
    return b"".join(pieces), offsets


def _placed(part: SensitivePart, offsets: Offsets) -> SensitivePart:
    # The end is the start of what follows, so that a last escape is inside as a whole.
    start, end = offsets.origin(part.start), offsets.origin(part.end)
    return msgspec.structs.replace(part, start=start, end=end)
