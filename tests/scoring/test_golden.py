"""Golden scoring: `exact`, `contains` and `json-match`, by the rules that the issue gives."""

import json
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builders import a_task, golden_score
from evalwright.contracts.jsonvalue import canonical, json_equal, stringify
from strategies import json_values


def score(strategy: str, output: object, value: object) -> float:
    return golden_score(output, a_task(strategy=strategy, value=value).expected.match)


def reordered(value: object, seed: random.Random) -> object:
    """The same value with the keys of its objects in another order."""
    if isinstance(value, list):
        return [reordered(item, seed) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    seed.shuffle(keys)
    return {key: reordered(value[key], seed) for key in keys}


# exact


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        ("yes", "yes", 1),
        ("yes", "Yes", 0),
        ("yes", "yes ", 0),
        ("", "", 1),
        ("1", 1, 1),
        (1.0, 1, 1),
        (1.0, "1", 1),
        (True, "true", 1),
        (None, "null", 1),
        (True, 1, 0),
        ({"b": 1, "a": [1.5, None]}, {"a": [1.5, None], "b": 1.0}, 1),
        ({"a": 1}, '{"a":1}', 1),
        ('{"a": 1}', {"a": 1}, 0),  # a string stays as it is, and this one has a blank
    ],
)
def test_exact_compares_strings_as_they_are_and_all_else_as_canonical_json(output, value, expected):
    assert score("exact", output, value) == expected


@given(json_values, json_values)
def test_exact_is_equality_of_the_stringified_sides(output, value):
    assert score("exact", output, value) == (stringify(output) == stringify(value))


@given(json_values, st.randoms(use_true_random=False))
def test_exact_does_not_see_the_order_of_keys(value, seed):
    assert score("exact", reordered(value, seed), value) == 1


# contains


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        ("within 30 days", "30", 1),
        ("within 30 days", 30, 1),
        ("within 30 days", "31", 0),
        ("", "", 1),
        ({"days": 30}, "30", 1),
        ({"b": 1, "a": 2}, '{"a":2,', 1),
        ([1, {"a": True}, 2], {"a": True}, 1),
        ("30", "within 30 days", 0),
        ("within 30 days", "WITHIN", 0),
    ],
)
def test_contains_looks_for_one_text_within_the_other(output, value, expected):
    assert score("contains", output, value) == expected


@given(st.text(), st.text(), st.text())
def test_contains_holds_wherever_the_value_stands(before, value, after):
    assert score("contains", before + value + after, value) == 1


# json-match


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1),
        ({"a": 1}, {"a": 1.0}, 1),
        ({"a": True}, {"a": 1}, 0),
        ({"a": False}, {"a": 0}, 0),
        (True, 1, 0),
        (False, 0, 0),
        (0, False, 0),
        (1.0, True, 0),
        ([True], [1], 0),
        ([{"a": [False]}], [{"a": [0]}], 0),
        ("true", 1, 0),
        ("[true]", [1], 0),
        ("true", True, 1),
        (True, True, 1),
        ({"a": "1"}, {"a": 1}, 0),
        ({"a": 1, "b": 2}, {"a": 1}, 0),
        ({"a": 1}, {"a": 1, "b": 2}, 0),
        ([], {}, 0),
        (None, False, 0),
        (None, None, 1),
        ("", None, 0),
        ({"a": None}, {}, 0),
        ([1, 2], [2, 1], 0),
        ([1, 2], [1, 2, 3], 0),
        ("yes", "yes", 1),
        ("yes", "no", 0),
        ("1", 1, 1),
        ("1", "1", 1),
        (1, "1", 0),  # only an output is parsed, never the value
        ('"yes"', "yes", 1),
        (' { "a" : [ 1 , 2 ] }\n', {"a": [1, 2]}, 1),
        ('{"a": 1', {"a": 1}, 0),
        ('Here you are: {"a": 1}', {"a": 1}, 0),
        ('{"a": NaN}', {"a": None}, 0),
        (2**53 + 1, float(2**53), 0),
    ],
)
def test_json_match_compares_values(output, value, expected):
    assert score("json-match", output, value) == expected


@given(json_values)
def test_json_match_finds_every_value_equal_to_itself(value):
    assert score("json-match", value, value) == 1


@given(json_values, st.randoms(use_true_random=False))
def test_json_match_sees_neither_the_order_of_keys_nor_white_space(value, seed):
    text = json.dumps(reordered(value, seed), indent=seed.choice([None, 1, "\t"]))
    assert score("json-match", reordered(value, seed), value) == 1
    assert score("json-match", text, value) == 1
    assert score("json-match", f"\n {text}\t", value) == 1


@given(st.integers(-(2**53), 2**53))
def test_json_match_takes_a_whole_number_for_the_double_of_the_same_value(number):
    assert score("json-match", number, float(number)) == 1
    assert score("json-match", [float(number)], [number]) == 1


@given(json_values, json_values)
def test_json_match_is_symmetric_for_what_is_no_string(left, right):
    assume(not isinstance(left, str) and not isinstance(right, str))
    assert score("json-match", left, right) == score("json-match", right, left)


@given(json_values, json_values)
def test_values_of_the_same_canonical_text_are_equal(left, right):
    assert json_equal(left, right) or canonical(left) != canonical(right)


@given(json_values)
def test_a_score_is_1_or_0(value):
    scores = {score(name, value, "x") for name in ("exact", "contains", "json-match")}
    assert scores <= {0.0, 1.0}


# Stringification.


@given(st.text())
def test_a_string_is_stringified_as_it_is(text):
    assert stringify(text) == text


@given(json_values)
def test_anything_else_is_stringified_as_canonical_json(value):
    assume(not isinstance(value, str))
    assert stringify(value) == canonical(value)
