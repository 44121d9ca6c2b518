"""Bodies: plain JSON passes unchanged; what parsers disagree on, or choke on, is a 400."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.access.limits import MAX_DEPTH, parse_body
from evalwright.host.http.errors import ApiError
from strategies import doubles, json_of

fitting = st.integers(-(2**63), 2**63 - 1)
too_large = st.integers(min_value=2**63) | st.integers(max_value=-(2**63) - 1)
bodies = json_of(st.none() | st.booleans() | fitting | doubles | st.text(max_size=8))


def refusal(body: bytes, **options: int) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_body(body, **options)
    error = caught.value
    assert (error.status, error.code) == (400, "validation_error")
    return error


def nested(levels: int, *, mixed: bool) -> bytes:
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if mixed and level % 2 else [value]
    return json.dumps(value).encode()


def path_into(levels: int, steps: int, *, mixed: bool) -> str:
    inwards = reversed(range(levels - steps, levels))
    return "$" + "".join(".a" if mixed and level % 2 else "[0]" for level in inwards)


@given(bodies)
def test_plain_json_is_read_as_it_was_written(value: Any) -> None:
    assert parse_body(json.dumps(value).encode()) == value
    assert parse_body(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(bodies)
def test_what_was_read_can_be_written_again(value: Any) -> None:
    read = parse_body(json.dumps(value).encode())
    assert parse_body(msgspec.json.encode(read)) == read


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_400(body: bytes) -> None:
    try:
        parse_body(body)
    except ApiError as error:
        assert (error.status, error.code) == (400, "validation_error")  # noqa: PT017


@given(st.text('[]{},:"\\u0dD8ceE1.+-ntf \n', max_size=40))
def test_anything_near_json_is_a_value_or_a_400(text: str) -> None:
    try:
        parse_body(text.encode())
    except ApiError as error:
        assert (error.status, error.code) == (400, "validation_error")  # noqa: PT017


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"[1,]", b"{'a': 1}", b"1 2", b"nul", b"\xef\xbb\xbf{}", b'"\n"', b"01"],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    assert "send one JSON value" in refusal(body).message


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400"])
def test_numbers_that_json_has_not_are_refused(number: bytes) -> None:
    refusal(number)
    refusal(b'{"a": [' + number + b"]}")


@pytest.mark.parametrize(
    ("body", "place"), [(b'"\xff"', 1), (b'{"a": "\xc3"}', 7), (b'"\xed\xa0\x80"', 1)]
)
def test_what_is_not_utf8_is_refused_with_the_byte(body: bytes, place: int) -> None:
    assert f"byte {place} is not valid UTF-8" in refusal(body).message


@pytest.mark.parametrize(
    "body", [rb'"\ud800"', rb'{"a": "x\udfff"}', rb'["\ud800\u0041"]', rb'{"\udc00": 1}']
)
def test_half_a_character_is_refused(body: bytes) -> None:
    assert "surrogate" in refusal(body).message


def test_a_whole_character_may_be_escaped_in_two_halves() -> None:
    assert parse_body(rb'"\ud83d\ude00"') == "\U0001f600"


@given(bodies, st.text(max_size=5), bodies)
def test_a_key_that_is_there_twice_is_refused(one: Any, key: str, other: Any) -> None:
    name, first, second = json.dumps(key), json.dumps(one), json.dumps(other)
    twice = f"{{{name}: {first}, {name}: {second}}}"
    assert "duplicate key" in refusal(twice.encode()).message
    assert "duplicate key" in refusal(f'{{"outer": [{twice}]}}'.encode()).message


def test_a_key_in_two_spellings_is_the_same_key() -> None:
    assert "duplicate key 'a'" in refusal(rb'{"a": 1, "\u0061": 2}').message


@given(too_large)
def test_a_whole_number_of_more_than_64_bits_is_refused_with_its_place(number: int) -> None:
    error = refusal(f'{{"a": [0, {{"b c": {number}}}]}}'.encode())
    assert error.details == {"path": '$.a[1]["b c"]'}
    assert "64 bits" in error.message


@pytest.mark.parametrize("digits", [20, 4_000, 5_000, 100_000])
def test_a_number_of_very_many_digits_is_refused(digits: int) -> None:
    refusal(b"9" * digits)
    refusal(b"-" + b"9" * digits)
    refusal(b"[" + b"9" * digits + b"]")


@given(limit=st.integers(1, 40), levels=st.integers(0, 60), mixed=st.booleans())
def test_a_body_may_be_nested_as_deep_as_the_limit_and_no_deeper(
    limit: int, levels: int, *, mixed: bool
) -> None:
    body = nested(levels, mixed=mixed)
    if levels <= limit:
        parse_body(body, max_depth=limit)
    else:
        error = refusal(body, max_depth=limit)
        assert "nested too deeply" in error.message
        assert error.details == {"path": path_into(levels, limit, mixed=mixed)}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 1_000, 100_000])
def test_no_depth_brings_the_parser_down(opening: bytes, levels: int) -> None:
    closing = b"]" if opening == b"[" else b"}"
    refusal(opening * levels + b"1" + closing * levels)
    refusal(opening * levels)


def test_a_message_about_a_body_stays_short() -> None:
    long_key = "k" * 100_000
    for body in (
        json.dumps({long_key: 2**70}),
        f'{{"{long_key}": 1, "{long_key}": 2}}',
    ):
        error = refusal(body.encode())
        assert len(error.message) < 500
        assert len(repr(error.details)) < 500
