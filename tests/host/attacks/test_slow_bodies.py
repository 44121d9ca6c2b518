"""Bodies that take long to read, or much room, although they are not long."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.jsonvalue import MOST_EXTREME, burden
from evalwright.host.access.limits import MOST_VALUES, parse_body
from evalwright.host.http.errors import ApiError
from host.caller import Caller

JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('[{,"\\ab'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[{,"\\ab'), inner),
)


@pytest.mark.parametrize("number", [b"1e308", b"1E-308", b"-2.5e+0300", b"1e-320"])
def test_a_body_full_of_extreme_numbers_is_refused_before_it_is_read(number: bytes) -> None:
    body = b"[" + b",".join([number] * (MOST_EXTREME + 1)) + b"]"
    with pytest.raises(ApiError, match="exponent of three digits") as refused:
        parse_body(body)
    assert refused.value.status == 400
    assert len(parse_body(b"[" + b",".join([number] * MOST_EXTREME) + b"]")) == MOST_EXTREME


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"a":1}', b'"ab"', b"0", b"[[[[]]]]"])
def test_a_body_of_very_many_values_is_refused_before_it_is_read(value: bytes) -> None:
    body = b"[" + b",".join([value] * (MOST_VALUES + 1)) + b"]"
    with pytest.raises(ApiError, match=f"more than {MOST_VALUES} values") as refused:
        parse_body(body)
    assert refused.value.status == 400


def test_nesting_without_end_is_refused_before_it_is_read() -> None:
    with pytest.raises(ApiError, match=f"more than {MOST_VALUES} values"):
        parse_body(b"[" * (MOST_VALUES + 1))


@pytest.mark.parametrize("text", ["1e308 ", '1e308"', "1e308\\", '[{,"\\' * 40])
def test_what_strings_hold_counts_for_nothing(text: str) -> None:
    value = {"hex": text * (MOST_EXTREME + 1)}
    assert parse_body(json.dumps(value).encode()) == value


@given(JSON)
def test_the_values_outside_of_strings_are_counted(value: object) -> None:
    text = json.dumps(value).encode()
    count = _separators(value)
    assert burden(text, count) is None
    assert count == 0 or burden(text, count - 1) is not None


def _separators(value: object) -> int:
    """The brackets that open and the commas that a value is written with."""
    if not isinstance(value, list | dict):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(_separators, members))


def test_a_string_without_an_end_is_gone_through_once() -> None:
    # Were it no string, each of its quotes would begin one to look for the end of.
    assert burden(b'"' + b'\\"[' * 2_000, most_values=1_000) is None


@pytest.mark.parametrize("value", [b"1e308", b"[]"])
def test_a_body_that_is_too_much_is_answered_with_what_is_wrong(
    newcomer: Caller, value: bytes
) -> None:
    body = b'{"tasks":[' + b",".join([value] * 600_000) + b"]}"
    reply = newcomer.post("/v1/suites", body)
    assert reply.refusal == (400, "validation_error")
    assert "send fewer" in reply.json()["message"]
