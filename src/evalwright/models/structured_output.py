"""JSON output for every provider: a schema as `response_format`, or as a tool that must be called.

Both ask for an object. A schema of anything else is asked for as the one field of an object, and
taken out again.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from evalwright.models.protocol import OutputSchema, Request, ToolUse

FIELD = "value"
_UNFIT_FOR_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_UNFIT_FOR_STRICT = (
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
)


def is_wrapped(output: OutputSchema) -> bool:
    """Whether the schema is asked for within an object."""
    return output.schema.get("type") != "object"


def object_schema(output: OutputSchema) -> dict[str, Any]:
    """The schema, or an object with the schema as its field."""
    if not is_wrapped(output):
        return output.schema
    inner = dict(output.schema)
    outer: dict[str, Any] = {
        key: inner.pop(key) for key in ("$defs", "definitions") if key in inner
    }
    return {
        "type": "object",
        "properties": {FIELD: inner},
        "required": [FIELD],
        "additionalProperties": False,
        **outer,
    }


def without_lengths(schema: Any) -> Any:
    """A schema whose texts may have any length; fields that are called `maxLength` are left."""
    if isinstance(schema, list):
        return [without_lengths(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_lengths(field) for name, field in each.items()}
        if key in ("properties", "$defs", "definitions") and isinstance(each, dict)
        else without_lengths(each)
        for key, each in schema.items()
        if key != "maxLength"
    }


def unwrapped(text: str, output: OutputSchema) -> str:
    """The answer that the schema describes; a malformed answer is left as it is."""
    if not is_wrapped(output):
        return text
    try:
        value = msgspec.json.decode(text)
        return msgspec.json.encode(value[FIELD]).decode()
    except (msgspec.DecodeError, KeyError, TypeError, IndexError, RecursionError):
        return text


def tool_name(request: Request) -> str:
    """The name of the tool that takes the answer; none of the request's own tools has it."""
    assert request.output is not None
    name = _UNFIT_FOR_NAMES.sub("_", request.output.name)[:50] or "answer"
    taken = {tool.name for tool in request.tools}
    others = (f"{name}_{number}" for number in itertools.count(2))
    return name if name not in taken else next(other for other in others if other not in taken)


def split_answer(uses: Iterable[ToolUse], request: Request) -> tuple[str | None, list[ToolUse]]:
    """What the tool for the answer was given, and the calls of the request's own tools.

    A model that asks for more tools has not answered yet.
    """
    assert request.output is not None
    name = tool_name(request)
    own: list[ToolUse] = []
    answer: str | None = None
    for use in uses:
        if use.name != name:
            own.append(use)
        elif answer is None:
            answer = unwrapped(use.arguments, request.output)
    return (None if own else answer), own


def fits_strict(schema: Any) -> bool:
    """Whether every object is closed with all fields required, as strict decoding demands."""
    return all(_closed(part) for part in _objects(schema))


def _closed(schema: dict[str, Any]) -> bool:
    if any(keyword in schema for keyword in _UNFIT_FOR_STRICT):
        return False
    if schema.get("type") != "object" and "properties" not in schema:
        return True
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return schema.get("additionalProperties") is False and all(
        name in required for name in properties
    )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        return
    yield value
    for keyword in ("properties", "$defs", "definitions"):
        named = value.get(keyword)
        if isinstance(named, dict):
            for part in named.values():
                yield from _objects(part)
    for part in (value.get("items"), *_list(value.get("anyOf")), *_list(value.get("prefixItems"))):
        yield from _objects(part)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
