"""Spans as exporters write them: OTLP JSON, its snake-case form, and the SDKs' console form."""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import msgspec

from evalwright.trace.importers.values import (
    fields_of,
    identifier,
    milliseconds,
    objects_in,
    text,
    whole_number,
)
from evalwright.trace.model import Json

_HEX = frozenset("0123456789abcdefABCDEF")
_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR", "ERROR", "StatusCode.ERROR")
_SPAN_KEYS = ("spanId", "span_id")
_TRACEBACK = "Traceback (most recent call last)"
_LONGEST_ERROR = 2000


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that a span, or a log record that belongs to one, says happened in it."""

    name: str
    attributes: dict[str, Json]
    body: Json = None
    at: float | None = None


class Span(msgspec.Struct, frozen=True):
    """One operation; times are in ms since the epoch."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: float | None
    end: float | None
    attributes: dict[str, Json]
    resource: dict[str, Json] = {}
    events: list[SpanEvent] = []
    failed: bool = False
    failure: str | None = None
    dropped: int = 0  # attributes and events that a limit of the SDK cut off, where that is told
    scope: str = ""  # the instrumentation that made it, where that is told

    def error_text(self) -> str | None:
        """What the status or the recorded exception says of a failure."""
        given = [each.attributes.get("exception.message") for each in self.events]
        found = self.failure or next((found for found in given if text(found)), None)
        return found and short_error(found)

    def error_type(self) -> str | None:
        """The class of the error, where it is known."""
        given = [self.attributes.get("error.type")]
        given += [each.attributes.get("exception.type") for each in self.events]
        return next((found for found in given if text(found)), None)


def short_error(error: str) -> str:
    """An error without the calls that led to it, where it says something before them."""
    said = error.partition(_TRACEBACK)[0].strip()
    return (said or error)[:_LONGEST_ERROR]


class Stretches:
    """The times that some spans took; any number of others can be held against them."""

    def __init__(self, spans: Iterable[Span]) -> None:
        known = [(x.start, x.end) for x in spans if x.start is not None and x.end is not None]
        known.sort()
        self._starts = [start for start, _ in known]
        self._ends = list(accumulate((end for _, end in known), max))  # of all that began so far

    def hold(self, span: Span) -> bool:
        """Whether a span began and ended while one of them went on."""
        if span.start is None or span.end is None:
            return False
        place = bisect_right(self._starts, span.start)
        return place > 0 and span.end <= self._ends[place - 1]


class LogRecord(msgspec.Struct, frozen=True):
    """An event that was exported as a log record, with the span it belongs to."""

    trace_id: str
    span_id: str | None
    event: SpanEvent


def span_of_logs(trace_id: str, span_id: str | None, events: list[SpanEvent]) -> Span:
    """The model call that log records tell of whose span was not exported."""
    times = [event.at for event in events if event.at is not None]
    return Span(
        trace_id=trace_id,
        span_id=span_id or "",
        parent_id=None,
        name="",
        start=min(times, default=None),
        end=max(times, default=None),
        attributes={"gen_ai.operation.name": "chat"},
        events=events,
    )


def spans_of(document: dict[str, Any]) -> Iterator[Span | LogRecord]:
    """All spans and log records of an export request, or the one span that a record is."""
    if is_span(document):
        resource = document.get("resource")
        yield _span(document, _attributes(resource), _scope_of(document))
        return
    for resource, scope, each in _scoped(document, "Spans", "spans"):
        yield _span(each, resource, scope)
    for _, _, each in _scoped(document, "Logs", "logRecords"):
        attributes = _attributes(each)
        name = text(_get(each, "eventName")) or text(attributes.get("event.name")) or ""
        at = milliseconds(_get(each, "timeUnixNano", "observedTimeUnixNano"))
        event = SpanEvent(name, attributes, _value(each.get("body")), at)
        yield LogRecord(_id(_get(each, "traceId")) or "", _id(_get(each, "spanId")), event)


def _scoped(
    document: dict[str, Any], kind: str, leaf: str
) -> Iterator[tuple[dict[str, Json], str, dict[str, Any]]]:
    for group in _members(document, f"resource{kind}"):
        resource = _attributes(group.get("resource"))
        for scope in _members(group, f"scope{kind}"):
            name = _scope_of(scope)
            for each in _members(scope, leaf):
                yield resource, name, each


def _scope_of(holder: dict[str, Any]) -> str:
    return text(fields_of(holder.get("scope")).get("name")) or ""


def _members(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return objects_in(holder.get(key, holder.get(_snake(key))))


def _snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


def _get(holder: dict[str, Any], *keys: str) -> Json:
    """The first of some keys that is there, in camel case or in snake case."""
    spellings = (spelling for key in keys for spelling in (key, _snake(key)))
    return next((holder[each] for each in spellings if holder.get(each) is not None), None)


def _span(raw: dict[str, Any], resource: dict[str, Json], scope: str) -> Span:
    ids = {**raw, **fields_of(raw.get("context"))}
    status, parent = fields_of(raw.get("status")), raw.get("parent")
    if isinstance(parent, dict):  # test exporters write its context
        parent_id = _id(_get(parent, "spanId"))
    else:
        parent_id = _id(_get(raw, "parentSpanId", "parentId"))
    events = [
        SpanEvent(
            text(each.get("name")) or "",
            _attributes(each),
            _value(each.get("body")),
            milliseconds(_get(each, "timeUnixNano", "timestamp")),
        )
        for each in _members(raw, "events")
    ]
    if status:
        failed = _get(status, "code", "statusCode") in _ERROR_CODES
    else:  # without one, a failure is told by the exception that ended the span
        escaped = (each.attributes.get("exception.escaped") for each in events)
        failed = any(str(each).lower() == "true" for each in escaped)
    return Span(
        trace_id=_id(_get(ids, "traceId")) or "",
        span_id=_id(_get(ids, "spanId")) or "",
        parent_id=parent_id,
        name=text(raw.get("name")) or "",
        start=milliseconds(_get(raw, "startTimeUnixNano", "startTime")),
        end=milliseconds(_get(raw, "endTimeUnixNano", "endTime")),
        attributes=_attributes(raw),
        resource=resource,
        events=events,
        failed=failed,
        failure=text(_get(status, "message", "description")),
        dropped=sum(
            whole_number(_get(raw, f"dropped{each}Count")) or 0 for each in ("Attributes", "Events")
        ),
        scope=scope,
    )


def _id(value: Json) -> str | None:
    """An id in hex: SDKs write `0x` before it, generic protobuf printers write base64."""
    found = identifier(value)
    if found is None or _HEX.issuperset(found):
        return found and found.lower()
    if found[:2] == "0x":
        return found[2:].lower() or None
    try:
        decoded = base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError):
        return found
    return decoded.hex() if len(decoded) in (8, 16) else found


def _attributes(holder: Json) -> dict[str, Json]:
    raw = fields_of(holder).get("attributes")
    return raw if isinstance(raw, dict) else _pairs(raw)


def _pairs(raw: Json) -> dict[str, Json]:
    return {
        each["key"]: _value(each.get("value"))
        for each in objects_in(raw)
        if isinstance(each.get("key"), str)
    }


def _value(raw: Json) -> Json:
    """A typed value of OTLP as a plain one; what is not typed is taken as it is."""
    if not isinstance(raw, dict) or len(raw) != 1:
        return None if raw == {} else raw
    ((kind, value),) = raw.items()
    match kind:
        case "intValue" | "int_value":
            return value if (found := whole_number(value)) is None else found
        case "arrayValue" | "array_value":
            values = fields_of(value).get("values")
            return [_value(each) for each in values] if isinstance(values, list) else []
        case "kvlistValue" | "kvlist_value":
            return _pairs(fields_of(value).get("values"))
        case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
            return value
        case "string_value" | "bool_value" | "double_value" | "bytes_value":
            return value
    return raw


def is_span(value: dict[str, Any]) -> bool:
    """Whether a record is a single span, as the SDKs' console exporters write them."""
    context = value.get("context")
    holders = (value, context) if isinstance(context, dict) else (value,)
    return "name" in value and any(key in holder for holder in holders for key in _SPAN_KEYS)
