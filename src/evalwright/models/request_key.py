"""The portable key of a call: SHA-256 of the canonical JSON (RFC 8785) of what it means."""

import hashlib
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import NotJson, canonical
from evalwright.models.protocol import ChatMessage, OutputSchema, Request, ToolSpec
from evalwright.models.structured_output import without_lengths

RECIPE = "openwop-semantic-request-v2"

_ENCODER = msgspec.json.Encoder(order="sorted")


def semantic_request(request: Request) -> dict[str, Any]:
    """What a request means, apart from how it is sent: tools by name, only fields that are set."""
    fields = {
        "messages": [_message(message) for message in request.messages],
        "tools": _tools(request.tools) if request.tools else None,
        "temperature": request.temperature,
        "topP": request.top_p,
        "responseFormat": _response_format(request.output) if request.output else None,
        "maxOutputTokens": request.max_tokens,
        "stop": list(request.stop) or None,
        "seed": request.seed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def semantic_call(name: str, request: Request) -> dict[str, Any]:
    """The whole value whose hash is the key."""
    provider, _, model = name.partition(":")
    value: dict[str, Any] = {
        "recipe": RECIPE,
        "provider": provider,
        "model": model,
        "request": semantic_request(request),
    }
    if request.top_logprobs is not None:
        value["providerOptions"] = {"topLogprobs": request.top_logprobs}
    return value


def without_limits(request: Request) -> Request:
    """The request as it was made before judges were given limits of length."""
    output = request.output
    if output is not None:
        output = OutputSchema(output.name, without_lengths(output.schema))
    return msgspec.structs.replace(request, max_tokens=None, output=output)


class RequestKeys:
    """The keys of one model's requests: the hash of `canonical(semantic_call(name, request))`.

    That text is put together from parts: messages hold nothing but texts, which msgspec writes as
    RFC 8785 asks for; tools and schemas stay the same from call to call.
    """

    def __init__(self, name: str) -> None:
        provider, _, model = name.partition(":")
        self._head = f'{{"model":{canonical(model)},"provider":{canonical(provider)},'
        self._tools: tuple[tuple[ToolSpec, ...], str] = ((), "")
        self._output: tuple[OutputSchema | None, str] = (None, "")

    def key(self, request: Request) -> str:
        return hashlib.sha256(self.text(request).encode()).hexdigest()

    def text(self, request: Request) -> str:
        options = ""
        if request.top_logprobs is not None:
            options = f'"providerOptions":{{"topLogprobs":{request.top_logprobs}}},'
        fields = ",".join(f'"{name}":{text}' for name, text in self._fields(request) if text)
        return f'{self._head}{options}"recipe":"{RECIPE}","request":{{{fields}}}}}'

    def _fields(self, request: Request) -> list[tuple[str, str]]:
        if request.tools is not self._tools[0]:
            self._tools = (request.tools, canonical(_tools(request.tools)) if request.tools else "")
        if request.output is not self._output[0]:
            self._output = (
                request.output,
                canonical(_response_format(request.output)) if request.output else "",
            )
        return [
            ("maxOutputTokens", _scalar(request.max_tokens)),
            ("messages", _texts([_message(message) for message in request.messages])),
            ("responseFormat", self._output[1]),
            ("seed", _scalar(request.seed)),
            ("stop", _texts(request.stop) if request.stop else ""),
            ("temperature", _scalar(request.temperature)),
            ("tools", self._tools[1]),
            ("topP", _scalar(request.top_p)),
        ]


def _message(message: ChatMessage) -> dict[str, Any]:
    value: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_uses:
        value["toolCalls"] = [
            {"id": use.call_id, "name": use.name, "arguments": use.arguments}
            for use in message.tool_uses
        ]
    if message.attachments:
        value["attachments"] = [
            f"{each.type}:{hashlib.sha256(each.data.encode()).hexdigest()}"
            for each in message.attachments
        ]
    if message.call_id is not None:
        value["toolCallId"] = message.call_id
    return value


def _tools(tools: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]


def _response_format(output: OutputSchema) -> dict[str, Any]:
    return {"type": "json_schema", "name": output.name, "schema": output.schema}


def _scalar(value: float | None) -> str:
    return "" if value is None else canonical(value)


def _texts(value: Any) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:
        raise NotJson("$", "text with a lone surrogate is not valid Unicode") from None
