"""Schemas that a few lines make too large to check by, and those that only look like it."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.schema import ValueSchema
from evalwright.contracts.schema_cost import MOST_PARTS, schema_cost

LEAF = {"type": "string"}


def doubling(levels: int, keyword: str = "anyOf", place: str = "#/$defs/d{}") -> dict[str, Any]:
    """Every level refers to the next one twice."""
    defs: dict[str, Any] = {f"d{levels}": LEAF}
    for level in range(levels):
        next_one = {"$ref": place.format(level + 1)}
        defs[f"d{level}"] = {keyword: [next_one, next_one]}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


def named(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    """The same, with every definition under a name of its own."""
    defs = {name: {keyword: name, **part} for name, part in schema["$defs"].items()}
    return {**schema, "$defs": defs}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(28),
        doubling(100, "allOf"),
        doubling(28, "oneOf"),
        named(doubling(28, place="#d{}"), "$anchor"),
        named(doubling(28, place="d{}"), "$id"),
        {"type": "object", "properties": {"a": doubling(28)["$defs"]["d0"]}, **doubling(28)},
    ],
)
def test_a_schema_that_doubles_at_every_level_is_refused_before_anything_is_checked(schema):
    with pytest.raises(InvalidDocument, match=r"return\.json: \$: with references followed"):
        ValueSchema(schema, "return.json")


def test_a_chain_of_references_without_end_is_refused():
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    with pytest.raises(InvalidDocument, match="nested too deeply"):
        ValueSchema({"$defs": chain | {"d5000": LEAF}, "$ref": "#/$defs/d0"}, "return.json")


def test_a_value_that_breaks_a_schema_with_many_branches_is_refused_without_reasons():
    (problem,) = ValueSchema(doubling(16), "return.json").problems(5)
    assert "branches too much" in problem.message
    assert ValueSchema(doubling(16), "return.json").problems("five") == []


NODE = {"$ref": "#/$defs/node"}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": LEAF, "left": NODE, "right": NODE},
        }
    },
    **NODE,
}


def nested(levels: int, leaf: Any, key: str) -> Any:
    value = leaf
    for _ in range(levels):
        value = {"name": "n", key: value}
    return value


def test_a_tree_may_refer_to_itself_and_its_problems_are_told_with_their_place():
    schema = ValueSchema(TREE, "tree.json")
    assert schema.problems(nested(50, {"name": "leaf"}, "left")) == []
    (problem,) = schema.problems(nested(2, {"name": 5}, "left"))
    assert problem.path == "$.left.left.name"


def test_a_deep_value_that_breaks_a_schema_with_loops_is_refused_without_reasons():
    both = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    schema = ValueSchema({"type": "object", "properties": {"next": both}}, "list.json")
    (problem,) = schema.problems(nested(60, 5, "next"))
    assert "branches too much" in problem.message


@given(st.integers(0, 40))
def test_parts_are_counted_with_every_reference_followed(levels):
    cost = schema_cost(doubling(levels))
    followed = 1 + sum(3 * 2**level for level in range(levels)) + 2**levels
    assert cost.parts == min(followed, MOST_PARTS + 1)
    assert cost.loops == 0


@given(st.integers(1, 50))
def test_a_schema_without_references_has_the_parts_that_are_written(width):
    schema = {"properties": {f"p{n}": {"items": dict(LEAF)} for n in range(width)}}
    cost = schema_cost(schema)
    assert cost.parts >= cost.written
    assert cost.parts == 1 + 2 * width


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["#", "#/a", "#a", "http://[", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$ref", "$id", "$anchor", "$dynamicRef", "anyOf", "items", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(json_values)
@example({"$ref": "http://["})
@example({"$id": "http://[", "$ref": "#"})
@example({"$ref": "#"})
@example({"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}})
def test_anything_can_be_counted_or_is_refused(value):
    with suppress(InvalidDocument):
        ValueSchema(value, "schema.json").problems(value)
