"""`json`: JSON in outputs and texts, paths into it, schemas and subsets."""

import json

import pytest
from hypothesis import given
from looking import passes, refused, said

from evalwright.scoring.checks.json_paths import path_parts, value_at
from strategies import json_values

ORDER = {"order": {"id": "A-17", "lines": [{"sku": "x"}, {"sku": "y", "n": 2}]}}
TEXT = json.dumps(ORDER)


@pytest.mark.parametrize(
    "output",
    [ORDER, TEXT, f"```json\n{TEXT}\n```", f"Sure:\n~~~\n{TEXT}\n~~~\nBye", f"See [it]: {TEXT}."],
)
def test_json_is_found_as_a_value_as_a_text_in_a_fence_and_within_a_text(output):
    assert passes({"json": {"path": "$.order.id", "equals": "A-17"}}, output)


def test_valid_asks_for_json_alone_or_in_a_fence_and_strict_for_nothing_around():
    fenced = "Here:\n```\n[1]\n```"
    assert passes({"json": {"valid": True}}, fenced)
    assert passes({"json": "valid"}, "[1]")
    assert not passes({"json": {"valid": True}}, "as said in [1]")
    assert not passes({"json": {"valid": True, "strict": True}}, fenced)
    assert passes({"json": {"valid": False}}, "as said in [1]")
    assert not passes({"json": {"valid": False}}, "[1]")
    assert "not JSON" in said({"json": {"valid": True}}, "{'a': 1}").reason


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", ORDER),
        ("$.order.id", "A-17"),
        ("$['order']['id']", "A-17"),
        ('$["order"].lines[0].sku', "x"),
        ("$.order.lines[-1].n", 2),
        ("$.order.lines[*].sku", ["x", "y"]),
        ("$.order.*", ["A-17", ORDER["order"]["lines"]]),
        ("$.order.lines[*].n", [2]),
    ],
)
def test_paths_lead_to_values(path, value):
    assert passes({"json": {"path": path, "equals": value}}, ORDER)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"path": "$.order.nr"}, "nothing is at $.order.nr: there the output has id, lines"),
        ({"path": "$.order.lines[5]"}, "the list there has 2 items"),
        ({"path": "$.order.lines[-3]"}, "the list there has 2 items"),
        ({"path": "$.order.id[*]"}, "nothing is at $.order.id[*]"),
        ({"path": "$.nr.*.id"}, "nothing is at $.nr.*.id: there the output has order"),
        ({"path": "$.order.id[0]"}, "nothing is at $.order.id[0]"),
        ({"path": "$.order.id", "equals": "A-18"}, '$.order.id: expected "A-18", got "A-17"'),
        ({"path": "$.order.id", "equals": 17}, 'expected 17, got "A-17"'),
        ({"subset": {"order": {"id": "A-18"}}}, '$.order.id: expected "A-18", got "A-17"'),
        ({"subset": {"order": {"lines": [{"sku": "z"}]}}}, "$.order.lines: no item is"),
        ({"schema": {"required": ["total"]}}, '$: "total" is a required property'),
        ({"path": "$.order.id", "starts_with": "B"}, "“B” is not how the output begins"),
    ],
)
def test_a_failure_says_what_is_at_the_path(argument, reason):
    result = said({"json": argument}, TEXT)
    assert not result.passed
    assert reason in result.reason


def test_a_subset_may_have_more_fields_and_items_and_checks_for_values():
    wanted = {"order": {"id": {"regex": "^A-"}, "lines": [{"sku": "y"}, {"sku": "x"}]}}
    assert passes({"json": {"subset": wanted}}, TEXT)


def test_any_other_check_can_look_at_what_is_at_a_path():
    assert passes({"json": {"path": "$.order.lines[1].n", "number": {"between": [1, 3]}}}, TEXT)
    assert passes({"json": {"path": "$.order.id", "not": {"contains": "B"}}}, TEXT)


def test_a_schema_looks_at_what_is_at_the_path():
    schema = {"type": "array", "minItems": 2, "items": {"required": ["sku"]}}
    assert passes({"json": {"path": "$.order.lines", "schema": schema}}, TEXT)


@pytest.mark.parametrize(
    ("argument", "path", "message", "remedy"),
    [
        ({"path": "order.id"}, ".path", "a path begins with $", "$.orders[0].id"),
        ({"path": "$.a[x]"}, ".path", "from character 4 on: [x]", "$['a b']"),
        ({"schema": {"type": "objekt"}}, ".schema.type", "not a JSON Schema", ""),
        ({"schema": {"$ref": "https://x.example/s"}}, ".schema", "not a JSON Schema", ""),
        ({"shema": {}}, ".shema", "unknown field 'shema'", "did you mean schema?"),
        ({}, "", "less than 1 propert", "json: {path"),
        ({"path": "$", "regex": "("}, ".regex", "not a pattern", "RE2"),
        ({"subset": {"a": {"regex": "("}}}, ".subset.a.regex", "not a pattern", "{equals: …}"),
    ],
)
def test_wrong_paths_schemas_and_fields_are_refused(argument, path, message, remedy):
    problem = refused({"json": argument})
    assert problem.path == f"$.checks[0].json{path}"
    assert message in problem.message
    assert remedy in problem.remedy


@given(json_values)
def test_every_json_value_equals_itself_however_it_is_written(value):
    for output in (json.dumps(value), f"```json\n{json.dumps(value, indent=2)}\n```"):
        assert passes({"json": {"path": "$", "equals": value}}, output)
    assert passes({"equals": {"value": value}}, value)


@given(json_values)
def test_each_member_is_at_its_own_path(value):
    document = {"a b": [value, {"c": value}]}
    assert value_at(document, path_parts("$['a b'][0]"))[0] == value
    assert value_at(document, path_parts("$['a b'][1].c"))[0] == value


def test_a_path_begins_at_the_whole():
    with pytest.raises(ValueError, match=r"^a path begins with \$$"):
        path_parts("a.b")
