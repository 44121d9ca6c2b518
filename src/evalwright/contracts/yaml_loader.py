"""A YAML loader whose plain scalars mean what they mean in JSON (the YAML 1.2 core schema).

PyYAML follows YAML 1.1, where `no` is false, `12:30` a number and `2026-01-01` a date. In a suite
these are texts.
"""

import re
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class JsonLoader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """Builds dicts with string keys, lists, strings, numbers, booleans and null."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own protocol

    def construct_json_object(self, node: yaml.MappingNode) -> dict[str, Any]:
        """Build a mapping; refuse keys that are no strings and keys that stand twice."""
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                message = f"the key {key!r} is not a string: put it in quotes"
                raise yaml.MarkedYAMLError(problem=message, problem_mark=key_node.start_mark)
            if key in built:
                message = f"the key {key!r} stands twice"
                raise yaml.MarkedYAMLError(problem=message, problem_mark=key_node.start_mark)
            built[key] = self.construct_object(value_node, deep=True)
        return built


def _construct_float(_loader: JsonLoader, node: yaml.ScalarNode) -> float:
    return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _construct_int(_loader: JsonLoader, node: yaml.ScalarNode) -> int:
    return int(node.value, 0 if node.value.startswith(("0x", "0o")) else 10)


JsonLoader.add_constructor("tag:yaml.org,2002:map", JsonLoader.construct_json_object)
JsonLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)
JsonLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    JsonLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(f"^(?:{_pattern})$"),
        list(_first.replace("\0", "")) + ([""] if _tag == "null" else []),
    )
