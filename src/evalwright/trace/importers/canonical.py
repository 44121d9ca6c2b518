"""The canonical events that importers write, each as a dict for the `events` of a response."""

from typing import Any, TypeAlias

from evalwright.trace.importers.values import first_identifier, identifier, text
from evalwright.trace.model import Json

CanonicalEvent: TypeAlias = dict[str, Any]


def message(role: str, content: Json) -> CanonicalEvent:
    """Something that was said."""
    return {"type": "message", "role": role, "content": content}


def reasoning(content: Json) -> CanonicalEvent:
    """What a model said to itself: a message that can never be the answer."""
    return {"type": "message", "role": "assistant", "content": content, "reasoning": True}


def tool_call(call_id: Json, tool: Json, args: Json) -> CanonicalEvent:
    """A call of a tool."""
    return {
        "type": "tool_call",
        "call_id": identifier(call_id),
        "tool": text(tool) or "",
        "args": args,
    }


def tool_result(call_id: Json, tool: Json, payload: Json, status: Json = None) -> CanonicalEvent:
    """The answer of a tool; a status that was not recorded is absent."""
    event = {"type": "tool_result", "call_id": identifier(call_id), "payload": payload}
    if text(tool):
        event["tool"] = tool
    if text(status):
        event["status"] = status
    return event


def retrieval(query: Json, documents: list[Json]) -> CanonicalEvent:
    """Documents that were fetched, whatever is known of them; ids where they have some."""
    keys = ("id", "document.id", "file_id")
    ids = [first_identifier(each, *keys) for each in documents if isinstance(each, dict)]
    return {
        "type": "retrieval",
        "query": query,
        "doc_ids": [each for each in ids if each],
        "documents": documents,
    }


def unrecognised(kind: Json, raw: Json) -> CanonicalEvent:
    """What fits nothing: kept as it is, under a type that no event has."""
    return {"type": f"unrecognised.{kind if isinstance(kind, str) else 'value'}", "raw": raw}


def is_message(event: CanonicalEvent, *roles: str) -> bool:
    """Whether an event is a message, by one of some roles if any are given."""
    return event["type"] == "message" and (not roles or event["role"] in roles)


def is_answer(event: CanonicalEvent) -> bool:
    """Whether an event may be the final output: the assistant's own words."""
    return is_message(event, "assistant") and "reasoning" not in event
