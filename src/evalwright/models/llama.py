"""Chat completions as llama.cpp can hold a model to them.

It keeps integers within bounds, but no other numbers. A small model has not learnt to call tools:
it answers in one JSON object, which is a tool call or the answer, whichever it begins. A tool that
was used is not offered again, because small models repeat themselves.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.models import openai
from evalwright.models.prices import Meter
from evalwright.models.protocol import ChatMessage, OutputSchema, Reply, Request, ToolSpec, ToolUse
from evalwright.models.quirks import Quirks
from evalwright.models.structured_output import FIELD, object_schema

LONGEST_ANSWER = 600  # characters, of one that may call a tool in place of it
_TOOL, _ARGUMENTS = "tool", "arguments"
_ANSWER = OutputSchema("answer", {"type": "string", "maxLength": LONGEST_ANSWER})
_TOOLS = """\
You can use tools. To use one, reply with {{"tool": its name, "arguments": an object}}. To answer, \
reply with {answer}. The tools:
{tools}"""


def encode_bounded(request: Request, model: str, quirks: Quirks) -> bytes:
    """The body of a chat completion, with integers for numbers that have bounds."""
    output = request.output
    if output is not None:
        bounded = OutputSchema(output.name, _with_integers(output.schema))
        request = msgspec.structs.replace(request, output=bounded)
    return openai.encode_request(request, model, quirks)


def _with_integers(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_integers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _with_integers(each) for key, each in schema.items()}
    is_bounded = {"minimum", "maximum"} <= schema.keys() and schema.get("type") == "number"
    return {**made, "type": "integer"} if is_bounded else made


def encode_request(request: Request, model: str, quirks: Quirks) -> bytes:
    """The body of a chat completion without tools, whose schema takes their place."""
    return encode_bounded(without_tools(request), model, quirks)


def decode_reply(body: bytes, request: Request, meter: Meter) -> Reply:
    """The reply, with the tool call or the answer taken out of its object."""
    asked = without_tools(request)
    reply = openai.decode_reply(body, asked, meter)
    if asked.output is request.output or reply.finish in ("length", "refusal", "filtered"):
        return reply
    try:
        value = parse(reply.text)
    except NotJson:
        return reply
    return _taken_out(reply, value) if isinstance(value, dict) else reply


def _taken_out(reply: Reply, value: dict[str, Any]) -> Reply:
    if _TOOL in value and isinstance(value.get(_ARGUMENTS), dict):
        arguments = msgspec.json.encode(value[_ARGUMENTS]).decode()
        use = ToolUse("call_1", str(value[_TOOL]), arguments)
        return msgspec.structs.replace(reply, text="", finish="tools", tool_uses=(use,))
    if set(value) == {FIELD}:
        inner = value[FIELD]
        text = inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()
        return msgspec.structs.replace(reply, text=text)
    return reply


def without_tools(request: Request) -> Request:
    """The same question for a model that only writes text; itself where there are no tools."""
    if not (request.tools or any(said.role == "tool" for said in request.messages)):
        return request
    names = {use.call_id: use.name for said in request.messages for use in said.tool_uses}
    used = set(names.values())
    left = [tool for tool in request.tools if tool.name not in used]
    told, output = "", request.output
    if left:
        answer = object_schema(output or _ANSWER)
        told = _TOOLS.format(
            answer="a JSON object" if output else f'{{"{FIELD}": your answer}}',
            tools="\n".join(map(_line, left)),
        )
        schema = {"type": "object", "anyOf": [*map(_call_schema, left), answer]}
        output = OutputSchema("reply", schema)
    messages = tuple(_messages(request.messages, names, told))
    return msgspec.structs.replace(request, messages=messages, tools=(), output=output)


def _messages(
    messages: tuple[ChatMessage, ...], names: dict[str, str], told: str
) -> Iterator[ChatMessage]:
    """The conversation without calls: what tools answered is added to the last question."""
    known = [
        f"What {names.get(said.call_id or '', 'a tool')} knows: {said.content}"
        for said in messages
        if said.role == "tool"
    ]
    kept = [said for said in messages if said.role != "tool" and not said.tool_uses]
    asked = [place for place, said in enumerate(kept) if said.role == "user"]
    if not any(said.role == "system" for said in kept) and told:
        yield ChatMessage("system", told)
        told = ""
    for place, said in enumerate(kept):
        more: list[str] = []
        if said.role == "system":
            more, told = [told], ""
        elif asked and place == asked[-1]:
            more = known
        text = "\n\n".join(filter(None, (said.content, *more)))
        yield msgspec.structs.replace(said, content=text)
    if known and not asked:
        yield ChatMessage("user", "\n\n".join(known))


def _call_schema(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {_TOOL: {"const": tool.name}, _ARGUMENTS: tool.parameters},
        "required": [_TOOL, _ARGUMENTS],
        "additionalProperties": False,
    }


def _line(tool: ToolSpec) -> str:
    parameters = msgspec.json.encode(tool.parameters).decode()
    return f"- {tool.name}: {tool.description} {parameters}".replace("  ", " ")


DIALECT = msgspec.structs.replace(openai.DIALECT, encode=encode_bounded)
SMALL_MODEL = msgspec.structs.replace(DIALECT, encode=encode_request, decode=decode_reply)
