"""Outputs as programs have them: data classes, models, dates, decimals, NumPy values, enums.

No library is imported for them: a value is known by what it offers.
"""

import datetime
import enum
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import PurePath
from typing import Any
from uuid import UUID

from evalwright.contracts.jsonvalue import MAX_DEPTH, NotJson, plain

MOST_TOLD = 100_000  # values in one that is only told of
_DEEPEST_TOLD = 100
_LONGEST_NUMBER = 4_096  # bits
_PLAIN = (str, int, float, bool, type(None))
_REMEDIES = {
    "set": "return a list, for example sorted(value)",
    "frozenset": "return a list, for example sorted(value)",
    "bytes": "return a text, for example value.decode()",
    "bytearray": "return a text, for example value.decode()",
    "generator": "return list(value)",
    "async_generator": "return [each async for each in value]",
    "complex": "return its parts, or str(value)",
    "nan": "return None in its place",
    "inf": "return None in its place",
    "-inf": "return None in its place",
    "object keys": "write keys as texts: {str(key): value}",
    "text with a lone surrogate": "replace it: value.encode(errors='replace').decode()",
    "nested": "return a flatter value, without cycles",
}
_OTHERWISE = "return str(value), or a dictionary of its parts"


def output_value(output: Any) -> Any:
    """The output as plain JSON values; raises `NotJson` with a remedy if it has none."""
    try:
        return plain(_as_json(output, 0))
    except NotJson as error:
        named = (_REMEDIES[start] for start in _REMEDIES if error.reason.startswith(f"{start} "))
        remedy = next(named, _OTHERWISE)
        raise NotJson(error.path, f"{error.reason}; {remedy}") from None


def told_value(value: Any) -> Any:
    """A value that is only told of, such as a tool's argument: what JSON has not is its text.

    Being observed must not make an agent fail, so nothing is refused: not what raises when it is
    looked at, nor cycles, nor what has no end.
    """
    left = MOST_TOLD

    def told(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        try:
            if isinstance(value, enum.Enum):
                value = value.value
            if value is None or isinstance(value, bool):
                return value
            if isinstance(value, int):
                return int(value) if value.bit_length() <= _LONGEST_NUMBER else "(a long number)"
            if isinstance(value, float):
                return float(value) if math.isfinite(value) else str(float(value))
            if isinstance(value, str):
                return _whole_characters(value)
            if depth > _DEEPEST_TOLD or left < 0:
                return "…"
            if isinstance(value, Mapping):
                items = islice(value.items(), MOST_TOLD)
                return {_whole_characters(str(_key(k))): told(v, depth + 1) for k, v in items}
            if isinstance(value, list | tuple | set | frozenset):
                return [told(each, depth + 1) for each in islice(value, MOST_TOLD)]
            if isinstance(value, bytes | bytearray):
                return f"({len(value):,} bytes)"
            for is_kind, form in _FORMS:
                if is_kind(value):
                    return told(form(value), depth + 1)
            return _whole_characters(str(value))
        except Exception:  # noqa: BLE001 - what is in it may be code of the agent
            return f"({type(value).__name__})"

    return told(value, 0)


def _whole_characters(text: str) -> str:
    """The text without the halves of characters, which JSON cannot carry."""
    text = str.__str__(text)
    return text if text.isascii() else text.encode(errors="replace").decode()


def _as_json(value: Any, depth: int) -> Any:
    """The value with everything replaced that has one clear form; the rest is left as it is."""
    if isinstance(value, enum.Enum):
        return _as_json(value.value, depth)
    if isinstance(value, _PLAIN):
        return value
    if depth > MAX_DEPTH:
        raise NotJson("$", f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {_key(key): _as_json(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each, depth + 1) for each in value]
    for is_kind, form in _FORMS:
        if is_kind(value):
            return _as_json(form(value), depth + 1)
    return value


def _key(key: Any) -> Any:
    return key.value if isinstance(key, enum.Enum) else key


def _number(value: Decimal) -> float | int | str:
    if value == value.to_integral_value() and value.adjusted() < 15:
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "__dataclass_fields__", None) or getattr(value, "__struct_fields__", ())
    names = names or [each.name for each in getattr(value, "__attrs_attrs__", ())]
    return {name: getattr(value, name) for name in names}


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: (
        not isinstance(value, type) and all(hasattr(type(value), name) for name in names)
    )


def _is_one_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _finite(value: Any) -> bool:
    return isinstance(value, Decimal) and value.is_finite()


_FORMS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (_is_one_of(datetime.date, datetime.time), lambda value: value.isoformat()),
    (_finite, _number),
    (_is_one_of(Decimal), float),
    (_is_one_of(UUID, PurePath), str),
    (_has("model_dump"), lambda value: value.model_dump()),
    (_has("__dataclass_fields__"), _fields),
    (_has("__struct_fields__"), _fields),
    (_has("__attrs_attrs__"), _fields),
    (_has("dtype", "tolist"), lambda value: value.tolist()),  # NumPy, and what is like it
)
