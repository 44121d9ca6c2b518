"""Logs of chat APIs: conversations, and the requests and responses that one is made of."""

from collections.abc import Iterator
from typing import Any

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent
from evalwright.trace.importers.chat_dialects import models_of, spent_in
from evalwright.trace.importers.dialogue import Dialogue
from evalwright.trace.importers.messages import events_of_messages, plain_content
from evalwright.trace.importers.records import (
    Imported,
    Importer,
    ImportRecord,
    NamedBy,
    digest_of,
    faulty,
    numbered,
    words_of_user,
)
from evalwright.trace.importers.values import (
    fields_of,
    first_identifier,
    structure_from_text,
    sum_usage,
    text,
    tool_names,
    usage_of,
)
from evalwright.trace.model import Json, text_of

_CONVERSATION_KEYS = ("case_id", "custom_id", "conversation_id", "session_id", "thread_id")
_CASE_KEYS = ("case_id", "id", *_CONVERSATION_KEYS[1:])
_MOST_WAITING = 16  # conversations whose requests may be mixed in a log
_REQUEST_KEYS = ("request", "body", "input")
_RESPONSE_KEYS = ("response", "output")
_MESSAGE_KEYS = ("messages", "input", "items")


class _Exchange(msgspec.Struct, frozen=True):
    """What one record says: the conversation up to the answer, the answer, and about both."""

    record: ImportRecord
    case_id: str | None
    conversation: str | None  # the id that its requests share, which that of one request is not
    history: Json
    answer: Json
    request: dict[str, Any]
    response: dict[str, Any]
    usage: dict[str, Any] = {}


class MessageLogs(Importer):
    """Reads records one by one; exchanges that may go on in later records wait for these."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._waiting: list[_Exchange] = []  # in the order in which they began

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        """Take a record; gives the cases that have ended with it or before it."""
        exchange = _exchange(record)
        if exchange is None:
            yield from self.pause()
            fault = (
                f"{record.place}: holds no messages, neither as a list `messages` nor in `request` "
                "and `response`; see docs/trace-formats.md"
            )
            case_id = first_identifier(fields_of(record.value), *_CASE_KEYS)
            found = faulty(record.number, fault)
            yield (msgspec.structs.replace(found, case_id=case_id) if case_id else found)
            return
        for place in range(len(self._waiting) - 1, -1, -1):
            joined = _joined(self._waiting[place], exchange)
            if joined is not None:
                self._waiting[place] = joined
                return
        self._waiting.append(exchange)
        while len(self._waiting) > _MOST_WAITING or any(
            each.answer is None for each in self._waiting[:1]
        ):
            yield _imported(self._waiting.pop(0))

    def pause(self) -> Iterator[Imported]:
        waiting, self._waiting = self._waiting, []
        yield from map(_imported, waiting)

    def is_idle(self) -> bool:
        return not self._waiting


def _exchange(record: ImportRecord) -> _Exchange | None:
    value = record.value
    if isinstance(value, list):
        return _Exchange(record, None, None, value, None, {}, {}, spent_in(value)[0])
    request, history = _request(value)
    response, answer = _response(value)
    if history is None and answer is None and not isinstance(response.get("error"), dict):
        return None
    told = first_identifier(fields_of(value.get("metadata")), "case_id")
    case_id = first_identifier(value, "case_id") or told or first_identifier(value, *_CASE_KEYS)
    conversation = told or first_identifier(value, *_CONVERSATION_KEYS)
    usage = usage_of(response) or usage_of(request) or spent_in(history)[0]
    return _Exchange(record, case_id, conversation, history, answer, request, response, usage)


def _request(record: dict[str, Any]) -> tuple[dict[str, Any], Json]:
    if _messages_in(record) is not None:
        return record, _messages_in(record)
    for key in _REQUEST_KEYS:
        inner = record.get(key)
        if isinstance(inner, dict):
            found = inner.get("body") if isinstance(inner.get("body"), dict) else inner
            if isinstance(found, dict) and _messages_in(found) is not None:
                return found, _messages_in(found)
    return record, None


def _messages_in(holder: dict[str, Any]) -> Json:
    """A list of messages, or a single text in its place."""
    for value in map(holder.get, _MESSAGE_KEYS):
        found = structure_from_text(value)  # a list may have been written as text
        if isinstance(found, list) and found and all(isinstance(each, dict) for each in found):
            return found
        if isinstance(value, list | str):
            return value
    return None


def _response(record: dict[str, Any]) -> tuple[dict[str, Any], Json]:
    for key in _RESPONSE_KEYS:
        inner = record.get(key)
        if isinstance(inner, dict):
            found = inner["body"] if isinstance(inner.get("body"), dict) else inner
            return found, _answer_in(found)
        if isinstance(inner, list | str):
            return {}, _as_assistant(inner)
    return record, _answer_in(record)


def _answer_in(response: dict[str, Any]) -> Json:
    choices = response.get("choices")
    if isinstance(choices, list):
        first = choices[0] if choices else None
        return first.get("message", first) if isinstance(first, dict) else first
    if isinstance(response.get("output"), list | str):
        return _as_assistant(response["output"])
    if isinstance(response.get("message"), dict):
        return response["message"]
    return response if isinstance(response.get("role"), str) else None


def _as_assistant(value: Json) -> Json:
    return {"role": "assistant", "content": value} if isinstance(value, str) else value


def _joined(before: _Exchange, after: _Exchange) -> _Exchange | None:
    """Both as one, if the later request is the next step of the same agent.

    It is if it repeats the earlier one and the answer to it, or names this answer as the previous.
    """
    if before.answer is None or before.conversation != after.conversation:
        return None
    history = after.history
    previous = text(after.request.get("previous_response_id"))
    if previous and previous == before.response.get("id"):
        history = _as_list(before.history) + _as_list(before.answer) + _as_list(history)
    elif not _repeats(before, after):
        return None
    spent = sum_usage([before.usage, after.usage])
    return msgspec.structs.replace(
        after, record=before.record, case_id=before.case_id, history=history, usage=spent
    )


def _repeats(before: _Exchange, after: _Exchange) -> bool:
    old, new = _as_list(before.history), _as_list(after.history)
    if len(new) <= len(old) or not old:
        return False
    if any(
        one != other and _said(one) != _said(other) for one, other in zip(old, new, strict=False)
    ):
        return False
    answered = _said(before.answer)
    return bool(answered) and _said(new[len(old) :])[: len(answered)] == answered


def _as_list(value: Json) -> list[Any]:
    """Messages as a list, also where there is one text or one message in its place."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return value if isinstance(value, list) else [] if value is None else [value]


def _said(messages: Json) -> list[CanonicalEvent]:
    """What messages say, without what a request may leave out when it repeats them."""
    return [
        {key: event[key] for key in event if key != "ts"}
        for event in events_of_messages(messages)
        if "reasoning" not in event and event.get("content") != ""
    ]


def _imported(exchange: _Exchange) -> Imported:
    dialogue = Dialogue()
    found = (exchange.request.get(key) for key in ("system", "instructions"))
    for instruction in [
        text_of(plain_content(each)) for each in found if isinstance(each, list) or text(each)
    ]:
        dialogue.instruct(instruction)
    # The conversation; an answer that stands beside it as well is the same answer.
    told, answered = events_of_messages(exchange.history), events_of_messages(exchange.answer)
    last = [{**each, "ts": None} for each in told[-len(answered) :]]
    is_told = last == [{**each, "ts": None} for each in answered]
    for event in told if is_told else told + answered:
        dialogue.add(event)
    extras: dict[str, Any] = {}
    if names := tool_names(exchange.request.get("tools") or exchange.request.get("functions")):
        extras["tools_offered"] = names
    if exchange.usage:
        extras["usage"] = exchange.usage
    models = models_of([exchange.response]) or models_of([exchange.request])
    if models := models or spent_in(exchange.history)[1]:
        extras["models"] = models
    error = exchange.response.get("error")
    if exchange.answer is None and isinstance(error, dict):
        extras["runner_failure"] = {
            "class": "http_error",
            "error_name": error.get("type") or error.get("code"),
            "error_message": error.get("message"),
        }
    ids = fields_of(exchange.record.value)
    named_by: NamedBy = "case_id"
    if exchange.case_id is None:
        named_by = "place"
    elif exchange.case_id == first_identifier(ids, *_CONVERSATION_KEYS[2:]):
        named_by = "conversation"
    case_id = exchange.case_id or numbered(exchange.record.number)
    response = dialogue.response(case_id, extras)
    return Imported(
        case_id,
        response,
        first_identifier(ids, "base_case_id"),
        first_identifier(ids, "trace_id"),
        named_by=named_by,
        asked=digest_of(words_of_user(response)),
    )
