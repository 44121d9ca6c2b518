"""The names of the tools that a model was offered, from their definitions."""

from typing import Any

from evalwright.trace.importers.values import structure_from_text, text
from evalwright.trace.model import Json


def tool_names(definitions: Json) -> list[str]:
    """The names in a list of tool definitions, each once, in order."""
    found = structure_from_text(definitions)
    names = [_name(each) for each in found] if isinstance(found, list) else []
    return list(dict.fromkeys(name for name in names if name))


def _name(definition: Json) -> str | None:
    definition = structure_from_text(definition)
    if not isinstance(definition, dict):
        return text(definition)
    inner = definition.get("function")
    holders: list[dict[str, Any]] = [inner] if isinstance(inner, dict) else []
    return next(
        (found for holder in [*holders, definition] if (found := text(holder.get("name")))), None
    )
