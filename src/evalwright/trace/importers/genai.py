"""Spans by the GenAI conventions of OpenTelemetry, the current ones and those before."""

from collections.abc import Callable
from typing import Any

from evalwright.trace.importers.canonical import (
    CanonicalEvent,
    retrieval,
    tool_call,
    tool_result,
)
from evalwright.trace.importers.chat_dialects import returned
from evalwright.trace.importers.messages import events_of_messages, plain_content
from evalwright.trace.importers.operation import (
    Kind,
    Operation,
    lacks_beginning,
    nested,
    with_outcome,
)
from evalwright.trace.importers.span_formats import Span, SpanEvent
from evalwright.trace.importers.values import (
    arguments,
    fields_of,
    from_text,
    number,
    structure_from_text,
    text,
    tool_names,
    whole_number,
    without_none,
)
from evalwright.trace.model import Json, text_of

_KINDS: dict[str, Kind] = {
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "create_agent": "agent",
}
_SENT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_RECEIVED = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_COSTS = ("gen_ai.usage.cost", "operation.cost")
_NUMBERED = ("gen_ai.prompt", "gen_ai.completion")
_MODEL_MARKS = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.system")
_BLOCKS = ("text", "thinking", "redacted_thinking", "image", "document", "tool_use", "tool_result")
_MESSAGE_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def read_genai(span: Span) -> Operation | None:
    """What a span says by these conventions; None if it follows none of them."""
    kind = _kind(span)
    if kind == "tool":
        said = span.attributes
        name = text(said.get("gen_ai.tool.name")) or span.name.removeprefix("execute_tool ")
        call_id = said.get("gen_ai.tool.call.id")
        args = arguments(said.get("gen_ai.tool.call.arguments"))
        payload = returned(structure_from_text(said.get("gen_ai.tool.call.result")))
        result = with_outcome(tool_result(call_id, name, payload), span)
        return Operation(span, "tool", call=tool_call(call_id, name, args), result=result)
    if kind == "retrieval":
        found = structure_from_text(span.attributes.get("gen_ai.retrieval.documents"))
        documents = found if isinstance(found, list) else []
        query = span.attributes.get("gen_ai.retrieval.query.text")
        return Operation(span, "retrieval", result=retrieval(query, documents))
    if kind is None:
        return None

    named = [span.attributes.get(f"gen_ai.{side}.model") for side in ("response", "request")]
    models = [each for each in named if isinstance(each, str)][:1]
    counted = {
        "input_tokens": _first(span.attributes, _SENT, whole_number),
        "output_tokens": _first(span.attributes, _RECEIVED, whole_number),
        "cost_usd": _first(span.attributes, _COSTS, number),
    }
    operation = Operation(span, kind, usage=without_none(counted), models=models)
    if kind == "agent":  # pydantic-ai keeps an answer that is no text apart
        operation.answered = structure_from_text(span.attributes.get("final_result"))
    for said in [span.attributes, *(each.attributes for each in span.events)]:
        operation.history += _messages(said.get("gen_ai.input.messages"))
        operation.output += _messages(said.get("gen_ai.output.messages"))
        told = plain_content(structure_from_text(said.get("gen_ai.system_instructions")))
        operation.instructions += [text_of(told)] if told else []
        operation.tools += tool_names(said.get("gen_ai.tool.definitions"))
    for event in span.events:
        _add_event(operation, event)
    if any(key.startswith(_NUMBERED) for key in span.attributes):
        # Messages that were written in attributes of their own, each with its number.
        operation.is_cut = lacks_beginning(span, "gen_ai.prompt")
        prompts = nested(span.attributes, "gen_ai.prompt")
        answers = nested(span.attributes, "gen_ai.completion")
        operation.history += events_of_messages([_with_blocks(each) for each in prompts])
        operation.output += events_of_messages([_with_role(each, "assistant") for each in answers])
    return operation


def _kind(span: Span) -> Kind | None:
    operation = span.attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _KINDS.get(operation)
    if "gen_ai.tool.name" in span.attributes:
        return "tool"
    return "model" if any(key in span.attributes for key in _MODEL_MARKS) else None


def _with_blocks(raw: Json) -> Json:
    """A message whose blocks Traceloop wrote as JSON text, with the blocks."""
    said = raw.get("content") if isinstance(raw, dict) else None
    found = structure_from_text(said)
    blocks = found if isinstance(found, list) and found else [None]
    is_blocks = all(isinstance(each, dict) and each.get("type") in _BLOCKS for each in blocks)
    return {**raw, "content": found} if is_blocks else raw


def _add_event(operation: Operation, event: SpanEvent) -> None:
    """The events in which older versions of the conventions recorded what was said."""
    if event.name == "gen_ai.content.prompt":
        operation.history += _messages(event.attributes.get("gen_ai.prompt"))
    elif event.name == "gen_ai.content.completion":
        said = from_text(event.attributes.get("gen_ai.completion"))
        said = said if isinstance(said, list) else [said]
        operation.output += events_of_messages([_with_role(each, "assistant") for each in said])
    elif event.name in _MESSAGE_ROLES:
        # The message that an event holds: in its body, in its attributes, or in `message` of them.
        body = structure_from_text(event.body or event.attributes.get("gen_ai.event.content"))
        fields = body if isinstance(body, dict) else {"content": body} if body else event.attributes
        inner = structure_from_text(fields.get("message"))
        fields = {**fields, **inner} if isinstance(inner, dict) else fields
        fields = {**fields, "tool_calls": structure_from_text(fields.get("tool_calls"))}
        if isinstance(inner, str) and "content" not in fields:
            fields["content"] = inner
        message = _with_role(fields, _MESSAGE_ROLES[event.name])
        content = fields_of(fields_of(message).get("content"))
        if list(content) == ["tools"] and (offered := tool_names(content["tools"])):
            operation.tools += offered
        elif event.name == "gen_ai.choice":
            operation.output += events_of_messages([message])
        else:
            operation.history += events_of_messages([message])


def _with_role(raw: Json, role: str) -> Json:
    if not isinstance(raw, dict):
        return {"role": role, "content": raw}
    known = {key: raw[key] for key in raw if key not in ("timestamp", "time")}
    return known if isinstance(raw.get("role"), str) else {**known, "role": role}


def _messages(value: Json) -> list[CanonicalEvent]:
    return events_of_messages(structure_from_text(value))


def _first(said: dict[str, Any], keys: tuple[str, ...], kind: Callable[[Json], Any]) -> Any:
    for key in keys:
        if key in said and (found := kind(said[key])) is not None:
            return found
    return None
