"""Anthropic messages: a request as a JSON body, and the JSON answer as a reply."""

from base64 import b64decode
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from evalwright.contracts.attachments import AttachedFile
from evalwright.models.dialects import HttpDialect
from evalwright.models.endpoints import Endpoint
from evalwright.models.prices import Meter, Tokens
from evalwright.models.protocol import (
    ChatMessage,
    Finish,
    ModelError,
    Reply,
    Request,
    ToolUse,
    unfit_attachment,
)
from evalwright.models.quirks import Quirks
from evalwright.models.structured_output import object_schema, split_answer, tool_name

VERSION = "2023-06-01"
MAX_TOKENS = 8192  # the provider demands a bound; this one is sent where a request has none

_Count = Annotated[int, Meta(ge=0)]
_FINISHES: dict[str | None, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tools",
    "refusal": "refusal",
}


class _ContentBlock(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _MessageUsage(msgspec.Struct, gc=False):
    input_tokens: _Count
    output_tokens: _Count = 0
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None


class _MessageReply(msgspec.Struct, gc=False):
    content: list[_ContentBlock]
    stop_reason: str | None = None
    usage: _MessageUsage | None = None


_DECODER = msgspec.json.Decoder(_MessageReply)


def encode_request(request: Request, model: str, quirks: Quirks) -> bytes:
    """The body of a message; what the provider does not offer (seed, logprobs) is left out."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": quirks.max_tokens(request) or MAX_TOKENS,
        "messages": _turns(request.messages),
    }
    system = [message.content for message in request.messages if message.role == "system"]
    if any(system):
        body["system"] = "\n\n".join(text for text in system if text)
    tools = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if request.output is not None:
        name = tool_name(request)
        body["tool_choice"] = {"type": "any"} if tools else {"type": "tool", "name": name}
        tools.append(_tool(name, "Give the answer.", object_schema(request.output)))
    if tools:
        body["tools"] = tools
    if request.temperature is not None and "temperature" not in quirks.dropped:
        body["temperature"] = request.temperature
    if request.top_p is not None and "top_p" not in quirks.dropped:
        body["top_p"] = request.top_p
    if request.stop:
        body["stop_sequences"] = request.stop
    return msgspec.json.encode(body)


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": parameters}


def _turns(messages: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    """Messages that follow each other in one role are one turn, results of tools first."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = _blocks(message) if message.role != "system" else []
        if not blocks:  # the provider refuses empty ones
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return turns


def _blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}]
    blocks: list[dict[str, Any]] = [*map(_attachment, message.attachments)]
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    blocks += (
        {"type": "tool_use", "id": use.call_id, "name": use.name, "input": _input(use.arguments)}
        for use in message.tool_uses
    )
    return blocks


def _attachment(attachment: AttachedFile) -> dict[str, Any]:
    kind, data = attachment.type, attachment.data
    if kind.startswith("image/") or kind == "application/pdf":
        source = {"type": "base64", "media_type": kind, "data": data}
        return {"type": "image" if kind.startswith("image/") else "document", "source": source}
    if kind == "text/plain":
        source = {"type": "text", "media_type": kind, "data": b64decode(data).decode()}
        return {"type": "document", "source": source, "title": attachment.name}
    raise unfit_attachment("Anthropic", attachment)


def _input(arguments: str) -> dict[str, Any]:
    """The arguments as the object that the provider demands, even where they are not one."""
    try:
        value = msgspec.json.decode(arguments) if arguments.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def decode_reply(body: bytes, request: Request, meter: Meter) -> Reply:
    """The reply in a message; raises `parse_error` if there is none."""
    try:
        answer = _DECODER.decode(body)
        uses = [
            _use(block, n)
            for n, block in enumerate(answer.content)
            if block.type == "tool_use" and block.name is not None
        ]
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError("parse_error", f"the answer is not a message: {error}") from None
    text = "".join(block.text or "" for block in answer.content if block.type == "text")
    finish = _FINISHES.get(answer.stop_reason, "stop")
    if request.output is not None:
        given, uses = split_answer(uses, request)
        text = text if given is None else given
    if finish in ("stop", "tools"):
        finish = "tools" if uses else "stop"
    thinking = "".join(block.thinking or "" for block in answer.content)
    # Anthropic counts cached tokens beside the others; here `input` counts them all.
    if answer.usage is None:
        tokens = None
    else:
        read, written = (
            answer.usage.cache_read_input_tokens or 0,
            answer.usage.cache_creation_input_tokens or 0,
        )
        tokens = Tokens(
            answer.usage.input_tokens + read + written, answer.usage.output_tokens, read, written
        )
    return Reply(text, finish, meter.usage(tokens), tuple(uses), thinking)


def _use(block: _ContentBlock, number: int) -> ToolUse:
    arguments = msgspec.json.encode(block.input or {}).decode()
    return ToolUse(block.id or f"call_{number + 1}", block.name or "", arguments)


def _path(endpoint: Endpoint, _model: str) -> str:
    return "/messages" if endpoint.base_url.endswith("/v1") else "/v1/messages"


def _headers(key: str | None) -> dict[str, str]:
    version = {"anthropic-version": VERSION}
    return version if key is None else {**version, "x-api-key": key}


DIALECT = HttpDialect(
    encode_request, decode_reply, path=_path, headers=_headers, quirks=lambda _: Quirks()
)
