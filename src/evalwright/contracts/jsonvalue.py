"""JSON values: what counts as one, canonical text (RFC 8785), and strict parsing."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import accumulate, islice
from typing import Any

import msgspec

JsonPath = str
MAX_DEPTH = 200
MAX_ROW_DEPTH = MAX_DEPTH - 20  # of what an event holds in lists of its own

# The parser takes 200 times as long for numbers such as 1e308, and nothing else runs meanwhile.
MOST_EXTREME = 10_000
_EXTREME = re.compile(rb"[0-9][eE][+-]?[0-9]{3}")

# A string without an end extends to the end of the text: searching for its end again from every
# quote in it would take quadratic time.
_ANY_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_STRING = re.compile(_ANY_STRING, re.DOTALL)
# Nothing else runs while a pattern is matched, so a long text is taken in pieces, none of which
# ends within a number.
_PIECE = re.compile(rb".{1,65536}+[-+.0-9eE]*+", re.DOTALL)
_PIECE_OF_STRINGS = re.compile(
    rb'(?:[^"]{1,65536}+[-+.0-9eE]*+|' + _ANY_STRING + rb"){1,1000}+", re.DOTALL
)

_NO_SHAPE = bytes(set(range(256)) - set(b"{}[]:"))
# One that is closed leaves nothing behind, the last one its quote, and half of an escape if so.
_CLOSED_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(")(?:[^"\\]++|\\.)*+(\\?)\Z', re.DOTALL)
_INNERMOST = re.compile(rb"\{:*+\}|\[\]")

# Measured over texts, rows and events: what a value takes while it is compared or scanned.
MOST_MEMORY = 2 << 30  # bytes, for one response or record
_PER_BYTE, _PER_VALUE = 6, 100
_SURELY_SMALL = 16 << 20

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class NotJson(ValueError):
    """A value that JSON cannot carry, with its path."""

    def __init__(self, path: JsonPath, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def too_heavy(text: bytes) -> str | None:
    """Why JSON text must not be decoded: what is in it would take too much memory."""
    if len(text) <= _SURELY_SMALL:
        return None
    values = text.count(b'":') + text.count(b",")
    needed = _PER_BYTE * len(text) + _PER_VALUE * values
    if needed <= MOST_MEMORY:
        return None
    return (
        f"its {len(text) >> 20} MiB with about {values:,} values would take "
        f"{needed / (1 << 30):.1f} GiB of memory, and the most is {MOST_MEMORY >> 30} GiB; "
        "split it into several cases"
    )


def parse(text: str | bytes) -> Any:
    """Parse strict JSON: no NaN, no trailing text, no lone surrogates."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotJson("$", str(error)) from None
    except RecursionError:
        raise NotJson("$", "nested too deeply") from None
    return value


def burden(text: bytes, most_values: int) -> str | None:
    """Why a JSON text of a stranger should not be parsed, however short it is; None if it may.

    Nothing else runs while it is parsed, and `[]` takes 20 times the memory of its text.
    """
    if _values(text) > most_values and _exceed(map(_values, _outside(text)), most_values):
        return f"it has more than {most_values} values; send fewer"
    if _exceed(map(_extremes, _pieces(text)), MOST_EXTREME) and _exceed(
        map(_extremes, _outside(text)), MOST_EXTREME
    ):
        return f"more than {MOST_EXTREME} numbers have an exponent of three digits; send fewer"
    return None


class JsonShape:
    """The shape of a JSON text that arrives in pieces, as far as it says whether to parse it.

    Innermost objects and arrays are taken away level by level; an object in which nothing else is
    left has one colon for each of its keys. What is still open is kept for the next piece.
    """

    def __init__(self, most_values: int, most_keys: int, most_levels: int) -> None:
        self._most_values = most_values
        self._most_keys = most_keys
        self._most_levels = most_levels
        self._values = 0
        self._string = b""  # the beginning of one that is still open
        self._open = b""

    def burden(self, piece: bytes) -> str | None:
        """Why a text with this piece next is too much to be parsed; None if it is not so far."""
        outside = _CLOSED_STRING.sub(rb"\1\2", self._string + piece)
        outside, quote, escape = outside.partition(b'"')
        self._string = quote + escape
        self._values += _values(outside)
        if self._values > self._most_values:
            return f"it has more than {self._most_values} values; send fewer"
        shape = self._open + outside.translate(None, _NO_SHAPE)
        too_many = b":" * (self._most_keys + 1)
        count = levels = 1
        while count and levels <= self._most_levels:
            if too_many in shape:
                return f"an object has more than {self._most_keys} keys; send fewer"
            shape, count = _INNERMOST.subn(b"", shape)
            levels += 1
        if (count and shape) or shape.count(b"{") + shape.count(b"[") > self._most_levels:
            return f"nested more than {self._most_levels} levels deep; send a flatter value"
        # What closes something that is not open is not JSON, and the parser stops there.
        self._open = b"" if b"}" in shape or b"]" in shape else shape
        return None


def _values(text: bytes) -> int:
    """Roughly how many there are: each opens an array or an object, or follows a comma."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _extremes(text: bytes) -> int:
    return len(_EXTREME.findall(text))


def _pieces(text: bytes) -> Iterator[bytes]:
    return (piece.group() for piece in _PIECE.finditer(text))


def _outside(text: bytes) -> Iterator[bytes]:
    """The text outside of strings, which may contain anything."""
    return (_STRING.sub(b"", piece.group()) for piece in _PIECE_OF_STRINGS.finditer(text))


def _exceed(counts: Iterable[int], most: int) -> bool:
    return any(total > most for total in accumulate(counts))


class _RepeatedKey(Exception):
    pass


def repeated_key(text: bytes) -> str | None:
    """A key that one object has twice: parsers silently take the last one."""
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated)
    except _RepeatedKey as error:
        return str(error)
    except (ValueError, RecursionError):  # not JSON, which is reported elsewhere
        return None
    return None


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _RepeatedKey(key)
        seen.add(key)


def canonical(value: Any) -> str:
    """The canonical JSON text of a value (RFC 8785); raises `NotJson` if it has none.

    Whole numbers too large for a double keep all their digits: rounding them would make
    different values equal.
    """
    parts: list[str] = []
    _write(value, parts, "$", 0)
    return "".join(parts)


def canonical_beginning(value: Any, most: int) -> str:
    """So many characters of the canonical text at most; the rest is not even written."""
    return canonical(_pruned(value, most, [most]))[:most]


def _pruned(value: Any, most: int, left: list[int]) -> Any:
    """What of a value may be in the beginning of its text, where each part has a character."""
    left[0] -= 1
    if left[0] < 0:
        return None  # after the end of the beginning
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, dict):
        first = nsmallest(left[0] + 1, value, key=_order)
        return {key: _pruned(value[key], most, left) for key in first}
    if isinstance(value, list | tuple):
        return [_pruned(each, most, left) for each in islice(value, left[0] + 1)]
    return value


def plain(value: Any) -> Any:
    """The value as plain JSON values; raises `NotJson` if it is not a JSON value.

    Subclasses of str, int, float, dict and list, as libraries return them, become the plain type.
    """
    if type(value) is str and value.isascii():
        return value
    text = canonical(value)
    if type(value) is str:
        return value
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except TypeError:
        return msgspec.json.decode(text)


def stringify(value: Any) -> str:
    """A string as it is, anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical(value)


def is_same_text(output: Any, value: Any) -> bool:
    """Whether two values are the same text; what is not a text counts as its JSON."""
    return stringify(output) == stringify(value)


def has_text(output: Any, value: Any) -> bool:
    """Whether a value is in an output, both as texts."""
    return stringify(value) in stringify(output)


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, true is not 1, the order of keys does not matter."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            json_equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def unfit(value: Any, levels: int = MAX_ROW_DEPTH) -> str | None:
    """Why a log cannot hold a dict or list, which is looked through fast."""
    level = [value]
    for _ in range(levels):
        inner = []
        for each in level:
            for part in each.values() if isinstance(each, Mapping) else each:
                if isinstance(part, Mapping | list | tuple):
                    inner.append(part)
                elif isinstance(part, float) and not math.isfinite(part):
                    return f"{part} is not a number that JSON can carry"
        if not inner:
            return None
        level = inner
    return f"nested more than {levels} levels deep"


def child(path: JsonPath, key: str | int) -> JsonPath:
    """The JSON path of a member."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        return f"{path}.{key}"
    return f"{path}[{_string(key, path)}]"


def _write(value: Any, parts: list[str], path: JsonPath, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotJson(path, f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        _write_object(value, parts, path, depth)
    elif isinstance(value, list | tuple):
        separator = "["
        for index, item in enumerate(value):
            parts.append(separator)
            _write(item, parts, child(path, index), depth + 1)
            separator = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, str):
        parts.append(_string(value, path))
    else:
        parts.append(_scalar(value, path))


def _write_object(value: dict[Any, Any], parts: list[str], path: JsonPath, depth: int) -> None:
    for key in value:
        if not isinstance(key, str):
            raise NotJson(path, f"object keys must be strings, not {type(key).__name__}")
    separator = "{"
    for key in sorted(value, key=_order):
        parts += (separator, _string(key, path), ":")
        _write(value[key], parts, child(path, key), depth + 1)
        separator = ","
    parts.append("}" if value else "{}")


def _order(key: Any) -> bytes:
    if not isinstance(key, str):
        raise NotJson("$", f"object keys must be strings, not {type(key).__name__}")
    return key.encode("utf-16-be", "surrogatepass")


def _scalar(value: Any, path: JsonPath) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            try:
                return str(int(value))
            except ValueError:  # Python bounds the digits of a number it writes
                raise NotJson(path, "the number has too many digits") from None
        case float():
            # Write a double as ECMAScript does, which is what RFC 8785 asks for.
            value = float(value)
            if not math.isfinite(value):
                raise NotJson(path, f"{value} is not a JSON number")
            if value == 0:
                return "0"
            sign = "-" if value < 0 else ""
            mantissa, _, exponent = repr(abs(value)).partition("e")
            whole, _, fraction = mantissa.partition(".")
            fraction = "" if fraction == "0" else fraction
            digits = (whole + fraction).lstrip("0")
            point = len(whole) + int(exponent or 0)
            if whole == "0":
                point -= 1 + len(fraction) - len(fraction.lstrip("0"))
            digits = digits.rstrip("0") or "0"
            return sign + _place_point(digits, point)
        case _:
            raise NotJson(path, f"{type(value).__name__} is not a JSON value")


def _string(text: str, path: JsonPath) -> str:
    text = str.__str__(text)  # a subclass may override it
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise NotJson(path, "text with a lone surrogate is not valid Unicode") from None
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    if char in '"\\':
        return "\\" + char
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def _place_point(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    exponent = f"e{point - 1:+d}"
    return digits[0] + ("." + digits[1:] if count > 1 else "") + exponent
