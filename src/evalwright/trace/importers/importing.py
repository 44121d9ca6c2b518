"""Reading a file of traces: each record by its own format, spans once all of them are known."""

from collections.abc import Iterable, Iterator

from evalwright.trace.importers.agent_traces import import_agent_trace
from evalwright.trace.importers.formats import (
    AGENT_TRACES,
    MESSAGES,
    OTEL_GENAI,
    record_format,
    wrapped_records,
)
from evalwright.trace.importers.imported import Imported, faulty
from evalwright.trace.importers.message_logs import MessageLogs
from evalwright.trace.importers.records import Record, read_records
from evalwright.trace.importers.span_groups import SpanGroups


def import_responses(chunks: Iterable[bytes], name: str) -> Iterator[Imported]:
    """The cases of a file of recorded traffic, in the order of the file.

    `chunks` are its lines, or blocks of it cut anywhere; `name` stands in faults. Lines are read
    one by one; only spans wait until the end, because a trace may be spread over the whole file.
    """
    spans, messages = SpanGroups(name), MessageLogs()
    for record in _unwrapped(read_records(chunks, name)):
        match _format(record):
            case "agent-traces":
                yield from messages.rest()
                yield import_agent_trace(record)
            case "messages":
                yield from messages.take(record)
            case "otel-genai":
                spans.take(record.value)
            case _:
                yield from messages.rest()
                yield _fault(record)
    yield from messages.rest()
    yield from spans.cases()


def _format(record: Record) -> str | None:
    return None if record.fault else record_format(record.value)


def _unwrapped(records: Iterable[Record]) -> Iterator[Record]:
    """Documents that hold many records, as these records."""
    number = 0
    for record in records:
        inner = None if record.fault else wrapped_records(record.value)
        if inner is None:
            number += 1
            yield Record(number, record.place, record.value, record.fault, record.head)
            continue
        for place, value in enumerate(inner):
            number += 1
            yield Record(number, f"{record.place}: [{place}]", value)


def _fault(record: Record) -> Imported:
    known = f"{AGENT_TRACES}, {OTEL_GENAI}, {MESSAGES}"
    fault = record.fault or (
        f"{record.place}: a record of no known format ({known}); see the page on trace formats"
    )
    return faulty(record.number, fault, record.head)
