"""OpenHands: streams of actions and observations, and the typed events of its SDK."""

from collections.abc import Callable, Iterator
from typing import Any

from evalwright.trace.importers.canonical import (
    CanonicalEvent,
    message,
    reasoning,
    tool_call,
    tool_result,
    unrecognised,
)
from evalwright.trace.importers.messages import events_of, plain_content, readable
from evalwright.trace.importers.records import Imported, Importer, ImportRecord
from evalwright.trace.importers.transcripts import Transcript
from evalwright.trace.importers.values import (
    arguments,
    fields_of,
    first_identifier,
    identifier,
    listed,
    milliseconds,
    structure_from_text,
    text,
    tool_names,
    usage_and_cost,
)
from evalwright.trace.model import Json, text_of

_LISTS = ("history", "events", "trajectory")
_CASE_KEYS = ("case_id", "instance_id", "conversation_id", "id")
_INTERNAL = (
    "null",
    "change_agent_state",
    "agent_state_changed",
    "recall",
    "condensation",
    "condensation_request",
    "condense",
    "think",
    "system",
    "message",
)
# Of the arguments of an action: how the action is run, and not what is asked of the tool.
_HOUSEKEEPING = ("thought", "confirmation_state", "is_confirmed", "hidden", "security_risk", "kind")
_LOOKED_AT = 3


def is_openhands(value: Json) -> bool:
    """Whether a record is an event, a list of them, or a conversation that holds them."""
    if _is_event(value):
        return True
    lists = [value] if isinstance(value, list) else map(fields_of(value).get, _LISTS)
    first = [_flat(each)[:1] for held in lists for each in listed(held)[:_LOOKED_AT]]
    return any(_is_event(inner) for each in first for inner in each)


def _flat(value: Json) -> list[Any]:
    """An event; older versions pair an action with its observation."""
    return value if isinstance(value, list) and len(value) <= 2 else [value]


def _is_event(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("kind"), str) and value["kind"] in _TYPED:
        return any(key in value for key in ("source", "tool_name", "tool_call_id", "llm_message"))
    if isinstance(value.get("action"), str) and "observation" not in value:
        return isinstance(value.get("args"), dict) or {"source", "message"} <= value.keys()
    is_observation = isinstance(value.get("observation"), str) and "content" in value
    return is_observation and ("extras" in value or "cause" in value)


class OpenHandsEvents(Importer):
    """Reads conversations; events on lines of their own are one conversation together."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._events: list[Any] = []
        self._first = 0

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        if isinstance(record.value, dict) and _is_event(record.value):
            if self._events and record.value.get("id") == 0:
                yield from self.pause()
            self._first = self._first if self._events else record.number
            self._events.append(record.value)
            return
        yield from self.pause()
        yield _imported(record.value, record.number, record.place)

    def pause(self) -> Iterator[Imported]:
        events, self._events = self._events, []
        if events:
            yield _imported(events, self._first, self._name)

    def is_idle(self) -> bool:
        return not self._events


def _imported(value: Json, number: int, place: str) -> Imported:
    holder = fields_of(value)
    lists = (structure_from_text(holder.get(key)) for key in _LISTS)
    events = value if isinstance(value, list) else next(x for x in lists if isinstance(x, list))
    found = _OpenHandsStream().transcript([inner for each in events for inner in _flat(each)])
    found.case_id = first_identifier(holder, *_CASE_KEYS)
    found.usage = _spent(holder.get("metrics")) or found.usage
    return found.imported(number, place)


def _spent(metrics: Json) -> dict[str, Json]:
    told = fields_of(metrics)
    return usage_and_cost(told.get("accumulated_token_usage"), told.get("accumulated_cost"))


class _OpenHandsStream:
    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._told = Transcript()

    def transcript(self, events: list[Any]) -> Transcript:
        for raw in events:
            if not isinstance(raw, dict):
                self._told.events.append(unrecognised("event", raw))
                continue
            at = milliseconds(raw.get("timestamp"))
            found = self._read(raw)
            self._told.events += [{**each, "ts": at} if at is not None else each for each in found]
            self._told.usage = _spent(raw.get("llm_metrics")) or self._told.usage
        return self._told

    def _read(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        kind = raw.get("kind")
        if isinstance(kind, str) and kind in _TYPED:
            return _TYPED[kind](self, raw)
        if isinstance(raw.get("action"), str):
            action = raw["action"]
            args = fields_of(raw.get("args"))
            thought = text(args.get("thought"))
            if action == "message":
                return [message(_speaker(raw), args.get("content"))]
            if action == "system":
                self._told.tools = tool_names(args.get("tools")) or self._told.tools
                return [message("system", args.get("content"))]
            if action == "think":
                return [reasoning(args.get("thought"))]
            if action in ("finish", "reject"):
                asked = self._asked(fields_of(raw.get("tool_call_metadata")), None)
                said = [args.get("final_thought"), args.get("message"), _in(asked, "message")]
                said += [_in(args.get("outputs"), "content"), thought]
                answer = next(filter(text, [*said, raw.get("message")]), None)
                return [message("assistant", answer)] if answer else []
            if action in _INTERNAL:
                return []
            about = fields_of(raw.get("tool_call_metadata"))
            call_id = first_identifier(about, "tool_call_id") or identifier(raw.get("id"))
            if call_id:
                self._calls[str(raw.get("id"))] = call_id
            asked = self._asked(about, call_id)
            given = {key: value for key, value in args.items() if key not in _HOUSEKEEPING}
            return [
                *([message("assistant", thought)] if thought else []),
                tool_call(call_id, about.get("function_name") or action, asked or given),
            ]
        if isinstance(raw.get("observation"), str):
            kind = raw["observation"]
            extras = fields_of(raw.get("extras"))
            if kind == "agent_state_changed" and extras.get("agent_state") == "error":
                self._told.failure = _failure(extras.get("reason") or raw.get("message"))
            if kind in _INTERNAL:
                return []
            made = raw.get("tool_call_metadata")
            call_id = _in(made, "tool_call_id") or self._calls.get(str(raw.get("cause")))
            code = _in(extras.get("metadata"), "exit_code", extras.get("exit_code"))
            failed = kind in ("error", "user_rejected") or (isinstance(code, int) and code > 0)
            status = "error" if failed or raw.get("success") is False else "ok"
            return [tool_result(call_id, _in(made, "function_name"), raw.get("content"), status)]
        return []

    def _asked(self, about: dict[str, Any], call_id: str | None) -> Json:
        """The arguments as the model gave them, where its answer was recorded."""
        response = fields_of(about.get("model_response"))
        model = text(response.get("model"))
        if model and model not in self._told.models:
            self._told.models.append(model)
        choices = response.get("choices")
        first = fields_of(choices[0]) if isinstance(choices, list) and choices else {}
        answer = first.get("message")
        calls = events_of(answer) if isinstance(answer, dict) else []
        asked = [each for each in calls if each["type"] == "tool_call"]
        named = [each["args"] for each in asked if call_id in (None, each["call_id"])]
        return named[0] if named else None

    def said(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        inner = fields_of(raw.get("llm_message"))
        self._told.models += [name for name in [text(raw.get("model"))] if name]
        return events_of({**inner, "role": _speaker(raw, inner.get("role"))})

    def prompted(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        prompt = raw.get("system_prompt")
        self._told.tools = tool_names(raw.get("tools")) or self._told.tools
        return [message("system", _in(prompt, "text", prompt))]

    def acted(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        action = fields_of(raw.get("action"))
        given = {key: value for key, value in action.items() if key not in _HOUSEKEEPING}
        asked = raw.get("tool_call")
        inner = _in(asked, "function") or asked
        args = arguments(_in(inner, "arguments")) or given
        name = text(raw.get("tool_name")) or _in(inner, "name") or action.get("kind")
        thought = plain_content(raw.get("thought"))
        events = [reasoning(raw["reasoning_content"])] if text(raw.get("reasoning_content")) else []
        events += [message("assistant", thought)] if thought else []
        if name == "think":
            return [*events, reasoning(_in(args, "thought"))]
        if name == "finish":
            return [*events, message("assistant", _in(args, "message") or readable(thought))]
        return [*events, tool_call(raw.get("tool_call_id"), name, args)]

    def observed(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        if raw.get("tool_name") in ("finish", "think"):
            return []
        found = raw.get("observation")
        fields = fields_of(found)
        refused = text(raw.get("error")) or text(raw.get("rejection_reason"))
        payload = refused or _content(fields) or found
        code = fields.get("exit_code", _in(fields.get("metadata"), "exit_code"))
        failed = refused or fields.get("is_error") or fields.get("error")
        failed = failed or (isinstance(code, int) and code > 0)
        status = "error" if failed else "ok"
        return [tool_result(raw.get("tool_call_id"), raw.get("tool_name"), payload, status)]

    def passed_over(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        """What is between the framework and itself."""
        del raw
        return []

    def ended(self, raw: dict[str, Any]) -> list[CanonicalEvent]:
        """The conversation broke off."""
        self._told.failure = _failure(raw.get("detail") or raw.get("error") or raw.get("code"))
        return []


def _content(fields: dict[str, Any]) -> Json:
    for key in ("content", "output", "error"):
        if fields.get(key):
            return plain_content(fields[key])
    return {key: value for key, value in fields.items() if key != "kind"} or None


def _speaker(raw: dict[str, Any], role: Json = None) -> str:
    source = raw.get("source")
    if source == "agent":
        return "assistant"
    return "system" if source == "environment" else text(role) or "user"


def _in(holder: Json, key: str, default: Json = None) -> Json:
    return holder.get(key, default) if isinstance(holder, dict) else default


def _failure(reason: Json) -> dict[str, Any]:
    return {"class": "agent_error", "error_message": text_of(reason)}


_TYPED: dict[str, Callable[[_OpenHandsStream, dict[str, Any]], list[CanonicalEvent]]] = {
    "MessageEvent": _OpenHandsStream.said,
    "SystemPromptEvent": _OpenHandsStream.prompted,
    "ActionEvent": _OpenHandsStream.acted,
    "ObservationEvent": _OpenHandsStream.observed,
    "AgentErrorEvent": _OpenHandsStream.observed,
    "UserRejectObservation": _OpenHandsStream.observed,
    "ConversationErrorEvent": _OpenHandsStream.ended,
    "ConversationStateUpdateEvent": _OpenHandsStream.passed_over,
    "Condensation": _OpenHandsStream.passed_over,
    "CondensationRequest": _OpenHandsStream.passed_over,
    "PauseEvent": _OpenHandsStream.passed_over,
    "TokenEvent": _OpenHandsStream.passed_over,
}
