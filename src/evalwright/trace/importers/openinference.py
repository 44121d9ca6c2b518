"""Spans by the OpenInference conventions: attributes that are flattened lists of messages."""

from itertools import dropwhile

from evalwright.trace.importers.canonical import (
    CanonicalEvent,
    message,
    retrieval,
    tool_call,
    tool_result,
)
from evalwright.trace.importers.chat_dialects import returned
from evalwright.trace.importers.messages import events_of_messages
from evalwright.trace.importers.operation import (
    Kind,
    Operation,
    lacks_beginning,
    nested,
    with_outcome,
)
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.values import (
    arguments,
    fields_of,
    first_identifier,
    from_text,
    number,
    objects_in,
    structure_from_text,
    text,
    tool_names,
    whole_number,
    without_none,
)
from evalwright.trace.model import Json

_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "AGENT": "agent",
    "CHAIN": "agent",
}
_JSON_TYPE = "application/json"
_INPUT = "llm.input_messages"
_HANDED_OVER = "handoff to "


def read_openinference(span: Span) -> Operation | None:
    """What a span says by these conventions; None if it follows none of them."""
    kind = _KINDS.get(str(span.attributes.get("openinference.span.kind")).upper())
    match kind:
        case "model":
            said = span.attributes
            told = nested(said, "llm.output_messages")
            answers = events_of_messages([_chat_message(each) for each in told])
            offered = [each.get("tool", each) for each in objects_in(nested(said, "llm.tools"))]
            spent = {
                "input_tokens": whole_number(said.get("llm.token_count.prompt")),
                "output_tokens": whole_number(said.get("llm.token_count.completion")),
                "cost_usd": number(said.get("llm.cost.total")),
            }
            return Operation(
                span,
                "model",
                history=_history(span) or _as_history(_value(span, "input")),
                output=answers or _as_output(_value(span, "output")),
                tools=tool_names([each.get("json_schema", each) for each in objects_in(offered)]),
                usage=without_none(spent),
                models=[name for name in [text(said.get("llm.model_name"))] if name],
                is_cut=lacks_beginning(span, _INPUT),
            )
        case "tool":
            said = span.attributes
            if span.name.startswith(_HANDED_OVER) and said.get("tool.name") is None:
                # Of the OpenAI Agents SDK: the model's call tells of it.
                return Operation(span, "agent")
            name = (
                text(said.get("tool.name"))
                or text(said.get("tool_call.function.name"))
                or span.name
            )
            call_id = first_identifier(said, "tool_call.id", "tool.id")
            result = with_outcome(
                tool_result(call_id, name, returned(_value(span, "output"))), span
            )
            # What the tool was given; `tool.parameters` is often the tool's schema, so it comes
            # last.
            keys = ("tool_call.function.arguments", "input.value", "tool.parameters")
            given = [arguments(said[key]) for key in keys if said.get(key) is not None]
            objects = (each for each in given if isinstance(each, dict))
            return Operation(
                span,
                "tool",
                call=tool_call(call_id, name, next(objects, given[0] if given else None)),
                result=result,
            )
        case "retrieval":
            found = [
                _unwrapped(each, "document")
                for each in nested(span.attributes, "retrieval.documents")
            ]
            return Operation(span, "retrieval", result=retrieval(_value(span, "input"), found))
        case "agent":
            asked, answered = _value(span, "input"), _value(span, "output")
            return Operation(span, "agent", asked=asked, answered=answered)
    return None


def _history(span: Span) -> list[CanonicalEvent]:
    """What a model was given; of a message whose beginning was cut off nothing is taken."""
    found = nested(span.attributes, _INPUT)
    if lacks_beginning(span, _INPUT):
        found = list(
            dropwhile(
                lambda each: not text(fields_of(_unwrapped(each, "message")).get("role")), found
            )
        )
    return events_of_messages([_chat_message(each) for each in found])


def _chat_message(raw: Json) -> Json:
    """A message as chat APIs have it: the conventions wrap every object in its own name."""
    fields = _unwrapped(raw, "message")
    if not isinstance(fields, dict):
        return fields
    built = {
        key: fields[key] for key in ("role", "content", "name", "tool_call_id") if key in fields
    }
    if text(fields.get("tool_call_id")) and fields.get("role") == "user":
        built["role"] = "tool"  # so Anthropic's results were recorded once
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        built["tool_calls"] = [_unwrapped(each, "tool_call") for each in calls]
    if isinstance(fields.get("contents"), list):
        parts = [_part(each) for each in fields["contents"]]
        # The place of a call among the contents tells once more of one that is in the calls.
        built["content"] = [each for each in parts if not (calls and _is_call(each))]
    if text(fields.get("function_call_name")):
        args = fields.get("function_call_arguments_json")
        built["function_call"] = {"name": fields["function_call_name"], "arguments": args}
    return {"role": "assistant", **built}


def _part(raw: Json) -> Json:
    """A content as chat APIs have it: a call has its fields beside it, other blocks are JSON."""
    part = _unwrapped(raw, "message_content")
    if not isinstance(part, dict) or not isinstance(raw, dict):
        return part
    call = raw.get("tool_call")
    if _is_call(part) and isinstance(call, dict):
        return {**call, "type": part["type"]}
    block = structure_from_text(part.get("text"))
    is_block = isinstance(block, dict) and block.get("type") == part.get("type")
    return block if is_block else part


def _is_call(part: Json) -> bool:
    return isinstance(part, dict) and str(part.get("type")).endswith("tool_use")


def _unwrapped(raw: Json, name: str) -> Json:
    return raw.get(name, raw) if isinstance(raw, dict) else raw


def _as_history(value: Json) -> list[CanonicalEvent]:
    """The input of a model call whose messages were not recorded one by one."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return events_of_messages(value["messages"])
    return [] if value is None else [message("user", value)]


def _as_output(value: Json) -> list[CanonicalEvent]:
    choices = fields_of(value).get("choices")
    first = fields_of(choices[0]) if isinstance(choices, list) and choices else {}
    if isinstance(first.get("message"), dict):
        return events_of_messages([first["message"]])
    return [] if value is None else [message("assistant", value)]


def _value(span: Span, side: str) -> Json:
    value = span.attributes.get(f"{side}.value")
    return from_text(value) if span.attributes.get(f"{side}.mime_type") == _JSON_TYPE else value
