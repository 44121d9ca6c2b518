"""YAML for people: what is written is read back as it was, whatever it is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.yaml_loader import load_yaml
from evalwright.contracts.yaml_writer import Noted, comment, to_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text(
    "ab:-#?|>&*!%@`'\"{}[],\n\t .0~", max_size=100
)
NUMBERS = st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS


def _larger(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    noted = values.map(lambda value: Noted(value, ("a remark: # on\nlines",)))
    return st.lists(values | noted, max_size=4) | st.dictionaries(TEXTS, values | noted, max_size=4)


def without_notes(value: Any) -> Any:
    if isinstance(value, Noted):
        return without_notes(value.value)
    if isinstance(value, dict):
        return {key: without_notes(each) for key, each in value.items()}
    return list(map(without_notes, value)) if isinstance(value, list) else value


@given(st.recursive(SCALARS, _larger, max_leaves=12))
def test_every_value_is_read_back_as_it_was(value: Any) -> None:
    document = {"value": value, "values": [value]}
    assert load_yaml(to_yaml(document)) == without_notes(document)


def test_long_texts_and_lines_are_blocks_and_small_objects_stand_in_one_line() -> None:
    written = to_yaml(
        {
            "input": "First line.\nSecond line.",
            "checks": [{"calls": {"tool": "orders.get", "args": {"id": "A-17"}}}],
            "response": '{"degrees": 7}',
        }
    )
    assert written.splitlines() == [
        "input: |-",
        "  First line.",
        "  Second line.",
        "checks:",
        "  - calls: { tool: orders.get, args: { id: A-17 } }",
        "response: '{\"degrees\": 7}'",
    ]


def test_what_cannot_be_seen_is_written_out() -> None:
    assert to_yaml({"a": "pay\u202eme\u200b"}) == 'a: "pay\\u202eme\\u200b"\n'


def test_what_another_version_of_yaml_would_read_otherwise_is_quoted() -> None:
    assert to_yaml(["no", "on", "12:30", "2026-01-01", "1_000"]) == (
        '- "no"\n- "on"\n- "12:30"\n- "2026-01-01"\n- "1_000"\n'
    )


def test_a_long_key_has_a_line_of_its_own() -> None:
    document = {"k" * 2000: [{"l" * 2000: 1}]}
    assert load_yaml(to_yaml(document)) == document


def test_deep_values_are_read_back() -> None:
    value: Any = 1
    for _ in range(80):
        value = {"a": [value]}
    assert load_yaml(to_yaml(value)) == value


def test_a_comment_is_one_line() -> None:
    assert comment("a\nb\u2028c: d", "  ") == "  # a b c: d"
