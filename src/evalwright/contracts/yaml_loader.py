"""A YAML loader whose plain scalars mean what they mean in JSON (the YAML 1.2 core schema).

PyYAML follows YAML 1.1, where `no` is false, `12:30` a number and `2026-01-01` a date. In a suite
these are strings.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from evalwright.contracts.jsonvalue import MAX_DEPTH

MAX_QUOTED = 40
DUPLICATE_KEY = "duplicate key"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class JsonLoader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """Builds dicts with string keys, lists, strings, numbers, booleans and null, nothing else."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own protocol
    yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012


def load_yaml(text: str) -> Any:
    """The document in a text; its nesting is bounded, since PyYAML overruns the stack."""
    try:
        # A document of mappings, lists and scalars alone, built as it is read: twice as fast.
        # Raises an error for whatever else there is: aliases, anchors, tags, several documents.
        loader = JsonLoader(text)
        try:
            next_event = loader.get_event
            next_event()  # the start of the stream
            if not isinstance(next_event(), yaml.DocumentStartEvent):
                raise ValueError("no document")
            value = _built(next_event(), next_event, MAX_DEPTH)
            if not isinstance(next_event(), yaml.DocumentEndEvent) or loader.check_event(
                yaml.DocumentStartEvent
            ):
                raise ValueError("more than one document")
            return value
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError):
        pass  # with the place, and what else there is to say of it, below
    if sum(map(text.count, "[{:-?")) > MAX_DEPTH:  # each level takes one of these
        depth = 0
        for event in yaml.parse(text, Loader=JsonLoader):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    _refuse(event, f"nested more than {MAX_DEPTH} levels deep")
    return yaml.load(text, Loader=JsonLoader)  # noqa: S506 - builds plain JSON values only


def yaml_beside(module: str) -> Any:
    """The document beside a module, given by its `__file__`."""
    return load_yaml(Path(module).with_suffix(".yaml").read_text(encoding="utf-8"))


def _built(event: Any, next_event: Callable[[], Any], levels: int) -> Any:
    kind = type(event)
    if kind is yaml.AliasEvent or event.tag is not None or event.anchor is not None:
        raise ValueError("more than a plain value")
    if kind is yaml.ScalarEvent:
        return event.value if event.style else _plain_scalar(event.value)
    if not levels:
        raise ValueError("nested too deep")
    if kind is yaml.SequenceStartEvent:
        built = []
        while type(event := next_event()) is not yaml.SequenceEndEvent:
            built.append(_built(event, next_event, levels - 1))
        return built
    fields: dict[str, Any] = {}
    while type(event := next_event()) is not yaml.MappingEndEvent:
        key = _built(event, next_event, levels - 1)
        if not isinstance(key, str) or key in fields:
            raise ValueError("a key that is no text, or twice")
        fields[key] = _built(next_event(), next_event, levels - 1)
    return fields


def _plain_scalar(text: str) -> Any:
    for tag, pattern in JsonLoader.yaml_implicit_resolvers.get(text[:1], ()):
        if pattern.match(text):
            return _READERS[tag](text)
    return text


def _refuse(node_or_event: Any, message: str) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=message, problem_mark=node_or_event.start_mark)


def _mapping(loader: JsonLoader, node: yaml.Node) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        _refuse(node, "tagged as a mapping, but not one")
    built: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            _refuse(key_node, f"the key {key!r} is not a string: put it in quotes")
        if key in built:
            _refuse(key_node, f"{DUPLICATE_KEY} {key!r}")
        built[key] = loader.construct_object(value_node, deep=True)
    return built


class _LastKeyCounts(JsonLoader):
    """Accepts duplicate keys, as the tools that show front matter do."""


def _last_mapping(loader: _LastKeyCounts, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.MappingNode):
        last = {(key.tag, str(key.value)): (key, value) for key, value in node.value}
        node.value = list(last.values())
    return _mapping(loader, node)


def load_last_keys(text: str) -> Any:
    """The same where of a key that is there twice the last value counts."""
    return yaml.load(text, Loader=_LastKeyCounts)  # noqa: S506 - builds plain JSON values only


def _read_int(text: str) -> int:
    if not text.startswith(("0x", "0o")):
        return int(text)
    number = int(text, 0)
    str(number)  # fails where Python would not write the number in decimal, as JSON must
    return number


def _read_float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_BOOLEANS = {"true": True, "false": False}
_TAG = "tag:yaml.org,2002:"
_READERS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": _read_int,
    f"{_TAG}float": _read_float,
    f"{_TAG}bool": lambda text: _BOOLEANS[text.lower()],
    f"{_TAG}null": lambda _: None,
}


def _scalar(loader: JsonLoader, node: yaml.Node) -> Any:
    text = loader.construct_scalar(node)
    try:
        return _READERS[node.tag](text)
    except (ValueError, KeyError):
        short = text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"
        _refuse(node, f"{short!r} cannot be read as {node.tag.removeprefix(_TAG)}")


JsonLoader.add_constructor(f"{_TAG}map", _mapping)
JsonLoader.add_constructor(f"{_TAG}seq", yaml.SafeLoader.construct_yaml_seq)
for _tag in _READERS:
    JsonLoader.add_constructor(_tag, _scalar)
JsonLoader.add_constructor(None, yaml.SafeLoader.construct_undefined)

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
        f"{_TAG}{_tag}",
        re.compile(f"^(?:{_pattern})$"),
        list(_first.replace("\0", "")) + ([""] if _tag == "null" else []),
    )
_LastKeyCounts.add_constructor(f"{_TAG}map", _last_mapping)
