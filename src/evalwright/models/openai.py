"""OpenAI chat completions: a request as a JSON body, and the JSON answer as a reply.

Spoken by OpenAI, Azure, GitHub Models, OpenRouter, Ollama, vLLM, LM Studio and most gateways.
"""

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
    TokenLogprob,
    ToolUse,
    unfit_attachment,
)
from evalwright.models.providers import PROVIDERS
from evalwright.models.quirks import LENGTHS, Quirks
from evalwright.models.structured_output import (
    fits_strict,
    object_schema,
    split_answer,
    tool_name,
    unwrapped,
    without_lengths,
)

_Count = Annotated[int, Meta(ge=0)]
_FINISHES: dict[str | None, Finish] = {
    "length": "length",
    "content_filter": "filtered",
    "tool_calls": "tools",
    "function_call": "tools",
}


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str | dict[str, Any] | None = None  # some servers give the object itself


class _FunctionCall(msgspec.Struct, gc=False):
    function: _Function
    id: str | None = None


class _TextPart(msgspec.Struct, gc=False):
    text: str | None = None


class _ChoiceMessage(msgspec.Struct, gc=False):
    content: str | list[_TextPart] | None = None
    refusal: str | None = None
    tool_calls: list[_FunctionCall] | None = None
    reasoning_content: Any = None  # from vLLM
    reasoning: Any = None  # from OpenRouter and newer vLLM; anything elsewhere


class _TopLogprob(msgspec.Struct, gc=False):
    token: str
    logprob: float


class _ContentLogprob(msgspec.Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[_TopLogprob] | None = None


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_ContentLogprob] | None = None


class _CompletionChoice(msgspec.Struct, gc=False):
    message: _ChoiceMessage | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: _Count | None = None


class _CompletionUsage(msgspec.Struct, gc=False):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Completion(msgspec.Struct, gc=False):
    choices: Annotated[list[_CompletionChoice], Meta(min_length=1)]
    usage: _CompletionUsage | None = None


_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_DECODER = msgspec.json.Decoder(_Completion)


def encode_request(request: Request, model: str, quirks: Quirks) -> bytes:
    """The body of a chat completion."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
    }
    tools = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if request.output is not None:
        schema = object_schema(request.output)
        if LENGTHS in quirks.dropped:
            schema = without_lengths(schema)
        name = tool_name(request)
        if not quirks.forced_tool:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": fits_strict(schema)},
            }
        else:
            forced = {"type": "function", "function": {"name": name}}
            body["tool_choice"] = "required" if tools else forced
            tools.append(_tool(name, "Give the answer.", schema))
    if tools:
        body["tools"] = tools
    if request.temperature is not None and "temperature" not in quirks.dropped:
        body["temperature"] = request.temperature
    if request.top_p is not None and "top_p" not in quirks.dropped:
        body["top_p"] = request.top_p
    if request.max_tokens is not None:
        body[quirks.max_tokens_field] = quirks.max_tokens(request)
    if request.seed is not None and "seed" not in quirks.dropped:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = request.stop
    if request.top_logprobs is not None and "logprobs" not in quirks.dropped:
        body["logprobs"] = True
        body["top_logprobs"] = request.top_logprobs
    return msgspec.json.encode(body)


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.attachments:
        parts = [*map(_part, message.attachments)]
        parts += [{"type": "text", "text": message.content}] if message.content.strip() else []
        return {"role": message.role, "content": parts}
    if not message.tool_uses:
        return {"role": message.role, "content": message.content}
    calls = [
        {
            "id": use.call_id,
            "type": "function",
            "function": {"name": use.name, "arguments": use.arguments},
        }
        for use in message.tool_uses
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


def _part(attachment: AttachedFile) -> dict[str, Any]:
    kind, data = attachment.type, attachment.data
    address = f"data:{kind};base64,{data}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": address}}
    if kind in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _SOUNDS[kind]}}
    if kind == "application/pdf":
        return {"type": "file", "file": {"filename": attachment.name, "file_data": address}}
    if kind == "text/plain":
        return {"type": "text", "text": f"{attachment.name}:\n{b64decode(data).decode()}"}
    raise unfit_attachment("the provider", attachment)


def decode_reply(body: bytes, request: Request, meter: Meter) -> Reply:
    """The reply in a chat completion; raises `parse_error` if there is none."""
    try:
        completion = _DECODER.decode(body)
        choice = completion.choices[0]
        if choice.message is not None:
            message = choice.message
        elif choice.finish_reason in ("content_filter", "error"):
            message = _ChoiceMessage()
        else:
            raise msgspec.ValidationError("the choice has no message")
        uses = [_use(call, number) for number, call in enumerate(message.tool_calls or ())]
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError("parse_error", f"the answer is not a chat completion: {error}") from None
    if choice.finish_reason == "error":  # from OpenRouter, when the provider behind it failed
        raise ModelError("internal_error", "the answer broke off with an error")
    if completion.usage is None or completion.usage.prompt_tokens is None:
        tokens = None
    else:
        details = completion.usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        sent = completion.usage.prompt_tokens
        tokens = Tokens(sent, completion.usage.completion_tokens or 0, min(cached, sent))
    usage = meter.usage(tokens)
    if isinstance(message.content, list):
        text = "".join(part.text or "" for part in message.content)
    else:
        text = message.content or ""
    finish = _FINISHES.get(choice.finish_reason, "stop")
    if request.output is not None:
        answer, uses = split_answer(uses, request)
        text = unwrapped(text, request.output) if answer is None else answer
    if message.refusal:
        text, finish = message.refusal, "refusal"
    elif uses and finish == "stop":
        finish = "tools"
    elif finish == "tools" and not uses:
        finish = "stop"
    given = (message.reasoning_content, message.reasoning)
    return Reply(
        text,
        finish,
        usage,
        tuple(uses),
        next((text for text in given if isinstance(text, str) and text), ""),
        _logprobs(choice.logprobs),
    )


def _use(call: _FunctionCall, number: int) -> ToolUse:
    arguments = call.function.arguments
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments or {}).decode()
    return ToolUse(call.id or f"call_{number + 1}", call.function.name, arguments)


def _logprobs(logprobs: _Logprobs | None) -> tuple[TokenLogprob, ...] | None:
    if logprobs is None or logprobs.content is None:
        return None
    return tuple(
        TokenLogprob(
            token.token,
            token.logprob,
            tuple((top.token, top.logprob) for top in token.top_logprobs or ()),
        )
        for token in logprobs.content
    )


# Both take a schema strictly only if it has no limits of length.
OF_OPENAI = Quirks(max_tokens_field="max_completion_tokens", dropped=frozenset({LENGTHS}))


def _quirks(endpoint: Endpoint) -> Quirks:
    """OpenAI itself wants the new name of `max_tokens`; other servers may know only the old one."""
    is_openai = endpoint.base_url == PROVIDERS["openai"].base_url
    return OF_OPENAI if is_openai else Quirks()


DIALECT = HttpDialect(
    encode_request,
    decode_reply,
    path=lambda *_: "/chat/completions",
    headers=lambda key: {} if key is None else {"Authorization": f"Bearer {key}"},
    quirks=_quirks,
)
