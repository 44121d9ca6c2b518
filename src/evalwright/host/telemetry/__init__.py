"""Telemetry of the host: metrics for Prometheus, logs as JSON lines, traces for OpenTelemetry."""

from evalwright.host.telemetry.facts import ForkOrigin
from evalwright.host.telemetry.logs import AnsweredRequest, audit, logging_to
from evalwright.host.telemetry.metrics import CONTENT_TYPE, Metrics
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from evalwright.host.telemetry.trace_context import TraceContext, new_trace, read_trace

__all__ = [
    "CONTENT_TYPE",
    "AnsweredRequest",
    "ForkOrigin",
    "Metrics",
    "RunOrigin",
    "Telemetry",
    "TraceContext",
    "audit",
    "logging_to",
    "new_trace",
    "read_trace",
]
