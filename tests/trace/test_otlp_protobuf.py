"""OTLP as protobuf is read as its JSON form is; what is no OTLP, or too much of it, is refused."""

import time
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from evalwright.trace.importers.otlp_protobuf import (
    Malformed,
    OversizedExport,
    logs_document,
    traces_document,
)
from evalwright.trace.importers.span_formats import spans_of

ENOUGH = 100_000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)
scalars = texts | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False)
lists = st.lists(texts) | st.lists(st.booleans()) | st.lists(numbers)
attributes = st.dictionaries(texts.filter(bool), scalars | lists, max_size=5)


def exported(*said: dict[str, Any]) -> ExportTraceServiceRequest:
    """What the exporter of OpenTelemetry sends of spans within each other, with an event each."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": "desk"}),
        span_limits=SpanLimits(max_span_attributes=3),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("a library", "1.0")
    for each in said:
        with tracer.start_as_current_span("größer", attributes=each) as span:
            span.add_event("gen_ai.choice", each)
            with tracer.start_as_current_span("inner") as inner:
                inner.set_status(Status(StatusCode.ERROR, "it broke"))
    return encode_spans(kept.get_finished_spans())


@given(st.lists(attributes, max_size=3))
def test_spans_are_the_same_as_in_json(said: list[dict[str, Any]]) -> None:
    request = exported(*said)
    read = list(spans_of(traces_document(request.SerializeToString(), ENOUGH)))
    assert read == list(spans_of(MessageToDict(request)))
    assert len(read) == 2 * len(said)


def test_log_records_are_the_same_as_in_json() -> None:
    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    body = {"role": "user", "parts": [{"n": -1, "deep": [1.5, None, True, b"\0"]}, "x"]}
    provider.get_logger("a library").emit(
        event_name="gen_ai.user.message", body=body, attributes={"gen_ai.system": "openai"}
    )
    request = encode_logs(kept.get_finished_logs())
    (read,) = spans_of(logs_document(request.SerializeToString(), ENOUGH))
    assert [read] == list(spans_of(MessageToDict(request)))
    assert read.event.name == "gen_ai.user.message"


@given(st.data())
def test_what_is_cut_off_or_changed_is_refused_or_read_and_nothing_else(data: Any) -> None:
    body = bytearray(exported({"a": "b", "n": -5, "l": ["x"]}).SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        document = traces_document(bytes(body[: data.draw(st.integers(0, len(body)))]), ENOUGH)
    except (Malformed, OversizedExport):
        return
    list(spans_of(document))


def test_every_cut_through_a_message_is_noticed() -> None:
    body = exported({"a": "b"}).SerializeToString()
    for size in range(1, len(body)):
        with pytest.raises(Malformed):
            traces_document(body[:size], ENOUGH)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff" * 20,
        b"\x0b",
        b"\x00\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0d\1",
    ],
    ids=["endless number", "group", "field 0", "length beyond the end", "short number"],
)
def test_what_is_no_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        traces_document(body, ENOUGH)


def test_a_million_attributes_are_refused_before_they_are_read() -> None:
    request = exported({})
    span = request.resource_spans[0].scope_spans[0].spans[0]
    one = span.attributes.add(key="k")
    one.value.int_value = 1
    pair = one.SerializeToString()
    many = (b"\x4a" + bytes([len(pair)]) + pair) * 1_000_000
    span_bytes = b"\x12" + _varint(len(many)) + many
    scope = b"\x12" + _varint(len(span_bytes)) + span_bytes
    body = b"\x0a" + _varint(len(scope)) + scope
    started = time.process_time()
    with pytest.raises(OversizedExport, match="too many fields"):
        traces_document(body, ENOUGH)
    assert time.process_time() - started < 2


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value = b"\x0a\x01x"
    for _ in range(100):
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x2a" + _varint(len(inner)) + inner
    pair = b"\x0a\x01k\x12" + _varint(len(value)) + value
    resource = b"\x0a" + _varint(len(pair)) + pair
    holder = b"\x0a" + _varint(len(resource)) + resource
    with pytest.raises(OversizedExport, match="nested more than 32 levels"):
        traces_document(b"\x0a" + _varint(len(holder)) + holder, ENOUGH)


def _varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
