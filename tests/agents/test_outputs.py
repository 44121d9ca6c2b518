"""Outputs that are not JSON: those with one clear form become it, the rest is refused."""

import collections
import dataclasses
import datetime
import enum
import types
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from evalwright.agents.protocol import AgentFailure, checked_output


class Carrier(enum.Enum):
    POST = "post"
    COURIER = 2


@dataclasses.dataclass
class Parcel:
    carrier: Carrier
    sent: datetime.date
    price: Decimal
    inside: list[Any] = dataclasses.field(default_factory=list)


class Shelf(msgspec.Struct):
    number: int
    since: datetime.date


class Model:
    """As pydantic's models are known: by `model_dump`."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


class Scalar:
    """As NumPy's values are known: a `dtype`, and `tolist`."""

    dtype = "float32"

    def __init__(self, value: Any) -> None:
        self._value = value

    def tolist(self) -> Any:
        return self._value


class Attribute:
    __attrs_attrs__ = (types.SimpleNamespace(name="size"),)
    size = Decimal(3)


NOON = datetime.datetime(2026, 11, 16, 12, 30, tzinfo=datetime.UTC)

FORMS = {
    "an enum": (Carrier.POST, "post"),
    "an enum of numbers": (Carrier.COURIER, 2),
    "an enum as key": ({Carrier.POST: 1}, {"post": 1}),
    "a date": (NOON.date(), "2026-11-16"),
    "a time of day": (NOON.time(), "12:30:00"),
    "a moment": ([NOON], ["2026-11-16T12:30:00+00:00"]),
    "a decimal": (Decimal("1.10"), 1.1),
    "a whole decimal": (Decimal(12), 12),
    "a decimal of more digits than a number has": (
        Decimal("0.12345678901234567890"),
        "0.12345678901234567890",
    ),
    "a very large decimal": (Decimal(123456789012345678901), "123456789012345678901"),
    "a data class": (
        Parcel(Carrier.POST, NOON.date(), Decimal("4.5"), [Shelf(1, NOON.date())]),
        {
            "carrier": "post",
            "sent": "2026-11-16",
            "price": 4.5,
            "inside": [{"number": 1, "since": "2026-11-16"}],
        },
    ),
    "a struct": (Shelf(4, NOON.date()), {"number": 4, "since": "2026-11-16"}),
    "a class of attrs": (Attribute(), {"size": 3}),
    "a model": (Model(order=Model(id="A-17")), {"order": {"id": "A-17"}}),
    "a NumPy number": ({"score": Scalar(0.5)}, {"score": 0.5}),
    "a NumPy array": (Scalar([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "a mapping that is no dictionary": (types.MappingProxyType({"a": 1}), {"a": 1}),
    "a named tuple": (collections.namedtuple("Pair", "a b")(Decimal(1), 2), [1, 2]),
    "a unique id": (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "a path": (PurePosixPath("a/b"), "a/b"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_value_with_one_clear_form_becomes_it(form: str) -> None:
    value, expected = FORMS[form]
    found = checked_output(value)
    assert found == expected
    assert type(found) is type(expected)


async def streamed() -> AsyncIterator[str]:
    yield "a"


REFUSED = {
    "a set": ({"x": {1}}, "$.x: set is not a JSON value; return a list"),
    "bytes": (b"x", "return a text, for example value.decode()"),
    "not a number": (Decimal("NaN"), "nan is not a JSON number; return None in its place"),
    "infinity of NumPy": (Scalar(float("inf")), "inf is not a JSON number; return None"),
    "a number as key": ({1: 2}, "object keys must be strings, not int; write keys as texts"),
    "an object": ([object()], "$[0]: object is not a JSON value; return str(value)"),
    "a class": (Parcel, "type is not a JSON value; return str(value)"),
    "a generator": ((each for each in "ab"), "return list(value)"),
    "an async generator": (streamed(), "return [each async for each in value]"),
}


@pytest.mark.parametrize("output", REFUSED)
def test_what_cannot_be_json_is_refused_with_the_remedy(output: str) -> None:
    value, message = REFUSED[output]
    with pytest.raises(AgentFailure) as refused:
        checked_output(value)
    assert refused.value.error.code == "invalid_answer"
    assert message in refused.value.error.message


def test_a_model_that_fails_to_dump_itself_is_no_output() -> None:
    class Broken(Model):
        def model_dump(self) -> dict[str, Any]:
            raise RuntimeError("no fields")

    with pytest.raises(AgentFailure, match="no fields"):
        checked_output(Broken())


def test_a_value_within_itself_is_refused() -> None:
    parcel = Parcel(Carrier.POST, NOON.date(), Decimal(1))
    parcel.inside.append(parcel)
    with pytest.raises(AgentFailure, match="nested more than"):
        checked_output(parcel)
