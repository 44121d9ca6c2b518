"""Files with one message per line: lines that follow each other are one conversation."""

from collections.abc import Iterator
from typing import Any

import msgspec

from evalwright.trace.importers.chat_dialects import is_foreign_message
from evalwright.trace.importers.message_logs import MessageLogs
from evalwright.trace.importers.records import Imported, Importer, ImportRecord
from evalwright.trace.importers.values import first_identifier
from evalwright.trace.model import Json

_TALK = ("case_id", "conversation_id", "session_id", "sessionId", "thread_id", "run_id")
_SAID = ("content", "tool_calls", "parts", "function_call")
_ITEMS = (
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "mcp_call",
    "file_search_call",
)
_NOT_ALONE = ("messages", "request", "response", "choices", "body")
_OPERATOR = ("system", "developer")


def is_lone_message(value: Json) -> bool:
    """Whether a record is one message or item, also one that a session log wraps with its time."""
    if not isinstance(value, dict) or any(key in value for key in _NOT_ALONE):
        return False
    inner = value.get("message")
    if isinstance(inner, dict) and isinstance(inner.get("role"), str) and "choices" not in value:
        return any(key in value for key in ("type", "timestamp", *_TALK))
    if isinstance(value.get("role"), str):
        return any(key in value for key in _SAID)
    if value.get("type") in _ITEMS:
        return "call_id" in value or "id" in value
    return is_foreign_message(value)


class MessageLines(Importer):
    """Collects the messages of a conversation; a system prompt or another id begins the next."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._messages: list[dict[str, Any]] = []
        self._first: ImportRecord | None = None
        self._talk: str | None = None

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        message, talk = record.value, first_identifier(record.value, *_TALK)
        inner = message.get("message")
        if isinstance(inner, dict) and not isinstance(message.get("role"), str):
            message = {"timestamp": message.get("timestamp"), **inner}
        is_opening = _role(message) in _OPERATOR and any(
            _role(each) not in _OPERATOR for each in self._messages
        )
        if self._messages and (talk != self._talk or is_opening):
            yield from self.pause()
        if self._first is None:
            self._first, self._talk = record, talk
        self._messages.append(message)

    def pause(self) -> Iterator[Imported]:
        first, messages = self._first, self._messages
        self._first, self._messages = None, []
        if first is None:
            return
        value = {"case_id": self._talk, "messages": messages}
        logs = MessageLogs(self._name)
        yield from logs.read(msgspec.structs.replace(first, value=value))
        yield from logs.pause()

    def is_idle(self) -> bool:
        return not self._messages


def _role(message: dict[str, Any]) -> Json:
    return message.get("role") or message.get("type")
