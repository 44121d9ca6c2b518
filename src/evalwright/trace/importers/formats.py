"""Which of the formats a record is written in."""

from typing import Any

from evalwright.contracts.jsonvalue import NotJson
from evalwright.trace.importers.values import parse_bounded
from evalwright.trace.model import Json

AGENT_TRACES = "agent-traces"
OTEL_GENAI = "otel-genai"
OPENINFERENCE = "openinference"
MESSAGES = "messages"

_OTLP_KEYS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_SPAN_KEYS = ("spanId", "span_id")
_TRACE_KEYS = ("events", "runner_failure", "final_output")
_MESSAGE_KEYS = ("messages", "request", "response", "input", "output", "items", "choices", "body")
_LIST_KEYS = ("records", "data", "logs", "conversations", "traces", "spans")
_OPENINFERENCE_MARK = b"openinference.span.kind"


def recognise(first: bytes, name: str) -> str | None:
    """The format of a file by its beginning, or None.

    `first` is the first line, or as much of the file as is at hand. What a file is called does not
    matter, unless it is compressed: that is for the caller to undo.
    """
    if name.endswith((".gz", ".zst", ".zip")) and not first.lstrip()[:1].isascii():
        return None
    line = first.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0]
    found = None
    for source in (first.removeprefix(b"\xef\xbb\xbf"), line):
        found = found or _format_of_text(source)
    found = found or _by_marks(first)
    if found == OTEL_GENAI and _OPENINFERENCE_MARK in first:
        return OPENINFERENCE
    return found


def format_of(value: Json) -> str | None:
    """The format of a record or of the first of many; all spans are `otel-genai` here."""
    inner = wrapped_records(value)
    return record_format(inner[0] if inner else value)


def record_format(value: Json) -> str | None:
    """The format of a value that is a record itself, not a document of several."""
    if isinstance(value, list) and is_message_list(value):
        return MESSAGES
    return _own_format(value) if isinstance(value, dict) else None


def _own_format(value: dict[str, Any]) -> str | None:
    if any(key in value for key in _OTLP_KEYS) or is_span(value):
        return OTEL_GENAI
    if any(key in value for key in _TRACE_KEYS):
        return AGENT_TRACES
    if any(isinstance(value.get(key), dict | list | str) for key in _MESSAGE_KEYS):
        return MESSAGES
    return None


def is_span(value: dict[str, Any]) -> bool:
    """Whether a record is a single span, as the SDKs' console exporters write them."""
    context = value.get("context")
    holders = (value, context) if isinstance(context, dict) else (value,)
    return "name" in value and any(key in holder for holder in holders for key in _SPAN_KEYS)


def is_message_list(value: list[Any]) -> bool:
    """Whether a list is one conversation and not a list of records."""
    first = value[0] if value else None
    return isinstance(first, dict) and (
        isinstance(first.get("role"), str)
        or (isinstance(first.get("type"), str) and not any(key in first for key in _MESSAGE_KEYS))
    )


def wrapped_records(value: Json) -> list[Any] | None:
    """The list of records that a document is or wraps, where it is such a document."""
    if isinstance(value, list):
        return None if is_message_list(value) else value
    if not isinstance(value, dict) or _own_format(value):
        return None
    return next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)


def _format_of_text(source: bytes) -> str | None:
    try:
        return format_of(parse_bounded(source))
    except NotJson:
        return None


def _by_marks(beginning: bytes) -> str | None:
    """The format of a document of which only the beginning is at hand."""
    keys = {b'"%s"' % key.encode(): OTEL_GENAI for key in _OTLP_KEYS}
    keys |= {b'"events"': AGENT_TRACES, b'"messages"': MESSAGES, b'"role"': MESSAGES}
    places = {key: beginning.find(key) for key in keys}
    seen = {place: keys[key] for key, place in places.items() if place >= 0}
    return seen[min(seen)] if seen else None
