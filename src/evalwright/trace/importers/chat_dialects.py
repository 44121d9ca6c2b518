"""Messages of LangChain, pydantic-ai and Gemini in the form of chat APIs; what they cost."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from evalwright.trace.importers.values import (
    decimal,
    fields_of,
    listed,
    objects_in,
    structure_from_text,
    sum_usage,
    text,
    usage_of,
)
from evalwright.trace.model import Json

_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
}
_OF_CALLS = ("tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk")
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")


def as_chat_messages(raw: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The messages that one of another library stands for; None if chat APIs have that form."""
    if isinstance(raw.get("role"), str):
        # Content of Gemini has parts without a type.
        parts = raw.get("parts")
        if not isinstance(parts, list) or not parts:
            return None
        if any(not isinstance(part, dict) or "type" in part for part in parts):
            return None
        return [{**raw, "parts": [_gemini_part(part) for part in parts]}]
    if raw.get("kind") in ("request", "response") and isinstance(raw.get("parts"), list):
        parts = objects_in(raw["parts"])
        at = raw.get("timestamp")
        if raw["kind"] == "response":
            answered = [
                _RESPONSE_PARTS.get(str(part.get("part_kind")), dict)(part) for part in parts
            ]
            return [{"role": "assistant", "content": answered, "timestamp": at}]
        said = [{"role": "system", "content": raw["instructions"]}] if text_in(raw) else []
        said += [_request_part(part) for part in parts]
        return [{**each, "timestamp": each.get("timestamp") or at} for each in said]
    if isinstance(raw.get("type"), str):
        kind, fields = _langchain_fields(raw)
        role = _LANGCHAIN_ROLES.get(kind)
        if kind == "chat":
            role = text(fields.get("role")) or role
        if role is None or not ("content" in fields or "tool_calls" in fields):
            return None
        extra = fields_of(fields.get("additional_kwargs"))
        calls = [*listed(fields.get("tool_calls")), *listed(fields.get("invalid_tool_calls"))]
        calls = calls or listed(extra.get("tool_calls"))
        content = fields.get("content")
        if calls and isinstance(content, list):  # whose blocks repeat the calls
            content = [each for each in content if fields_of(each).get("type") not in _OF_CALLS]
        built = {
            "role": role,
            "content": content,
            "tool_calls": calls or None,
            "function_call": None if calls else extra.get("function_call"),
            "reasoning_content": extra.get("reasoning_content"),
            "refusal": extra.get("refusal"),
        }
        kept = ("name", "tool_call_id", "timestamp", "created_at")
        built["status"] = _outcome(fields.get("status"))
        return [{**built, **{key: fields[key] for key in kept if key in fields}}]
    return None


def returned(payload: Json) -> Json:
    """What a tool returned, where a callback recorded the message that it was put into."""
    fields = payload if isinstance(payload, dict) else {}
    inner = fields.get("output", fields)
    found = as_chat_messages(inner) if isinstance(inner, dict) and "role" not in inner else None
    if found is None or [each["role"] for each in found] != ["tool"]:
        return payload
    return structure_from_text(found[0].get("content"))


def is_foreign_message(raw: dict[str, Any]) -> bool:
    """Whether this is a message of LangChain or pydantic-ai."""
    return not isinstance(raw.get("role"), str) and as_chat_messages(raw) is not None


def _langchain_fields(raw: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind and the fields: plain, under `data`, or as the arguments of a constructor."""
    kind, fields = raw["type"], raw
    if kind == "constructor" and isinstance(raw.get("kwargs"), dict):
        fields, path = raw["kwargs"], raw.get("id")
        named = path[-1] if isinstance(path, list) and path else None
        kind = text(fields.get("type")) or text(named) or ""
    elif isinstance(raw.get("data"), dict):
        fields = raw["data"]
    kind = kind.removesuffix("Chunk").removesuffix("Message")
    return kind.lower(), fields


def text_in(raw: dict[str, Any]) -> bool:
    """Whether a request repeats the instructions of its agent."""
    return text(raw.get("instructions")) is not None


def _request_part(part: dict[str, Any]) -> dict[str, Any]:
    kind, content, at = part.get("part_kind"), part.get("content"), part.get("timestamp")
    result = {
        "role": "tool",
        "content": content,
        "name": part.get("tool_name"),
        "tool_call_id": part.get("tool_call_id"),
        "timestamp": at,
    }
    if kind == "tool-return":
        return {**result, "status": _outcome(part.get("outcome"))}
    if kind == "retry-prompt" and text(part.get("tool_name")):
        return {**result, "status": "error"}
    if kind == "user-prompt":
        if isinstance(content, list):
            content = [
                {"type": "text", "text": part["content"]}
                if isinstance(part, dict) and isinstance(part.get("content"), str)
                else part
                for part in content
            ]
        return {"role": "user", "content": content, "timestamp": at}
    # A prompt to try again without a tool is said by the framework, not by the user.
    return {"role": "system", "content": content, "timestamp": at}


def _outcome(value: Json) -> str | None:
    if not isinstance(value, str):
        return None
    return "ok" if value == "success" else "error"


def _call_part(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_call",
        "id": part.get("tool_call_id"),
        "name": part.get("tool_name"),
        "args": part.get("args"),
    }


def _return_part(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_call_response",
        "id": part.get("tool_call_id"),
        "name": part.get("tool_name"),
        "response": part.get("content"),
        "status": _outcome(part.get("outcome")),
    }


_RESPONSE_PARTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "text": lambda part: {"type": "text", "text": part.get("content")},
    "thinking": lambda part: {"type": "thinking", "thinking": part.get("content")},
    "tool-call": _call_part,
    "builtin-tool-call": _call_part,
    "builtin-tool-return": _return_part,
}


def _gemini_part(part: dict[str, Any]) -> dict[str, Any]:
    call = part.get("functionCall", part.get("function_call"))
    if isinstance(call, dict):
        return {"type": "tool_call", **call}
    answer = part.get("functionResponse", part.get("function_response"))
    if isinstance(answer, dict):
        return {"type": "tool_call_response", **answer}
    if isinstance(part.get("text"), str):
        kind = "thinking" if part.get("thought") is True else "text"
        return {"type": kind, kind: part["text"]}
    return {"type": next((key for key in _MEDIA if key in part), "other"), **part}


_SPENDING = frozenset(
    {"usage", "usage_metadata", "response_metadata", "cost", "model", "model_name"}
)


def spent_in(messages: Json) -> tuple[dict[str, Json], list[str]]:
    """What the answers in a conversation cost together, and the models that gave them."""
    told = [_told(each) for each in objects_in(listed(messages))]
    fields = [each for each in told if not _SPENDING.isdisjoint(each)]
    usage = sum_usage(_usage(each) for each in fields)
    return usage, models_of(fields)


class SpentBy(NamedTuple):
    """What one message says of its cost: the usage as it is written, None where there is none."""

    usage: dict[str, Json] | None
    model: str | None
    provider: str | None
    is_answer: bool  # whether a model gave it


def spent_by_each(messages: Iterable[dict[str, Any]]) -> Iterator[SpentBy]:
    """What each of some messages says of its cost."""
    for raw in messages:
        fields = _told(raw)
        about = fields_of(fields.get("response_metadata"))
        providers = about.get("model_provider"), fields.get("provider_name")
        yield SpentBy(
            next((each for each in _usage_holders(fields) if isinstance(each, dict)), None),
            next(iter(models_of([fields])), None),
            next(filter(None, map(text, providers)), None),
            _is_answer(raw),
        )


def _is_answer(raw: dict[str, Any]) -> bool:
    if isinstance(raw.get("role"), str):
        return raw["role"] in ("assistant", "model")
    if raw.get("kind") in ("request", "response"):
        return bool(raw["kind"] == "response")
    return isinstance(raw.get("type"), str) and _langchain_fields(raw)[0] == "ai"


def models_of(holders: Iterable[dict[str, Any]]) -> list[str]:
    """The models that answers name, each once."""
    found: list[str] = []
    for fields in holders:
        about = fields_of(fields.get("response_metadata"))
        keys = ("model_name", "model")
        names = [text(holder.get(key)) for holder in (about, fields) for key in keys]
        found += [name for name in names if name][:1]
    return list(dict.fromkeys(found))


def _told(raw: dict[str, Any]) -> dict[str, Any]:
    is_langchain = isinstance(raw.get("type"), str) and not isinstance(raw.get("role"), str)
    return _langchain_fields(raw)[1] if is_langchain else raw


def _usage_holders(fields: dict[str, Any]) -> tuple[Json, ...]:
    about = fields_of(fields.get("response_metadata"))
    own = fields.get("usage_metadata"), fields.get("usage")
    return (*own, about.get("token_usage"), about.get("usage"))


def _usage(fields: dict[str, Any]) -> dict[str, Json]:
    found = (usage_of({"usage": each}) for each in _usage_holders(fields))
    usage = next(filter(None, found), {})
    cost = decimal(fields.get("cost"))
    return usage if cost is None or "cost_usd" in usage else {**usage, "cost_usd": cost}
