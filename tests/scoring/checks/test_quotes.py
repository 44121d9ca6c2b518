"""Values as results and messages show them: whole up to a length, and then cut."""

import pytest
from looking import said

from evalwright.scoring.checks.quotes import (
    BRIEF,
    LONGEST,
    named,
    piece,
    quoted,
    quoted_json,
    shown,
    shown_around,
)


@pytest.mark.parametrize(("brief", "most"), [(False, LONGEST), (True, BRIEF)])
def test_a_value_is_shown_whole_up_to_a_length_and_then_by_its_two_ends(brief, most):
    text = "a" * (most // 2) + "b" * (most // 2)
    assert shown(text, brief=brief) == text
    half = most // 2
    assert shown(f"{text}c", brief=brief) == (
        f"{'a' * half} … (1 characters) … {'b' * (half - 1)}c"
    )
    fitting = ["x" * (most - 4)]  # with its brackets and quotes
    assert shown(fitting, brief=brief) == fitting
    longer = shown([*fitting, 1], brief=brief)
    assert longer.startswith('["xxx')
    assert longer.endswith('xx",1]')
    assert " … (2 characters) … " in longer


def test_the_text_of_a_value_is_that_of_whoever_has_it():
    assert shown(["x" * LONGEST], text=lambda: "as it was") == "as it was"
    unwritable = {object(): 1}
    assert shown(unwritable) == str(unwritable)


@pytest.mark.parametrize("value", [None, True, 7, 0.5])
def test_what_is_short_is_shown_as_it_is(value):
    assert shown(value) is value


def test_values_are_shown_in_full_where_a_check_fails_and_briefly_where_it_passes():
    output = {"order": "x" * 500}
    failed = said({"equals": {"value": {"order": 1}}}, output)
    assert failed.actual == output
    passed = said({"equals": {"value": output}}, output)
    assert len(passed.actual) < 400


@pytest.mark.parametrize(
    ("length", "place", "expected"),
    [
        (LONGEST, 5, "{all}"),
        (3_000, 100, "{0:2000} … (1000 characters)"),
        (3_000, 600, "… (100 characters) {100:2100} … (900 characters)"),
        (3_000, 2_900, "… (1000 characters) {1000:3000}"),
    ],
)
def test_a_long_text_is_shown_around_a_place(length, place, expected):
    text = "".join(chr(0x4E00 + number) for number in range(length))
    for start, end in ((0, 2000), (100, 2100), (1000, 3000)):
        expected = expected.replace(f"{{{start}:{end}}}", text[start:end])
    assert shown_around(text, place) == expected.replace("{all}", text)


def test_a_value_within_a_message_is_quoted_and_cut():
    assert quoted("a" * 80) == f"“{'a' * 80}”"
    assert quoted("a" * 81) == f"“{'a' * 79}…”"
    assert quoted("abc", 2) == "“a…”"
    assert quoted({"a": [1, True]}) == '{"a":[1,true]}'
    assert quoted({1, 2}) == "{1, 2}"
    assert quoted_json("a" * 78) == f'"{"a" * 78}"'
    assert quoted_json("a" * 79) == f'"{"a" * 78}…'


def test_a_part_of_a_text_is_marked_where_it_is_cut():
    assert piece("secret", 0, 6) == "“secret”"
    assert piece("secret", 1, 6) == "“…ecret”"
    assert piece("secret", -3, 5) == "“secre…”"


def test_of_many_names_the_first_are_told():
    assert named(["a", "b"]) == "“a”, “b”"
    assert named(list("abc"), 3) == "“a”, “b”, “c”"
    assert named(list("abcd"), 2) == "“a”, “b” and 2 more"


def test_what_stands_at_a_place_is_shown_with_what_was_left_out_around_it():
    assert shown_around("x" * LONGEST, 0) == "x" * LONGEST
    assert shown_around("x" * (LONGEST + 1), 0) == "x" * LONGEST + " … (1 characters)"
    assert shown_around("x" * (LONGEST + 1), LONGEST) == "… (1 characters) " + "x" * LONGEST
