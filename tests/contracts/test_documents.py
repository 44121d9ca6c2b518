"""Documents as people write them: what is wrong is told with its line and column, or its path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts import documents
from evalwright.contracts.documents import parse_document, to_json
from evalwright.contracts.errors import InvalidDocument, Problem
from strategies import doubles, json_of, json_values

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

plain_text = st.text("ab zé0-:#{}[]'\"\\\n\t!&*", max_size=8)
plain_values = json_of(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | doubles | plain_text, plain_text
)


def problems(source: str | bytes, name: str) -> list[tuple[str, str]]:
    content = source.encode() if isinstance(source, str) else source
    with pytest.raises(InvalidDocument) as caught:
        parse_document(content, name)
    assert caught.value.name == name
    return [(problem.path, problem.message) for problem in caught.value.problems]


def place(source: str, name: str) -> str:
    [(where, _)] = problems(source, name)
    return where


def text_or_problems(source: bytes, name: str) -> str | list[Problem]:
    try:
        return json.dumps(parse_document(source, name), allow_nan=False)
    except InvalidDocument as invalid:
        return invalid.problems


# Which language a file is in.


@pytest.mark.parametrize("name", ["suite.yaml", "suite.yml", "SUITE.YAML", "a/b.c/suite.Yml"])
def test_yaml_is_known_by_the_name_of_the_file(name):
    assert parse_document(b"a: [1, no]", name) == {"a": [1, "no"]}


@pytest.mark.parametrize("name", ["suite.json", "suite", "yaml", "suite.yaml.bak"])
def test_everything_else_is_json(name):
    assert parse_document(b'{"a": [1]}', name) == {"a": [1]}
    assert problems("a: 1", name)


@given(json_values)
def test_json_means_what_it_says(value):
    assert parse_document(json.dumps(value).encode(), "x.json") == value


@given(plain_values)
def test_json_text_means_the_same_in_a_yaml_file(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    assert parse_document(text, "x.yaml") == parse_document(text, "x.json") == value


@given(plain_values)
def test_to_json_gives_json_text_of_either(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    assert json.loads(to_json(text, "x.yaml")) == json.loads(to_json(text, "x.json")) == value


@pytest.mark.parametrize(("name", "text"), [("x.json", b'{"a": 1}'), ("x.yaml", b"a: 1")])
def test_a_byte_order_mark_is_no_part_of_the_document(name, text):
    assert parse_document(BYTE_ORDER_MARK + text, name) == {"a": 1}
    assert json.loads(to_json(BYTE_ORDER_MARK + text, name)) == {"a": 1}


# Where the mistake is.


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": 1,}', "line 1, column 9"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        ('{\n  "é€😀": 1,\n  "é€😀": x}', "line 3, column 10"),
        ('{"a":\n  [1,\n   2', "line 3, column 5"),
        ('{"a": NaN}', "line 1, column 7"),
        ("{'a': 1}", "line 1, column 2"),
    ],
)
def test_a_mistake_in_json_is_told_with_line_and_column(source, where):
    assert place(source, "x.json") == where


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("a: b: c", "line 1, column 5"),
        ("a:\n  - 1\n - 2", "line 3, column 2"),
        ('a: 1\nb: ["x', "line 2, column 7"),
        ("\ta: 1", "line 1, column 1"),
        ("a: *nobody", "line 1, column 4"),
        ("é: 1\né: 2", "line 2, column 1"),
        ("a: 1\nb:\n  2: x", "line 3, column 3"),
        ("a: !!int twelve", "line 1, column 4"),
        ("é: 'é'\nb: \x01", "line 2, column 4"),
        ("--- a\n--- b", "line 2, column 1"),
    ],
)
def test_a_mistake_in_yaml_is_told_with_line_and_column(source, where):
    assert place(source, "x.yaml") == where


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("{'a': 1}", "x.json", "not valid JSON: object keys must be strings"),
        ("a: b: c", "x.yaml", "not valid YAML: mapping values are not allowed in this context"),
        ("a: 1\na: 2", "x.yaml", "not valid YAML: duplicate key 'a'"),
        ("a: \x01", "x.yaml", "not valid YAML: control characters are not allowed (#x0001)"),
        ('{"a": 1, "a": 2}', "x.json", "duplicate key 'a'"),
    ],
)
def test_a_mistake_is_told_in_words(source, name, message):
    [(_, told)] = problems(source, name)
    assert told.startswith(message)


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
def test_a_file_that_is_not_utf_8_is_told_with_the_byte_and_what_to_do(name):
    with pytest.raises(InvalidDocument, match=r"byte 6: .*not UTF-8.*save it as UTF-8"):
        parse_document(b'{"a": \xff}', name)
    assert problems('{"a": 1}'.encode("utf-16"), name)


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize("opening", ["[", '{"a": ', "- "])
def test_nesting_without_end_is_refused(name, opening):
    assert problems(opening * 200_000, name)


@given(st.text() | st.binary(), st.sampled_from(["x.json", "x.yaml"]))
def test_any_bytes_give_a_value_or_the_list_of_what_is_wrong(source, name):
    assert text_or_problems(source if isinstance(source, bytes) else source.encode(), name)


@given(st.text("ab:-?[]{}&*!|>'\"%@#,.~ \n\t0x1eE+_=<", max_size=30))
def test_any_yaml_gives_a_value_that_json_can_carry_or_the_list_of_what_is_wrong(source):
    found = text_or_problems(source.encode(), "x.yaml")
    assert isinstance(found, list) or json.loads(found) == parse_document(source.encode(), "x.yaml")


# What YAML can say and JSON cannot.


def test_every_number_that_json_cannot_carry_is_told_with_its_path():
    found = problems("a: [1, .nan]\nb: {c d: -.inf}\ne: 1e999", "x.yaml")
    assert {path for path, _ in found} == {"$.a[1]", '$.b["c d"]', "$.e"}


def test_aliases_that_repeat_a_value_are_fine():
    assert parse_document(b"a: &x [1]\nb: [*x, *x]", "x.yaml") == {"a": [1], "b": [[1], [1]]}


def test_aliases_that_multiply_without_bound_are_refused(monkeypatch):
    monkeypatch.setattr(documents, "MAX_VALUES", 10_000)
    layers = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    bomb = "\n".join(["l0: &l0 [x]", *layers])
    assert problems(bomb, "x.yaml") == [("$", "more than 10000 values, aliases written out")]


def test_the_bounds_are_those_that_the_messages_name(monkeypatch):
    assert parse_document(b"[" * 200 + b"1" + b"]" * 200, "x.yaml")
    monkeypatch.setattr(documents, "MAX_VALUES", 3)
    assert parse_document(b"[1, 2]", "x.yaml") == [1, 2]
    assert problems("[1, 2, 3]", "x.yaml")


@pytest.mark.parametrize("cycle", ["&a [*a]", "&a {b: *a}", "a: &a [{b: *a}]", "&a [*a, *a, *a]"])
def test_a_value_that_holds_itself_by_an_alias_is_refused(cycle):
    assert problems(cycle, "x.yaml")
