"""Telemetry of the host: metrics for Prometheus, logs as JSON lines, traces for OpenTelemetry."""
