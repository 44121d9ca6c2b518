"""OTLP in its protobuf form, as documents of the same shape as its JSON form.

Only what spans and log records are read from is decoded; everything else is passed over.
"""

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from evalwright.trace.model import Json

DEEPEST_VALUE = 32  # lists and objects within each other
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10  # bytes


class Malformed(ValueError):
    """These bytes are no message of OTLP."""


class OversizedExport(ValueError):
    """The message holds more than is read."""


class _Field(NamedTuple):
    name: str
    wire_type: int
    read: "Callable[[Any, _Allowance], Any]"
    is_repeated: bool = False


class _Allowance:
    """How many fields may still be read."""

    def __init__(self, most_fields: int) -> None:
        self.left = most_fields
        self.depth = 0


_Message = dict[int, _Field]


def traces_document(body: bytes, most_fields: int) -> dict[str, Any]:
    """An export request of spans; raises `Malformed` or `OversizedExport`."""
    return _fields(body, _TRACES, _Allowance(most_fields))


def logs_document(body: bytes, most_fields: int) -> dict[str, Any]:
    """An export request of log records; raises `Malformed` or `OversizedExport`."""
    return _fields(body, _LOGS, _Allowance(most_fields))


def _fields(body: bytes, message: _Message, budget: _Allowance) -> dict[str, Any]:
    found: dict[str, Any] = {}
    place, end = 0, len(body)
    while place < end:
        budget.left -= 1
        if budget.left < 0:
            raise OversizedExport("it has too many fields; send fewer spans or attributes at once")
        key = body[place]
        place += 1
        if key >= 0x80:
            key, place = _varint(body, place - 1)
        field, wire_type = message.get(key >> 3), key & 7
        raw: Any
        if wire_type == _LENGTH:
            size, start = _varint(body, place)
            place = start + size
            raw = body[start:place]
        elif wire_type == _VARINT:
            raw, place = _varint(body, place)
        elif wire_type in (_FIXED64, _FIXED32):
            start = place
            place += 8 if wire_type == _FIXED64 else 4
            raw = body[start:place]
        else:
            raise Malformed(f"a field has the wire type {wire_type}")
        if place > end or key < 8:
            raise Malformed("a field is cut off" if place > end else "a field has the number 0")
        if field is None or field.wire_type != wire_type:
            continue
        value = field.read(raw, budget)
        if field.is_repeated:
            found.setdefault(field.name, []).append(value)
        else:
            found[field.name] = value
    return found


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(place, min(place + _LONGEST_VARINT, len(body))):
        byte = body[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
        shift += 7
    raise Malformed("a number is cut off, or too long")


def _text(raw: bytes, _budget: _Allowance) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed("a text is not UTF-8") from None


def _hex(raw: bytes, _budget: _Allowance) -> str:
    return raw.hex()


def _number(raw: int, _budget: _Allowance) -> int:
    return raw


def _nanoseconds(raw: bytes, _budget: _Allowance) -> int:
    return int.from_bytes(raw, "little")


def _double(raw: bytes, _budget: _Allowance) -> float | str:
    """A number, or the word for one that JSON does not have."""
    value: float = struct.unpack("<d", raw)[0]
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _one(message: _Message) -> Callable[[bytes, _Allowance], dict[str, Any]]:
    return lambda raw, budget: _fields(raw, message, budget)


def _value(raw: bytes, budget: _Allowance) -> Json:
    """A typed value as a plain one; of several kinds the last counts."""
    budget.depth += 1
    if budget.depth > DEEPEST_VALUE:
        raise OversizedExport(f"a value is nested more than {DEEPEST_VALUE} levels deep")
    found = _fields(raw, _VALUE, budget)
    budget.depth -= 1
    return found.popitem()[1] if found else None


def _list(raw: bytes, budget: _Allowance) -> list[Json]:
    found: list[Json] = _fields(raw, _LIST, budget).get("values", [])
    return found


def _object(raw: bytes, budget: _Allowance) -> dict[str, Json]:
    pairs = _fields(raw, _OBJECT, budget).get("values", [])
    return {each.get("key", ""): each.get("value") for each in pairs}


def _pair(raw: bytes, budget: _Allowance) -> dict[str, Any]:
    return _fields(raw, _PAIR, budget)


_VALUE: Final[_Message] = {
    1: _Field("stringValue", _LENGTH, _text),
    2: _Field("boolValue", _VARINT, lambda raw, _: bool(raw)),
    3: _Field("intValue", _VARINT, lambda raw, _: raw - (1 << 64) if raw >> 63 else raw),
    4: _Field("doubleValue", _FIXED64, _double),
    5: _Field("arrayValue", _LENGTH, _list),
    6: _Field("kvlistValue", _LENGTH, _object),
    7: _Field("bytesValue", _LENGTH, lambda raw, _: base64.b64encode(raw).decode()),
}
_LIST: Final[_Message] = {1: _Field("values", _LENGTH, _value, True)}
_PAIR: Final[_Message] = {1: _Field("key", _LENGTH, _text), 2: _Field("value", _LENGTH, _value)}
_OBJECT: Final[_Message] = {1: _Field("values", _LENGTH, _pair, True)}


# Of each message, the fields that are read.
_RESOURCE: Final[_Message] = {1: _Field("attributes", _LENGTH, _pair, True)}
_SCOPE: Final[_Message] = {1: _Field("name", _LENGTH, _text)}
_EVENT: Final[_Message] = {
    1: _Field("timeUnixNano", _FIXED64, _nanoseconds),
    2: _Field("name", _LENGTH, _text),
    3: _Field("attributes", _LENGTH, _pair, True),
}
_STATUS: Final[_Message] = {
    2: _Field("message", _LENGTH, _text),
    3: _Field("code", _VARINT, _number),
}
_SPAN: Final[_Message] = {
    1: _Field("traceId", _LENGTH, _hex),
    2: _Field("spanId", _LENGTH, _hex),
    4: _Field("parentSpanId", _LENGTH, _hex),
    5: _Field("name", _LENGTH, _text),
    7: _Field("startTimeUnixNano", _FIXED64, _nanoseconds),
    8: _Field("endTimeUnixNano", _FIXED64, _nanoseconds),
    9: _Field("attributes", _LENGTH, _pair, True),
    10: _Field("droppedAttributesCount", _VARINT, _number),
    11: _Field("events", _LENGTH, _one(_EVENT), True),
    15: _Field("status", _LENGTH, _one(_STATUS)),
}
_LOG_RECORD: Final[_Message] = {
    1: _Field("timeUnixNano", _FIXED64, _nanoseconds),
    5: _Field("body", _LENGTH, _value),
    6: _Field("attributes", _LENGTH, _pair, True),
    9: _Field("traceId", _LENGTH, _hex),
    10: _Field("spanId", _LENGTH, _hex),
    11: _Field("observedTimeUnixNano", _FIXED64, _nanoseconds),
    12: _Field("eventName", _LENGTH, _text),
}


def _request(kind: str, leaf: str, message: _Message) -> _Message:
    scope = {
        1: _Field("scope", _LENGTH, _one(_SCOPE)),
        2: _Field(leaf, _LENGTH, _one(message), True),
    }
    resource = {
        1: _Field("resource", _LENGTH, _one(_RESOURCE)),
        2: _Field(f"scope{kind}", _LENGTH, _one(scope), True),
    }
    return {1: _Field(f"resource{kind}", _LENGTH, _one(resource), True)}


_TRACES: Final[_Message] = _request("Spans", "spans", _SPAN)
_LOGS: Final[_Message] = _request("Logs", "logRecords", _LOG_RECORD)
