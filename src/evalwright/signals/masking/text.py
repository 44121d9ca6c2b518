"""Masks secrets and personal data: the mask says which rule found it, and shows nothing of it."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

import msgspec

from evalwright.contracts.marks import UNREADABLE, masked
from evalwright.signals.sensitive import scan_bytes, spelled_out
from evalwright.signals.sensitive_part import SensitivePart
from evalwright.trace.model import Json

_ROUNDS = 8
_CONTINUED, _LEADING = 0x80, 0xC0  # of UTF-8: bytes within a character, and that begin one
_LONGEST_CHARACTER = 3  # bytes after the first
_LOOKED_AT = 400
_SHORTEST_COPIED = 10
_MOST_COPIED = 64
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NUMBER = b"0123456789+-.eE"
_KEY_END = re.compile(rb'[^"\\]{0,256}"\s{0,64}:')


def mask_text(text: str, *, personal: bool = True) -> str:
    """The text with every sensitive part masked; the same object where there is none.

    Here and below: unless `personal`, only secrets are masked, and personal data is left.
    """
    data = text.encode("utf-8", "surrogatepass")
    shown = _mask(data, _spliced, personal=personal)
    return text if shown is data else shown.decode("utf-8", "surrogatepass")


def mask_bytes(data: bytes, *, personal: bool = True) -> bytes:
    """Bytes with every sensitive part masked, the same object if there is none; JSON stays JSON."""
    return _mask(data, _spliced_with_care, personal=personal)


def mask_capture(data: bytes) -> bytes:
    """A captured body, masked; text of two bytes a character is read as such."""
    encoding = _wide_encoding(data[:_LOOKED_AT])
    if encoding is None:
        return mask_bytes(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return mask_bytes(data)
    shown = mask_text(text)
    # A mark of the byte order alone proves nothing: what follows may be text of single bytes.
    return mask_bytes(data) if shown is text else shown.encode(encoding)


def _wide_encoding(start: bytes) -> str | None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    zeros = start[0::2].count(0), start[1::2].count(0)
    if max(zeros) * 3 < len(start):  # in Latin text almost every second byte is zero
        return None
    return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"


def _mask(
    data: bytes, splice: Callable[[bytes, list[SensitivePart]], bytes], *, personal: bool
) -> bytes:
    for _ in range(_ROUNDS):
        found = [each for each in scan_bytes(data) if personal or each.family == "secret"]
        if not found:
            break
        parts = [_of_whole_characters(data, each) for each in found]
        # A mask may make its surroundings look sensitive, so the text is scanned again.
        # A value that is known to be a secret is also masked where it sticks to other text.
        shown = splice(data, parts)
        secrets = {data[each.start : each.end]: each for each in parts if each.family == "secret"}
        for value, part in list(secrets.items())[:_MOST_COPIED]:
            if len(value) >= _SHORTEST_COPIED and value in shown:
                shown = shown.replace(value, _mask_in(value, part))
        data = shown
    return data


def _of_whole_characters(data: bytes, part: SensitivePart) -> SensitivePart:
    """Rules match bytes and may end within a character: take the whole character."""
    start, end = part.start, part.end
    if not _cuts(data, start) and not _cuts(data, end):
        return part
    for _ in range(_LONGEST_CHARACTER):
        start -= _cuts(data, start)
        end += _cuts(data, end)
    return msgspec.structs.replace(part, start=start, end=end)


def _cuts(data: bytes, place: int) -> bool:
    inside = 0 < place < len(data) and data[place - 1] >= _CONTINUED
    return inside and _CONTINUED <= data[place] < _LEADING


def mask_value(value: Json, *, personal: bool = True) -> Json:
    """A JSON value with every sensitive part masked: in keys, nested values and JSON in strings."""
    try:
        data = msgspec.json.encode(value)
        shown = mask_bytes(data, personal=personal)
        return value if shown is data else msgspec.json.decode(shown)
    except (RecursionError, TypeError, ValueError, msgspec.MsgspecError):
        return UNREADABLE


def mask_of(value: bytes, part: SensitivePart) -> str:
    """The mark for a sensitive part: equal secrets get equal marks.

    A fingerprint of what has few possible values could be reversed, so those have none.
    """
    guessable = part.family == "pii" or part.rule in _GUESSABLE
    return masked(part.rule, None if guessable else value)


# Six digits, or a word with a number: a list of all of them finds the one with the fingerprint.
_GUESSABLE = frozenset(
    {"one-time-code", "password", "url-password", "basic-credentials", "command-line-password"}
)


def _spliced(data: bytes, parts: list[SensitivePart]) -> bytes:
    return _replaced(
        data,
        [(each.start, each.end, _mask_in(data[each.start : each.end], each)) for each in parts],
    )


def _spliced_with_care(data: bytes, parts: list[SensitivePart]) -> bytes:
    shown = _spliced(data, parts)
    broken = any(_is_personal_key(data, each) for each in parts) or not _is_json(shown)
    return _spliced_json(data, parts) if broken and _is_json(data) else shown


def _mask_in(value: bytes, part: SensitivePart) -> bytes:
    return mask_of(spelled_out(value), part).encode()


def _replaced(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    pieces = []
    last = 0
    for start, end, replacement in changes:
        pieces += [data[last:start], replacement]
        last = end
    pieces.append(data[last:])
    return b"".join(pieces)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return True


def _is_personal_key(data: bytes, part: SensitivePart) -> bool:
    """Two keys with the same mask would be one key."""
    return "#" not in mask_of(b"", part) and _KEY_END.match(data, part.end) is not None


def _spliced_json(data: bytes, parts: list[SensitivePart]) -> bytes:
    """Numbers become strings, and keys that would get the same mask are counted."""
    strings = [match.span() for match in _STRING.finditer(data)]
    starts = [start for start, _ in strings]
    seen: Counter[bytes] = Counter()
    changes: list[tuple[int, int, bytes]] = []
    for each in parts:
        mask = _mask_in(data[each.start : each.end], each)
        place = bisect_right(starts, each.start) - 1
        if place < 0 or strings[place][1] <= each.start:
            changes += _whole_number(data, each, mask)
            continue
        if _is_personal_key(data, each):
            seen[mask] += 1
            mask += b" (%d)" % seen[mask] if seen[mask] > 1 else b""
        changes.append((each.start, min(each.end, strings[place][1] - 1), mask))
    return _replaced(data, changes)


def _whole_number(data: bytes, part: SensitivePart, mask: bytes) -> list[tuple[int, int, bytes]]:
    """Half a number cannot be masked: the rest would stick to the mask."""
    if data[part.start : part.end].strip(_NUMBER):
        return []
    before = data[max(0, part.start - 400) : part.start]
    after = data[part.end : part.end + 400]
    start = part.start - (len(before) - len(before.rstrip(_NUMBER)))
    end = part.end + (len(after) - len(after.lstrip(_NUMBER)))
    return [(start, end, b'"' + mask + b'"')]
