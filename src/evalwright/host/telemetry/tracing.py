"""Where spans go: nowhere, unless an OTLP endpoint is configured."""

from collections.abc import Mapping
from typing import Protocol

from evalwright.contracts.errors import BadInput
from evalwright.host.telemetry.run_spans import Span

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracer(Protocol):
    """Takes finished spans; it is used by one thread."""

    @property
    def is_recording(self) -> bool:
        """Whether anybody wants spans at all."""

    def samples(self, trace_id: str) -> bool:
        """Whether a trace that begins here is to be recorded."""

    def export(self, span: Span) -> None:
        """Send a span, some time later; never waits, never raises."""

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""


class NoTracer:
    """Drops every span."""

    is_recording = False

    def samples(self, trace_id: str) -> bool:  # noqa: ARG002 - the protocol has it
        """No trace is recorded."""
        return False

    def export(self, span: Span) -> None:
        """Drop it."""

    def close(self) -> None:
        """There is nothing to send."""


def open_tracer(environment: Mapping[str, str], endpoint: str | None = None) -> Tracer:
    """A tracer for the configured endpoint, or the one that the usual OTEL_ variables name."""
    if _is_off(environment):
        return NoTracer()
    named = environment.get(_TRACES_ENDPOINT) or environment.get(_ENDPOINT)
    if not endpoint and not named:
        return NoTracer()
    _require_http(environment)
    try:
        from evalwright.host.telemetry.otlp import OtlpTracer
    except ImportError:
        raise BadInput(
            f"an OTLP endpoint is configured ({_ENDPOINT} or [host] of evalwright.toml), but the "
            "packages that send traces are missing: pip install 'evalwright[otel]'"
        ) from None
    return OtlpTracer(endpoint.rstrip("/") + "/v1/traces" if endpoint else None)


def _is_off(environment: Mapping[str, str]) -> bool:
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none"


def _require_http(environment: Mapping[str, str]) -> None:
    for name in _PROTOCOLS:
        protocol = environment.get(name, "").strip()
        if protocol not in ("", "http/protobuf"):
            raise BadInput(f"{name}={protocol}: traces are sent by http/protobuf; unset it")
