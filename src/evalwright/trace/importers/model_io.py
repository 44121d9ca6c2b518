"""What models, tools and agents were given and gave, however a tracing tool wrote it down."""

import ast
from typing import Any

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent, message, tool_call, tool_result
from evalwright.trace.importers.chat_dialects import as_chat_messages, models_of, spent_in
from evalwright.trace.importers.messages import events_of, events_of_messages, readable
from evalwright.trace.importers.operation import Operation, with_outcome
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.streams import assembled
from evalwright.trace.importers.values import (
    fields_of,
    first_identifier,
    structure_from_text,
    text,
    tool_names,
    usage_of,
)
from evalwright.trace.model import Json

_GIVEN = ("messages", "input", "contents", "prompts", "prompt", "kwargs", "inputs")
_ASKED = (
    "input",
    "question",
    "query",
    "prompt",
    "task",
    "text",
    "message",
    "user_input",
    "user_prompt",
    "content",
)
_ANSWERED = ("output", "answer", "response", "result", "text", "completion", "content", "message")
_INSTRUCTED = ("system", "instructions", "system_instruction", "system_prompt")
_WRAPPED = ("output", "result", "content", "value")
_LONGEST_LITERAL = 20_000
_ITEM_KINDS = ("message", "function_call", "function_call_output", "reasoning", "mcp_call")


def model_operation(span: Span, given: Json, answered: Json) -> Operation:
    """A call of a model, with all that its input and its output tell."""
    given, answered = structure_from_text(given), structure_from_text(answered)
    if isinstance(answered, list) and len(answered) == 1:
        # A response may stand in a list, as answers that arrived in parts are recorded.
        is_response = isinstance(fields_of(answered[0]).get("output"), list)
        answered = answered[0] if is_response else answered
    fields = fields_of(given)
    offered = fields.get("tools") or fields.get("functions")
    return Operation(
        span,
        "model",
        history=said_to(given),
        output=said_by(answered),
        instructions=[readable(fields[key]) for key in _INSTRUCTED if fields.get(key)],
        tools=tool_names(offered),
        usage=usage_in(answered),
        models=models_in(answered) or models_of([fields]),
    )


def agent_operation(span: Span, given: Json, answered: Json) -> Operation:
    """What an agent was asked and answered; used where no model inside tells it."""
    given, answered = _called_with(structure_from_text(given)), structure_from_text(answered)
    history, output = messages_in(given), messages_in(answered)
    return Operation(
        span,
        "agent",
        history=events_of_messages(history) if history else [],
        output=events_of_messages(output) if output else [],
        asked=None if history else _lone_value(given, _ASKED),
        answered=None if output else _lone_value(answered, _ANSWERED),
        usage=spent_in(output)[0] if output else {},
        models=spent_in(output)[1] if output else [],
    )


def tool_operation(span: Span, given: Json, returned: Json, call_id: Json = None) -> Operation:
    """A tool that ran: its call and its result."""
    nothing = span.failed and returned in ({}, [], "")
    result = _result(None if nothing else structure_from_text(returned))
    found_id = call_id or result["call_id"]
    status = result.get("status")
    result = with_outcome({**result, "call_id": found_id, "tool": span.name}, span)
    if status and result["status"] == "ok":
        result["status"] = status
    call = tool_call(found_id, span.name, tool_arguments(given))
    return Operation(span, "tool", call=call, result=result)


def tool_arguments(given: Json) -> Json:
    """What a tool was given; LangChain writes it as the text of a Python value."""
    given = _called_with(structure_from_text(given))
    if isinstance(given, dict) and list(given) == ["input"]:
        inner = _literal(given["input"])
        return inner if isinstance(inner, dict) else given
    return _literal(given)


def _called_with(given: Json) -> Json:
    """The arguments of a Python function, which decorators record as `args` and `kwargs`."""
    if not isinstance(given, dict) or sorted(given) != ["args", "kwargs"]:
        return given
    args, kwargs = given["args"], given["kwargs"]
    if not args:
        return kwargs
    return args[0] if not kwargs and isinstance(args, list) and len(args) == 1 else given


def _literal(value: Json) -> Json:
    """The JSON value that the text of a Python dict or list stands for, or the value itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    found = structure_from_text(value)
    if not isinstance(found, str) or len(value) > _LONGEST_LITERAL:
        return found
    try:
        return msgspec.json.decode(msgspec.json.encode(ast.literal_eval(value.strip())))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return value


def _result(returned: Json) -> CanonicalEvent:
    if isinstance(returned, dict):
        wrapped = [key for key in _WRAPPED if key in returned]
        if len(returned) == 1 and wrapped:
            return _result(structure_from_text(returned[wrapped[0]]))
        update = returned.get("update")  # of a LangGraph command
        said = messages_in(update if isinstance(update, dict) else returned)
        for event in reversed(events_of_messages(said or returned)):
            if event["type"] == "tool_result":
                return event
    return tool_result(None, None, returned)


def said_to(given: Json) -> list[CanonicalEvent]:
    """The conversation that a model was given."""
    found = messages_in(given)
    if found is not None:
        return events_of_messages(found)
    alone = _lone_value(given, ("prompt", "prompts", *_ASKED))
    return [] if alone in (None, "") else [message("user", alone)]


def messages_in(value: Json) -> list[Any] | None:
    """The messages that an input or an output is or holds."""
    value = structure_from_text(value)
    if isinstance(value, list):
        inner = value[0] if value else None
        if isinstance(inner, list) and inner and not isinstance(inner[0], str):
            return messages_in(inner)  # a batch of one
        return value if any(map(_is_message, value)) else None
    if not isinstance(value, dict):
        return None
    if _is_message(value):
        return [value]
    for key in (*_GIVEN, "output", "outputs"):
        found = messages_in(value[key]) if isinstance(value.get(key), dict | list | str) else None
        if found is not None:
            return found
    return None


def _is_message(value: Json) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and value[0] in ("user", "human", "system", "ai", "assistant")
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return any(key in value for key in ("content", "parts", "tool_calls"))
    return value.get("type") in _ITEM_KINDS or as_chat_messages(value) is not None


def _lone_value(value: Json, keys: tuple[str, ...]) -> Json:
    """What an input or an output says, where it is wrapped in an object under a usual name."""
    value = structure_from_text(value)
    if not isinstance(value, dict):
        return value[0] if isinstance(value, list) and len(value) == 1 else value
    if len(value) == 1:
        (alone,) = value.values()
        return alone[0] if isinstance(alone, list) and len(alone) == 1 else alone
    return next((value[key] for key in keys if text(value.get(key))), value or None)


def said_by(answered: Json) -> list[CanonicalEvent]:
    """What a model answered: the first of several answers."""
    answered = _first_answer(structure_from_text(answered))
    is_wrapped = isinstance(answered, dict) and list(answered) == ["output"]
    parts = answered["output"] if is_wrapped else answered
    if isinstance(parts, list) and parts:  # they were recorded as they arrived
        is_text = all(isinstance(each, str) for each in parts)
        answered = "".join(parts) if is_text else assembled(parts) or answered
    if answered in (None, "", [], {}):
        return []
    if isinstance(answered, str):
        return [message("assistant", answered)]
    found = messages_in(answered)
    if found is not None:
        turns = [{"role": "assistant", "content": x} if isinstance(x, str) else x for x in found]
        return [event for each in turns for event in events_of(each)]
    if isinstance(answered, dict) and isinstance(answered.get("content"), str | list):
        return events_of({**answered, "role": "assistant"})
    if isinstance(answered, list) and all(isinstance(each, dict) for each in answered):
        return events_of({"role": "assistant", "content": answered})
    alone = _lone_value(answered, _ANSWERED)
    return [message("assistant", alone)]


def _first_answer(answered: Json) -> Json:
    """The first choice, generation or candidate of a response."""
    if not isinstance(answered, dict):
        return answered
    for key in ("choices", "generations", "candidates"):
        found = answered.get(key)
        while isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict):
            inner = found.get("message") or found.get("content") or found.get("text")
            if (
                not isinstance(inner, dict)
                or "role" in inner
                or as_chat_messages(inner) is not None
            ):
                return inner
            return {"role": "assistant", **inner}
    return answered


def usage_in(answered: Json) -> dict[str, Json]:
    """What an answer of a model says of its cost."""
    if not isinstance(answered, dict):
        return spent_in(answered)[0]
    about = fields_of(answered.get("llm_output"))
    holders = (
        answered.get("usage"),
        answered.get("usage_metadata"),
        answered.get("usageMetadata"),
        about.get("token_usage"),
        about.get("usage"),
    )
    for each in holders:
        if isinstance(each, dict) and (found := usage_of({"usage": each})):
            return found
    return spent_in(_messages_of_answer(answered))[0]


def models_in(answered: Json) -> list[str]:
    """The models that an answer names."""
    if not isinstance(answered, dict):
        return []
    about = fields_of(answered.get("llm_output"))
    return models_of([answered, about])[:1] or spent_in(_messages_of_answer(answered))[1]


def _messages_of_answer(answered: dict[str, Any]) -> Json:
    first = _first_answer(answered)
    return [first] if first is not answered else messages_in(answered)


def identified(*holders: Json, keys: tuple[str, ...]) -> str | None:
    """The first id under one of some keys, in the first holder that has one."""
    found = (first_identifier(each, *keys) for each in holders if isinstance(each, dict))
    return next((each for each in found if each), None)
