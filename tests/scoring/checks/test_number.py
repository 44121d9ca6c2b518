"""`number`: which number an output names, and whether it is close enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import passes, refused, said


@pytest.mark.parametrize("output", [0.1 + 0.2, 0.3, "0.3", "It is 0.1 + 0.2 = 0.3.", "30 %"])
def test_a_sum_of_tenths_is_three_tenths(output):
    assert passes({"number": {"value": 0.3, "within": 1e-9}}, output)
    assert passes({"number": 0.3}, output)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("1,234,567.5 people", 1234567.5),
        ("1.234.567,5 Leute", 1234567.5),
        ("12,34,567 rupees", 1234567),
        ("1 234,5 €".replace(" ", "\u202f", 1), 1234.5),
        ("CHF 1\u2019234.50", 1234.5),
        ("1,234", 1234),
        ("0,25", 0.25),
        ("0,125", 0.125),
        ("-5 degrees", -5),
        ("\u22125 degrees", -5),
        ("+5", 5),
        ("-$5.50", -5.5),
        ("- 5 apples", 5),
        ("10-3 is more", 3),
        ("order A-17", 17),
        ("3-5 days", 5),
        ("6.02e23", 6.02e23),
        ("1E-9", 1e-9),
        (".5", 0.5),
        ("共3個", 3),
        ("\u0664\u0662", 42),
        ("USD300", 300),
        ('{"total": 12.5}', 12.5),
        ("25%", 25),
        ("25%", 0.25),
    ],
)
def test_numbers_are_read_as_people_write_them(output, value):
    assert passes({"number": value}, output)


def test_a_number_within_a_name_counts_only_where_there_is_no_other():
    assert not passes({"number": 4}, "GPT4 says 5")
    assert passes({"number": {"value": 5, "which": "only"}}, "GPT4 says 5")


def test_of_several_numbers_a_value_takes_any_and_bounds_take_the_last():
    output = "Step 1: 6 times 7 is 42"
    assert passes({"number": 7}, output)
    assert not passes({"number": {"between": [0, 10]}}, output)
    assert passes({"number": {"between": [40, 45]}}, output)
    assert passes({"number": {"between": [0, 1], "which": "first"}}, output)
    assert not passes({"number": {"value": 7, "which": "last"}}, output)
    assert not passes({"number": {"value": 42, "which": "only"}}, output)


@pytest.mark.parametrize(
    ("check", "output", "reason"),
    [
        ({"number": 3}, "three", "no number is in the output"),
        ({"number": 3}, True, "no number is in the output"),
        ({"number": 3}, 4, "4 is not 3"),
        ({"number": 3}, "1 or 2", "2, the nearest of 2 numbers in the output, is not 3"),
        (
            {"number": {"between": [0, 1]}},
            "1 of 57",
            "57, the last of 2 numbers in the output, is not between 0 and 1; another number",
        ),
        ({"number": {"value": 100, "within": "5%"}}, "106", "106 is not 100 within 5%"),
    ],
)
def test_a_failure_names_the_number_that_was_looked_at(check, output, reason):
    assert reason in said(check, output).reason


def test_bounds_belong_to_what_is_allowed():
    assert passes({"number": {"value": 0.3, "within": 0.1}}, 0.4)
    assert passes({"number": {"value": 100, "within": "5%"}}, 105)
    assert passes({"number": {"value": 3, "within": "1e-9"}}, 3)
    assert passes({"number": {"between": [0, 1]}}, 1)
    assert not passes({"number": {"value": 0.3, "within": 0.1}}, 0.4001)


def test_numbers_that_a_file_gave_as_texts_are_taken():
    assert passes({"number": "1,234.5"}, 1234.5)
    assert passes({"number": {"value": "7", "within": "0.5"}}, 7.5)
    assert passes({"number": {"between": ["0", "1"]}}, 0.5)
    assert said({"number": "7"}, 8).reason == "8 is not 7"


@pytest.mark.parametrize(
    ("argument", "path", "message"),
    [
        ({"between": [1, 0]}, ".between", "the lower bound is above the upper one"),
        ({"between": [0, 1], "within": 1}, ".within", "`within` goes with `value`"),
        ({"value": "1 or 2"}, ".value", "is not a number"),
        ("many", "", "number cannot be this text"),
        ({"within": 1}, "", '"value" is a required property'),
        ({"value": 1, "within": -1}, ".within", "-1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(argument, path, message):
    problem = refused({"number": argument})
    assert problem.path == f"$.checks[0].number{path}"
    assert message in problem.message


@given(st.integers(-(10**12), 10**12))
def test_a_whole_number_is_found_with_and_without_separators(value):
    for text in (f"{value}", f"{value:,}", f"{value:,}".replace(",", "\u202f")):
        assert passes({"number": value}, f"It is {text} in all.")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_found_as_it_is_written(value):
    assert passes({"number": {"value": value, "within": 0}}, f"is {value!r} so")
    assert passes({"number": value}, value)


def test_the_items_of_a_list_are_numbers_of_their_own():
    assert passes({"number": 5}, [1, 5])
    assert not passes({"number": 1.5}, [1, 5])
    assert not passes({"number": 123456}, {"lines": [123, 456]})
    assert passes({"json": {"path": "$[*].n", "number": {"value": 2}}}, [{"n": 2}, {"n": 500}])


def test_within_nothing_means_equal():
    for within in (0, "0", "0%"):
        assert passes({"number": {"value": 0.3, "within": within}}, 0.3)
        assert not passes({"number": {"value": 0.3, "within": within}}, 0.30000000000000004)
