"""Answers that were recorded as they arrived: the parts of each put together to one message."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from evalwright.trace.importers.values import from_text, listed, text
from evalwright.trace.model import Json

_OPENAI = "chat.completion.chunk"
_ANTHROPIC = ("message_start", "content_block_start", "content_block_delta", "content_block_stop")
_ANTHROPIC_END = ("message_delta", "message_stop", "ping")
_RESPONSES = "response."


def assembled(messages: list[Any]) -> list[Any]:
    """The messages, with parts that follow each other as one message."""
    if not any(_kind_of_part(each) for each in messages):
        return messages
    found: list[Any] = []
    for kind, group in groupby(messages, _kind_of_part):
        parts = list(group)
        found += parts if kind is None else _ASSEMBLED[kind[0]](parts)
    return found


def _kind_of_part(raw: Json) -> tuple[str, Json] | None:
    """The kind of a part; the parts of one message of LangChain share an id."""
    if not isinstance(raw, dict):
        return None
    if raw.get("object") == _OPENAI:
        return "openai", text(raw.get("id"))
    kind = raw.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _ANTHROPIC or kind in _ANTHROPIC_END:
        return "anthropic", None
    if kind.startswith(_RESPONSES):
        return "responses", None
    fields = _fields(raw)
    is_chunk = "tool_call_chunks" in fields or str(fields.get("type", kind)).endswith("Chunk")
    return ("langchain", text(fields.get("id"))) if is_chunk and "content" in fields else None


def _fields(raw: dict[str, Any]) -> dict[str, Any]:
    inner = raw.get("data", raw.get("kwargs"))
    return inner if isinstance(inner, dict) else raw


def _of_openai(parts: list[dict[str, Any]]) -> list[Any]:
    said: list[str] = []
    calls: dict[Json, dict[str, Any]] = {}
    for part in parts:
        choices = listed(part.get("choices"))
        delta = choices[0].get("delta") if choices and isinstance(choices[0], dict) else None
        if not isinstance(delta, dict):
            continue
        said += [delta["content"]] if isinstance(delta.get("content"), str) else []
        for each in listed(delta.get("tool_calls")):
            if isinstance(each, dict):
                inner = each.get("function")
                inner = inner if isinstance(inner, dict) else {}
                _extend(calls, each, inner.get("name"), inner.get("arguments"))
    usage = next((each["usage"] for each in reversed(parts) if each.get("usage")), None)
    told = {"model": parts[0].get("model"), "usage": usage}
    return [_answer(said, calls.values(), told)]


def _extend(calls: dict[Json, dict[str, Any]], raw: dict[str, Any], name: Json, args: Json) -> None:
    index = raw.get("index")
    index = index if isinstance(index, int | str) else None
    call = calls.setdefault(index, {"id": None, "name": "", "args": ""})
    call["id"] = call["id"] or text(raw.get("id"))
    call["name"] += name if isinstance(name, str) else ""
    call["args"] += args if isinstance(args, str) else ""


def _answer(said: list[str], calls: Iterable[dict[str, Any]], told: dict[str, Any]) -> Json:
    built = [{**call, "args": from_text(call["args"] or "{}")} for call in calls]
    answer = {"role": "assistant", "content": "".join(said), "tool_calls": built or None}
    return {**answer, **{key: value for key, value in told.items() if value is not None}}


def _of_langchain(parts: list[dict[str, Any]]) -> list[Any]:
    said: list[str] = []
    calls: dict[Json, dict[str, Any]] = {}
    fields = [_fields(part) for part in parts]
    for each in fields:
        content = each.get("content")
        blocks = content if isinstance(content, list) else [content]
        texts = (block.get("text") if isinstance(block, dict) else block for block in blocks)
        said += [found for found in texts if isinstance(found, str)]
        for call in listed(each.get("tool_call_chunks")):
            if isinstance(call, dict):
                _extend(calls, call, call.get("name"), call.get("args"))
    keys = ("usage_metadata", "response_metadata")
    told = {key: each[key] for key in keys for each in fields if isinstance(each.get(key), dict)}
    return [_answer(said, calls.values(), told)]


def _of_anthropic(parts: list[dict[str, Any]]) -> list[Any]:
    message: dict[str, Any] = {"role": "assistant"}
    blocks: dict[Json, dict[str, Any]] = {}
    for part in parts:
        begun, delta = part.get("message"), part.get("delta")
        if isinstance(begun, dict):
            message = {"role": "assistant", **begun}
        index = part.get("index")
        block = blocks.setdefault(index if isinstance(index, int) else -1, {"type": "text"})
        if isinstance(part.get("content_block"), dict):
            block.update(part["content_block"])
        for key, value in delta.items() if isinstance(delta, dict) else ():
            if key in ("text", "thinking", "partial_json") and isinstance(value, str):
                block[key] = (block[key] if isinstance(block.get(key), str) else "") + value
    whole = [block for block in blocks.values() if len(block) > 1]
    for block in whole:
        if "partial_json" in block:
            block["input"] = from_text(block.pop("partial_json"))
    return [{**message, "content": whole}]


def _of_responses(parts: list[dict[str, Any]]) -> list[Any]:
    """The items of the response that was complete, or else those that were."""
    for part in reversed(parts):
        response = part.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        if isinstance(output, list) and output:
            return output
    done = [part.get("item") for part in parts if part.get("type") == "response.output_item.done"]
    return [item for item in done if isinstance(item, dict)]


_ASSEMBLED = {
    "openai": _of_openai,
    "langchain": _of_langchain,
    "anthropic": _of_anthropic,
    "responses": _of_responses,
}
