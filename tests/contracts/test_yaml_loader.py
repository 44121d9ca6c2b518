"""YAML as JSON: plain scalars mean what they mean in YAML 1.2, and nothing else can be built."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.yaml_loader import JsonLoader, load_yaml


def refused(text: str) -> str:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        load_yaml(text)
    return str(caught.value.problem)


@pytest.mark.parametrize(
    "text",
    ["no", "No", "yes", "on", "off", "y", "n", "12:30", "1:30:00", "2026-01-01",
     "2026-01-01T09:30:00Z", "1_000", "0b101", "0o8", "0xfg", "1.2.3", "1e", "e5", ".", "-", "+",
     "inf", "nan", "tRue", "nULL", "=", "<<"],
)  # fmt: skip
def test_a_text_stays_the_text_that_it_is(text):
    assert load_yaml(f"[{text}, {{k: {text}}}]") == [text, {"k": text}]


@pytest.mark.parametrize(
    ("text", "value"),
    [("~", None), ("null", None), ("NULL", None), ("", None), ("true", True), ("True", True),
     ("False", False), ("FALSE", False), ("0", 0), ("-7", -7), ("+7", 7), ("017", 17),
     ("0o10", 8), ("0x10", 16), ("0x1F", 31), (".05", 0.05), ("1.5", 1.5),
     ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0), ("1.5E-3", 0.0015)],
)  # fmt: skip
def test_scalars_of_the_core_schema_have_their_values(text, value):
    [found] = load_yaml(f"- {text}")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_infinities_and_nan_are_numbers_here_for_others_to_refuse(text):
    assert not math.isfinite(load_yaml(text))


@given(st.integers(-(10**50), 10**50))
def test_whole_numbers_keep_all_their_digits(number):
    assert load_yaml(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_read_as_they_are_written(number):
    assert load_yaml(repr(number)) == number


def test_quotes_make_any_scalar_a_text():
    assert load_yaml("""['1', "true", '~', !!str 12, "no"]""") == ["1", "true", "~", "12", "no"]


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "[a]", "{a: 1}", "? "])
def test_a_key_that_is_no_string_is_refused_with_the_remedy(key):
    assert "put it in quotes" in refused(f"{{{key}: x}}")


@pytest.mark.parametrize("text", ["{a: 1, a: 2}", "a: 1\nb: 2\na: 1", "x: {'k': 1, k: 1}"])
def test_a_key_that_stands_twice_is_refused(text):
    assert "duplicate key" in refused(text)


def test_a_merge_key_is_a_key_like_any_other():
    assert load_yaml("<<: {a: 1}") == {"<<": {"a": 1}}


@pytest.mark.parametrize(
    "tagged",
    ["!!timestamp 2026-01-01", "!!binary aGk=", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]",
     "!!python/object/apply:os.getcwd []", "!mine x"],
)  # fmt: skip
def test_a_tag_that_json_has_no_value_for_is_refused(tagged):
    assert "could not determine a constructor" in refused(tagged)


@pytest.mark.parametrize(
    "tagged",
    ["!!int twelve", "!!int {a: 1}", "!!int ''", "!!float [1]", "!!float x", "!!bool yes",
     "!!bool [a]", "!!map [a]", "!!map x", "!!seq x", "!!seq {a: 1}", "!!str [a]", "!!null {a: 1}"],
)  # fmt: skip
def test_a_tag_that_does_not_fit_its_value_is_refused(tagged):
    assert refused(tagged)


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000])
def test_a_number_of_thousands_of_digits_is_refused_and_not_quoted_in_full(digits):
    assert len(refused(digits)) < 100


def test_nesting_is_bounded_before_anything_is_built():
    assert load_yaml("[" * 200 + "]" * 200)
    assert "nested more than 200 levels" in refused("[" * 201 + "]" * 201)
    assert "nested more than 200 levels" in refused("- " * 500_000)
    assert "nested more than 200 levels" in refused(f"[{'[], ' * 300}{'[' * 200}{']' * 200}]")


_PIECES = st.sampled_from(
    ["a", "b: ", "- ", "\n", "\n  ", "1", "0x1f", "1.5e3", "~", "no", "true", "'x'", '"y"', "[",
     "]", "{", "}", ", ", ": ", "# c", ">\n  ", "---", "...", "?", "\t", "é", "&x", "*x"],
)  # fmt: skip


@given(st.lists(_PIECES, max_size=14).map("".join))
def test_the_quick_way_gives_what_the_whole_loader_gives(text):
    def told(load):
        try:
            return repr(load(text))
        except (yaml.YAMLError, ValueError) as error:
            return str(error)

    assert told(load_yaml) == told(lambda each: yaml.load(each, Loader=JsonLoader))
