"""Attributes that stand for a list: `llm.input_messages.0.message.role` and its like."""

from typing import Any

from evalwright.trace.model import Json

_MOST_KEYS = 20  # levels below the prefix; the conventions need six


def nested(attributes: dict[str, Json], prefix: str) -> list[Any]:
    """The list that attributes with a prefix spell out, in the order of its indexes."""
    tree: dict[str, Any] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            _place(tree, key[len(start) :].split(".", _MOST_KEYS), value)
    if not tree and isinstance(attributes.get(prefix), list):
        return list(attributes[prefix])
    found = _lists(tree)
    return found if isinstance(found, list) else []


def _place(tree: dict[str, Any], path: list[str], value: Json) -> None:
    for step in path[:-1]:
        below = tree.setdefault(step, {})
        if not isinstance(below, dict):  # a value stands where a branch is meant
            return
        tree = below
    tree.setdefault(path[-1], value)


def _lists(tree: Json) -> Json:
    """Objects whose keys are all indexes, as lists."""
    if not isinstance(tree, dict):
        return tree
    built = {key: _lists(value) for key, value in tree.items()}
    if built and all(key.isascii() and key.isdigit() and len(key) < 10 for key in built):
        return [built[key] for key in sorted(built, key=int)]
    return built
