"""Values as other tools write them: times, ids, JSON inside of strings, tools, usage."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from evalwright.contracts.jsonvalue import MAX_DEPTH, NotJson, parse
from evalwright.trace.model import Json

_SECONDS_END = 1e11  # as seconds the year 5138, as milliseconds the year 1973
_MILLISECONDS_END = 1e14
_MICROSECONDS_END = 1e17
_WHOLE = re.compile(r"-?[0-9]+")
_INPUT = ("input_tokens", "prompt_tokens", "request_tokens", "inputTokens", "promptTokens", "input")
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "response_tokens",
    "outputTokens",
    "completionTokens",
    "output",
)
_COST = ("cost_usd", "cost", "total_cost", "totalCost")
_DURATION = ("duration_ms", "latency_ms")


def too_deep(value: Json) -> bool:
    """Whether a value is nested deeper than we work with."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for holder in level
            if isinstance(holder, dict | list)
            for child in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def parse_bounded(text: str | bytes) -> Json:
    """Parse JSON; raises `NotJson` also for what is nested too deeply to work with."""
    value = parse(text)
    if isinstance(text, bytes):
        openings = text.count(b"[") + text.count(b"{")
    else:
        openings = text.count("[") + text.count("{")
    if openings > MAX_DEPTH and too_deep(value):
        raise NotJson("$", f"nested more than {MAX_DEPTH} levels deep")
    return value


def from_text(value: Json) -> Json:
    """What a string of JSON says; anything else, and a string of no JSON, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse_bounded(value)
    except NotJson:
        return value


def structure_from_text(value: Json) -> Json:
    """The object or array that a string holds; other strings stay text, numbers among them."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return from_text(value)
    return value


def listed(value: Json) -> list[Any]:
    """A list, also where it was written as text; nothing where there is none."""
    found = structure_from_text(value)
    return found if isinstance(found, list) else []


def fields_of(value: Json) -> dict[str, Any]:
    """The fields of an object; none where there is no object."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[dict[str, Any]]:
    """The objects in a list; none where there is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


def arguments(value: Json) -> Json:
    """The arguments of a call: an empty string means none."""
    return {} if value == "" else from_text(value)


def text(value: Json) -> str | None:
    """A string that says something, else nothing."""
    return value if isinstance(value, str) and value else None


def identifier(value: Json) -> str | None:
    """An id as text: a string that is not empty, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value)


def first_identifier(record: dict[str, Any], *keys: str) -> str | None:
    """The first of some keys that holds an id."""
    return next((found for key in keys if (found := identifier(record.get(key)))), None)


def whole_number(value: Json) -> int | None:
    """A count, also where it was written as a string or as a float."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= 20 and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def number(value: Json) -> float | None:
    """A number, and not a truth value."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def decimal(value: Json) -> float | None:
    """A number, also where it was written as a string so as not to be rounded."""
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
        return value if math.isfinite(value) else None
    return number(value)


def milliseconds(value: Json) -> float | None:
    """A point in time in ms since the epoch, from a number of s, ms, µs or ns, or ISO 8601."""
    if isinstance(value, str):
        if (nanoseconds := whole_number(value)) is not None:
            return milliseconds(nanoseconds)
        if len(value) > 64:
            return None
        try:
            point = datetime.fromisoformat(value)
            point = point.replace(tzinfo=UTC) if point.tzinfo is None else point
            return round(point.timestamp() * 1000, 3)
        except (ValueError, OverflowError):
            return None
    moment = number(value)
    if moment is None or not 0 < moment < 1e20:
        return None
    if moment < _SECONDS_END:
        return round(moment * 1000, 3)
    if moment < _MILLISECONDS_END:
        return moment
    if moment < _MICROSECONDS_END:
        return moment / 1000
    return int(moment) // 1000 / 1000


def tool_names(definitions: Json) -> list[str]:
    """The names in a list of tool definitions, each once, in order."""
    names = []
    for definition in map(structure_from_text, listed(definitions)):
        fields = fields_of(definition)
        inner = fields_of(fields.get("function"))
        names.append(text(inner.get("name")) or text(fields.get("name")) or text(definition))
    return list(dict.fromkeys(name for name in names if name))


def usage_of(holder: dict[str, Any]) -> dict[str, Json]:
    """The usage that a response or a record states."""
    usage = fields_of(holder.get("usage"))
    return without_none(
        {
            "duration_ms": _first(holder, _DURATION),
            "input_tokens": whole_number(_first(usage, _INPUT)),
            "output_tokens": whole_number(_first(usage, _OUTPUT)),
            "cost_usd": _first(usage, _COST),
        }
    )


def usage_and_cost(usage: Json, cost: Json) -> dict[str, Json]:
    """What a usage states, with the cost where that is written apart from it."""
    return usage_of({"usage": usage}) | without_none({"cost_usd": decimal(cost)})


def sum_usage(parts: Iterable[dict[str, Json]]) -> dict[str, Json]:
    """What several calls cost together."""
    total: dict[str, Json] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total


def _first(holder: dict[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((found for key in keys if (found := decimal(holder.get(key))) is not None), None)
