"""Outputs as programs have them: data classes, models, dates, decimals, NumPy values, enums.

No library is imported for them: a value is known by what it offers.
"""

import datetime
import enum
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from evalwright.contracts.jsonvalue import MAX_DEPTH, NotJson, plain

_PLAIN = (str, int, float, bool, type(None))
_REMEDIES = {
    "set": "return a list, for example sorted(value)",
    "frozenset": "return a list, for example sorted(value)",
    "bytes": "return a text, for example value.decode()",
    "bytearray": "return a text, for example value.decode()",
    "generator": "return list(value)",
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
    """A number where a double is exactly the same decimal, else its digits."""
    if value == value.to_integral_value() and value.adjusted() < 15:
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "__dataclass_fields__", None) or getattr(value, "__struct_fields__", ())
    names = names or [each.name for each in getattr(value, "__attrs_attrs__", ())]
    return {name: getattr(value, name) for name in names}


def _has(*names: str) -> Callable[[Any], bool]:
    """Whether a value, not a class, offers all of these."""
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
