"""Sends spans to an OpenTelemetry collector; needs the extra `otel`."""

import threading

import msgspec
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from evalwright import __version__
from evalwright.host.telemetry.trace_context import TraceContext
from evalwright.host.telemetry.traces import RunSpan

CLOSE_SECONDS = 5.0  # a collector that does not answer must not delay the shutdown
_UNNAMED = "unknown_service"


class OtlpTracer:
    """Sends spans by OTLP over HTTP, in batches, from its own thread.

    The OTEL_ variables for headers, timeouts, batches, the sampler and the service name have their
    usual meaning.
    """

    is_recording = True

    def __init__(self, traces_url: str | None) -> None:
        self._ids = _GivenIds()
        # The host's name and version; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
        ours = Resource({SERVICE_NAME: "evalwright", SERVICE_VERSION: __version__})
        theirs = Resource.create()
        is_named = not str(theirs.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED)
        self._provider = TracerProvider(
            resource=ours.merge(theirs) if is_named else theirs.merge(ours),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=traces_url)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("evalwright", __version__)

    def samples(self, trace_id: str) -> bool:
        sampler = self._provider.sampler
        result = sampler.should_sample(None, int(trace_id, 16), "openwop.run")
        return result.decision is Decision.RECORD_AND_SAMPLE

    def export(self, span: RunSpan) -> None:
        """Queue a span; a span that does not fit in the bounded queue is dropped."""
        context, parent = span.context, trace.INVALID_SPAN
        if span.parent_id is not None:
            within = msgspec.structs.replace(context, span_id=span.parent_id)
            parent = NonRecordingSpan(_span_context(within))
        self._ids.trace_id = int(context.trace_id, 16)
        self._ids.span_id = int(context.span_id, 16)
        sent = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(parent),
            attributes=span.attributes,
            links=[Link(_span_context(span.link))] if span.link else [],
            start_time=span.start_us * 1000,
        )
        if span.status == "error":
            sent.set_status(Status(StatusCode.ERROR))
        sent.end(span.end_us * 1000)

    def close(self) -> None:
        """Send the queued spans, waiting for a few seconds at most."""
        # The package itself waits until all its retries are over.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


class _GivenIds(IdGenerator):
    """Generates the ids of the span that is being sent."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


def _span_context(context: TraceContext) -> SpanContext:
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(context.sampled)),
        trace_state=TraceState.from_header([context.state] if context.state else []),
    )
