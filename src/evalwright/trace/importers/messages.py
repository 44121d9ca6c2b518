"""Messages of chat APIs as canonical events: OpenAI, Anthropic and OpenTelemetry forms."""

from collections.abc import Callable
from typing import Any

from evalwright.trace.importers.canonical import (
    CanonicalEvent,
    message,
    reasoning,
    retrieval,
    tool_call,
    tool_result,
    unrecognised,
)
from evalwright.trace.importers.chat_dialects import as_chat_messages
from evalwright.trace.importers.streams import assembled
from evalwright.trace.importers.values import arguments, milliseconds, text
from evalwright.trace.model import Json, text_of

_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "function": "tool"}
_TIMES = ("ts", "timestamp", "created_at", "created", "time")
_LONGEST_MARK = 500
_OUTCOMES = ("output", "outputs", "result", "results")
_ABOUT_CALLS = ("type", "id", "call_id", "status", "provider_data")
_TEXT_FIELDS = {
    "text": ("text", "content"),
    "input_text": ("text",),
    "output_text": ("text",),
    "summary_text": ("text",),
    "refusal": ("refusal",),
}


def events_of_messages(messages: Json) -> list[CanonicalEvent]:
    """The events of a conversation; a single text is what the user said."""
    if isinstance(messages, str):
        return [message("user", messages)]
    if isinstance(messages, dict):
        return events_of(messages)
    if not isinstance(messages, list):
        return [] if messages is None else [unrecognised("messages", messages)]
    return [event for each in assembled(messages) for event in events_of(each)]


def events_of(raw: Json) -> list[CanonicalEvent]:
    """The events of one message or item, in order."""
    if isinstance(raw, list) and len(raw) == 2 and isinstance(raw[0], str):
        raw = {"role": raw[0], "content": raw[1]}  # LangChain's short form
    if not isinstance(raw, dict):
        return [message("user", raw)] if isinstance(raw, str) else [unrecognised("message", raw)]
    foreign = as_chat_messages(raw)
    if foreign is not None:
        return [event for each in foreign for event in _timed(_turn_of(each), each)]
    role, kind = raw.get("role"), raw.get("type")
    if isinstance(role, str):
        events = _turn_of(raw)
    elif isinstance(kind, str) and (build := _item_builder(kind)) is not None:
        events = build(raw)
    else:
        events = [unrecognised(kind or "message", raw)]
    return _timed(events, raw)


def _turn_of(raw: dict[str, Any]) -> list[CanonicalEvent]:
    role = _ROLES.get(raw["role"], raw["role"])
    content = raw["parts"] if "parts" in raw else raw.get("content")
    if role == "tool" and not _has_result_parts(content):
        call_id = raw.get("tool_call_id") or raw.get("id")
        return [tool_result(call_id, raw.get("name"), plain_content(content), raw.get("status"))]
    events = []
    if text(raw.get("reasoning_content")):
        events.append(reasoning(raw["reasoning_content"]))
    events += _content(role, content)
    if text(raw.get("refusal")):
        events.append(message(role, raw["refusal"]))
    calls, older = raw.get("tool_calls"), raw.get("function_call")
    calls = calls if isinstance(calls, list) else [calls] if calls is not None else []
    events += [_call(each) for each in [*calls, *([] if older is None else [older])]]
    return events or [message(role, "")]


def _timed(events: list[CanonicalEvent], raw: dict[str, Any]) -> list[CanonicalEvent]:
    if raw.keys().isdisjoint(_TIMES):
        return events
    ts = next((found for key in _TIMES if (found := milliseconds(raw.get(key))) is not None), None)
    return events if ts is None else [{**event, "ts": ts} for event in events]


def _has_result_parts(content: Json) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and str(part.get("type")).endswith(("_response", "_result"))
        for part in content
    )


def plain_content(content: Json) -> Json:
    """Content that is text alone as this text; other content as it is."""
    if not isinstance(content, list):
        return content
    texts = [_text_of_part(part) for part in content]
    return content if None in texts else "\n".join(filter(None, texts))


def readable(content: Json) -> str:
    """Content as a reader sees it: of what is not text only a mark is left, if it is long."""
    if not isinstance(content, list):
        return text_of(content)
    return "\n".join(filter(None, map(_readable_part, content)))


def _readable_part(part: Json) -> str:
    found = _text_of_part(part)
    if found is not None:
        return found
    whole = text_of(part)
    kind = part.get("type") or part.get("kind") if isinstance(part, dict) else None
    return whole if len(whole) <= _LONGEST_MARK else f"[{text(kind) or 'part'}]"


def _text_of_part(part: Json) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    fields = _TEXT_FIELDS.get(part["type"], ()) if isinstance(part.get("type"), str) else ()
    return next((part[key] for key in fields if isinstance(part.get(key), str)), None)


def _content(role: str, content: Json) -> list[CanonicalEvent]:
    if content in (None, "", []):
        return []
    if not isinstance(content, list):
        return [message(role, content)]
    events: list[CanonicalEvent] = []
    said: list[Json] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        build = _PARTS.get(kind) if isinstance(kind, str) else None
        if build is None and isinstance(kind, str):
            # Of tools that a provider runs itself: `mcp_tool_use`, `web_fetch_tool_result`, more.
            is_call, is_result = kind.endswith("_tool_use"), kind.endswith("_tool_result")
            build = _one_call if is_call else _block_result if is_result else None
        if build is None:
            said.append(part)
            continue
        events += _said(role, said) + build(part)
        said = []
    return events + _said(role, said)


def _said(role: str, parts: list[Json]) -> list[CanonicalEvent]:
    return [message(role, plain_content(parts))] if parts else []


def _item_builder(kind: str) -> Callable[[dict[str, Any]], list[CanonicalEvent]] | None:
    """How an item is read; a provider runs many tools itself, each with items of its own kinds."""
    if kind in _ITEMS:
        return _ITEMS[kind]
    if kind.endswith("_call_output"):
        return _call_output
    return _provider_call if kind.endswith("_call") else None


def _call(raw: Json) -> CanonicalEvent:
    if not isinstance(raw, dict):
        return unrecognised("tool_call", raw)
    inner = next(
        (raw[key] for key in ("function", "custom") if isinstance(raw.get(key), dict)), raw
    )
    args = next((inner[key] for key in ("arguments", "args", "input") if key in inner), None)
    return tool_call(raw.get("id") or raw.get("call_id"), inner.get("name"), arguments(args))


def _block_result(raw: dict[str, Any]) -> list[CanonicalEvent]:
    """An Anthropic result block: not being marked as an error means that it is none."""
    status = "error" if raw.get("is_error") is True else "ok"
    payload = plain_content(raw.get("content"))
    return [tool_result(raw.get("tool_use_id"), raw.get("name"), payload, status)]


def _response_part(raw: dict[str, Any]) -> list[CanonicalEvent]:
    keys = ("response", "result", "content", "server_tool_call_response")
    payload = next((raw[key] for key in keys if key in raw), None)
    return [tool_result(raw.get("id"), raw.get("name"), payload, raw.get("status"))]


def _thought(raw: dict[str, Any]) -> list[CanonicalEvent]:
    for key in ("thinking", "content", "summary", "text"):
        if raw.get(key):
            return [reasoning(plain_content(raw[key]))]
    return [reasoning("")]


def _one_call(raw: dict[str, Any]) -> list[CanonicalEvent]:
    call = _call(raw)
    return [{**call, "call_id": text(raw.get("call_id")) or call["call_id"]}]


def _call_output(raw: dict[str, Any]) -> list[CanonicalEvent]:
    payload, status = plain_content(raw.get("output")), _status_of(raw.get("status"))
    return [tool_result(raw.get("call_id"), None, payload, status)]


def _remote_call(raw: dict[str, Any]) -> list[CanonicalEvent]:
    failed = raw.get("error") is not None
    payload = raw["error"] if failed else raw.get("output")
    status = "error" if failed else "ok"
    return [_call(raw), tool_result(raw.get("id"), raw.get("name"), payload, status)]


def _provider_call(raw: dict[str, Any]) -> list[CanonicalEvent]:
    """A call of a tool that is named by the kind of its item alone."""
    call_id = raw.get("call_id") or raw.get("id")
    name = str(raw["type"]).removesuffix("_call")
    outcome = next((raw[key] for key in _OUTCOMES if raw.get(key) is not None), None)
    args = {key: raw[key] for key in raw if key not in (*_OUTCOMES, *_ABOUT_CALLS)}
    call = tool_call(call_id, name, args["action"] if [*args] == ["action"] else args)
    if outcome is None and raw.get("status") not in ("completed", "failed", "incomplete"):
        return [call]
    return [call, tool_result(call_id, name, outcome, _status_of(raw.get("status")))]


def _status_of(status: Json) -> str | None:
    return "error" if status in ("failed", "incomplete") else None


def _file_search(raw: dict[str, Any]) -> list[CanonicalEvent]:
    found, queries = raw.get("results"), raw.get("queries")
    if isinstance(queries, list) and all(isinstance(each, str) for each in queries):
        queries = "\n".join(queries)
    return [retrieval(queries, found if isinstance(found, list) else [])]


_PARTS: dict[str, Callable[[dict[str, Any]], list[CanonicalEvent]]] = {
    "tool_use": _one_call,
    "server_tool_use": _one_call,
    "tool_result": _block_result,
    "web_search_tool_result": _block_result,
    "thinking": _thought,
    "reasoning": _thought,
    "tool_call": _one_call,
    "tool_call_response": _response_part,
    "server_tool_call": lambda raw: [
        tool_call(raw.get("id"), raw.get("name"), raw.get("server_tool_call"))
    ],
    "server_tool_call_response": _response_part,
}

_ITEMS: dict[str, Callable[[dict[str, Any]], list[CanonicalEvent]]] = {
    **_PARTS,
    "function_call": _one_call,
    "custom_tool_call": _one_call,
    "function_call_output": _call_output,
    "custom_tool_call_output": _call_output,
    "mcp_call": _remote_call,
    "file_search_call": _file_search,
}
