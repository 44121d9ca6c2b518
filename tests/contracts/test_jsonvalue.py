"""JSON values: canonical text is that of RFC 8785, and what JSON cannot carry is refused."""

import json
import math
import struct
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effort import takes_at_most
from evalwright.contracts.jsonvalue import (
    MAX_DEPTH,
    NotJson,
    canonical,
    canonical_beginning,
    child,
    parse,
    plain,
    repeated_key,
)
from strategies import doubles, json_of, json_values, whole_numbers

# RFC 8785, appendix B: the bits of a double, and how it is written.
RFC_8785_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}

exact_doubles = doubles.filter(lambda number: abs(number) < 2**53 or number % 1 != 0)
scalars_that_come_back = st.none() | st.booleans() | whole_numbers | exact_doubles | st.text()


def nested(levels: int, key: str | None = None) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


def by_ecma_262(number: float) -> str:
    """Number::toString of ECMA-262, step by step, which is what the RFC refers to."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if number == 0:
        return "0"
    if sign:
        return "-" + by_ecma_262(-number)
    text = "".join(map(str, digits))
    k, n = len(text), len(text) + int(exponent)
    if k <= n <= 21:
        return text + "0" * (n - k)
    if 0 < n <= 21:
        return text[:n] + "." + text[n:]
    if -6 < n <= 0:
        return "0." + "0" * -n + text
    power = f"e{'+' if n > 0 else '-'}{abs(n - 1)}"
    return text + power if k == 1 else text[0] + "." + text[1:] + power


def reason(value: object) -> str:
    with pytest.raises(NotJson) as caught:
        canonical(value)
    return str(caught.value)


# Canonical text.


@pytest.mark.parametrize(("bits", "text"), RFC_8785_NUMBERS.items())
def test_numbers_are_written_as_appendix_b_of_the_rfc_has_them(bits, text):
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == text


def test_the_example_of_the_rfc_comes_out_as_the_rfc_has_it():
    source = r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""
    assert canonical(parse(source)) == (
        '{"literals":[null,true,false],'
        '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + r"""'B\"\\\\\"/"}"""
    )


def test_keys_are_sorted_by_utf_16_code_units_as_in_the_rfc():
    shuffled = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    in_order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(parse(canonical(dict.fromkeys(shuffled)))) == in_order


@given(st.lists(st.text(), unique=True))
def test_any_keys_are_sorted_by_utf_16_code_units(keys):
    def units(text):
        encoded = text.encode("utf-16-be")
        return struct.unpack(f">{len(encoded) // 2}H", encoded)

    assert list(parse(canonical(dict.fromkeys(keys)))) == sorted(keys, key=units)


def test_only_quotes_backslashes_and_control_characters_are_escaped():
    assert canonical('"\\/\b\t\n\f\r\x00\x1f\x7f é€\u2028😀') == (
        r'"\"\\/\b\t\n\f\r\u0000\u001f' + '\x7f é€\u2028😀"'
    )


@given(
    json_of(
        st.none() | st.booleans() | whole_numbers | st.text(), st.text("ab\n\x1fé~", max_size=4)
    )
)
def test_all_but_doubles_is_written_as_pythons_own_json_module_writes_it(value):
    reference = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert canonical(value) == reference


@given(json_of(scalars_that_come_back))
def test_what_is_written_can_be_read_back(value):
    text = canonical(value)
    assert parse(text) == value
    assert canonical(parse(text)) == text


@given(doubles | doubles.map(lambda number: round(number % 10, 3)))
@example(0.5)
@example(1.5e300)
@example(1e-6)
@example(123456789012345680000.0)
def test_any_double_is_written_as_ecmascript_writes_it_and_read_back_as_itself(number):
    assert canonical(number) == by_ecma_262(number)
    assert float(canonical(number)) == number


@given(st.dictionaries(st.text(), json_values), st.randoms())
def test_the_order_of_keys_leaves_no_trace(value, random):
    entries = list(value.items())
    random.shuffle(entries)
    assert canonical(dict(entries)) == canonical(value)


def test_a_tuple_is_an_array_and_1_is_written_like_1_0():
    assert canonical((1, 1.0, -0.0, True)) == "[1,1,0,true]"


@given(st.integers(-(10**40), 10**40))
def test_whole_numbers_keep_all_their_digits(number):
    assert canonical(number) == str(number)


# What is refused, and where.


@given(json_values, st.integers(0, 40))
def test_the_beginning_of_a_text_is_that_of_the_whole(value, most):
    assert canonical_beginning(value, most) == canonical(value)[:most]


def test_the_beginning_of_a_large_value_takes_little_time():
    wide = {
        "a": [{"id": n, "name": "x" * 1_000} for n in range(20_000)],
        "b": {str(n): n for n in range(20_000)},
    }
    assert takes_at_most(
        0.5, lambda: [canonical_beginning([wide, "x" * 10_000_000], 80) for _ in range(10)]
    )


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_refused_with_their_place(number):
    assert reason({"a": [1, {"b c": number}]}).startswith('$.a[1]["b c"]: ')


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", {"\ud800": 1}])
def test_a_lone_surrogate_is_refused(value):
    assert "lone surrogate" in reason([value])


@pytest.mark.parametrize("value", [{1: 2}, {None: 2}, {True: 2}, {("a",): 2}])
def test_a_key_that_is_no_string_is_refused(value):
    assert reason({"at": value}).startswith("$.at: object keys must be strings")


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), 1j])
def test_what_is_no_json_value_is_refused_by_the_name_of_its_type(value):
    assert reason([value]) == f"$[0]: {type(value).__name__} is not a JSON value"


def test_a_value_that_holds_itself_is_refused():
    listed: list = []
    listed.append(listed)
    keyed: dict = {}
    keyed["me"] = {"and": [keyed]}
    assert "levels deep" in reason(listed)
    assert "levels deep" in reason(keyed)


@pytest.mark.parametrize("key", [None, "k"])
def test_nesting_is_bounded(key):
    assert parse(canonical(nested(MAX_DEPTH, key))) == nested(MAX_DEPTH, key)
    assert f"nested more than {MAX_DEPTH} levels deep" in reason(nested(MAX_DEPTH + 1, key))


def test_a_number_of_thousands_of_digits_is_refused():
    assert reason({"n": 10**5000}) == "$.n: the number has too many digits"


# Plain values.


class Loud(str):
    """A text that says something else of itself, as some libraries have them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Real(float):
    """A number that is shown like those of numpy."""

    def __repr__(self) -> str:
        return f"Real({float(self)})"


class Mark(int):
    pass


@given(json_values)
def test_a_json_value_is_plain_already(value):
    assert plain(value) == value
    assert canonical(plain(value)) == canonical(value)


@pytest.mark.parametrize(
    ("value", "simple"),
    [
        (Loud("é"), "é"),
        (Real(0.5), 0.5),
        (Mark(7), 7),
        ({"a": [Loud("x"), Real(1.5)]}, {"a": ["x", 1.5]}),
        (OrderedDict(b=1, a=(1, 2)), {"b": 1, "a": [1, 2]}),
        ({Loud("k"): 1}, {"k": 1}),
    ],
)
def test_what_libraries_return_becomes_what_it_stands_for(value, simple):
    found = plain(value)
    assert found == simple
    assert repr(found) == repr(simple)
    assert canonical(value) == canonical(simple)


@pytest.mark.parametrize("value", ["\udc00", Loud("\udc00"), math.nan, Real("inf"), {"a": {1}}])
def test_what_has_no_canonical_text_has_no_plain_value(value):
    with pytest.raises(NotJson):
        plain(value)


# Keys that stand twice.


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (b'{"a": 1, "a": 1}', "a"),
        (b'{"x": 1, "a": {"b": [{"d": 1, "c": 2, "c": 3}]}}', "c"),
        (b'{"a": 1, "\\u0061": 2}', "a"),
        (b'{"a": {"b": 1}, "b": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}', None),
        (b'{"a": 1, "a"', None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_key_that_stands_twice_in_one_object_is_found(text, key):
    assert repeated_key(text) == key


@given(json_values)
def test_what_was_written_from_a_dict_repeats_no_key(value):
    assert repeated_key(json.dumps(value).encode()) is None


# Parsing.


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1,]", "{'a': 1}", "{a: 1}", "NaN", "Infinity", "-Infinity", "01", "1.", "+1",
     "1e400", "nul", "[1] x", '"\n"', r'"\ud800"', r'"\udc00"', '"\ud800"', r'"\x41"', "// c\n1",
     "1" * 5000, "[" * 100_000],
)  # fmt: skip
def test_what_is_not_strict_json_is_refused(text):
    with pytest.raises(NotJson):
        parse(text)


def test_bytes_that_are_not_utf_8_are_refused():
    with pytest.raises(NotJson):
        parse(b'"\xff"')


@given(st.text() | st.binary())
def test_parsing_anything_gives_a_value_or_not_json(source):
    try:
        value = parse(source)
    except NotJson:
        return
    assert json.loads(source) == value


# Paths.


def test_paths_read_as_in_json_path():
    assert child(child("$", "tasks"), 3) == "$.tasks[3]"
    assert child("$", "a b") == '$["a b"]'
    assert child("$", 'quo"te') == r'$["quo\"te"]'
    assert child("$", "") == '$[""]'
    assert child("$", "9a") == '$["9a"]'
