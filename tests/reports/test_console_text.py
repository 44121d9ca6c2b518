"""Text from outside: nothing that an agent says may steer a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.jsonvalue import stringify
from evalwright.reports.formats.console import SHORT, one_line, printable
from strategies import json_values

any_text = st.text(st.characters())  # lone surrogates too


@given(any_text)
def test_no_control_character_reaches_the_terminal(text):
    assert all(char.isprintable() or char == "\n" for char in printable(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J", r"\x9b2J"),
        ("over\rwritten", r"over\rwritten"),
        ("bell\a back\b nul\0", r"bell\x07 back\x08 nul\x00"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("line\u2028break", r"line\u2028break"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("tab\there", r"tab\there"),
    ],
)
def test_what_could_steer_a_terminal_is_shown_as_an_escape(text, shown):
    assert printable(text) == shown
    assert one_line(text, None) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_plain_text_is_shown_as_it_is(text):
    assert printable(text) == text


def test_printable_keeps_lines_and_one_line_joins_them():
    assert printable("two\nlines") == "two\nlines"
    assert one_line("two\nlines") == "two⏎lines"


@given(json_values, st.none() | st.integers(0, 50))
def test_one_line_is_one_printable_line(value, limit):
    assert one_line(value, limit).isprintable()


@given(json_values)
def test_without_a_limit_nothing_is_shortened(value):
    assert len(one_line(value, None)) >= len(stringify(value))


def test_what_is_no_string_is_shown_as_canonical_json():
    assert one_line({"b": 1.0, "a": ["x", None]}) == '{"a":["x",null],"b":1}'


def test_a_long_text_is_shortened_and_says_by_how_much():
    assert one_line("a" * SHORT) == "a" * SHORT
    assert one_line("a" * (SHORT + 1)) == "a" * SHORT + "… (+1 characters)"
    assert one_line("a" * 1000, 10) == "a" * 10 + "… (+990 characters)"


def test_a_value_nested_too_deeply_to_be_sorted_is_shown_all_the_same():
    value: list = []
    for _ in range(500):
        value = [value]
    assert one_line(value, None) == "[" * 501 + "]" * 501
