"""Spans of a run, made from its events (names, times, numbers, never content), and the tracer."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import Event
from evalwright.host.telemetry.facts import (
    ActivityEnded,
    Fact,
    ForkOrigin,
    NodeBegan,
    NodeEnded,
    RunEnded,
)
from evalwright.host.telemetry.trace_context import (
    TraceContext,
    derived_span_id,
    derived_trace_id,
)

Attribute = str | int | float | bool


class RunSpan(msgspec.Struct, frozen=True):
    """A finished span."""

    name: str
    context: TraceContext
    parent_id: str | None  # None: the root of its trace
    start_us: int
    end_us: int
    attributes: dict[str, Attribute]
    status: Literal["unset", "error"] = "unset"
    link: TraceContext | None = None


class RunSpans:
    """Turns the facts of one run into spans.

    Span ids are derived from the run and the sequence of the event they start with, so a span sent
    before a crash fits the parent sent after it.
    """

    def __init__(
        self,
        run_id: str,
        parent: TraceContext | None,
        fork: ForkOrigin | None = None,
        *,
        is_sampled: bool = True,
    ) -> None:
        self._run_id = run_id
        self._parent_id = parent.span_id if parent else None
        self._fork = fork
        self.context = TraceContext(
            trace_id=parent.trace_id if parent else derived_trace_id(run_id),
            span_id=derived_span_id(run_id, "run"),
            sampled=parent.sampled if parent else is_sampled,
            state=parent.state if parent else "",
        )

    def span(self, fact: Fact, workflow_id: str, began_us: int | None) -> RunSpan | None:
        """The span that a fact ends, if any."""
        shared: dict[str, Attribute] = {
            "openwop.run_id": self._run_id,
            "openwop.workflow_id": workflow_id,
        }
        match fact:
            case NodeEnded():
                return self._node(fact, shared)
            case ActivityEnded():
                return self._activity(fact, shared)
            case RunEnded():
                return self._run(fact, shared, fact.at_us if began_us is None else began_us)
            case _:
                return None

    def append(self, workflow_id: str, first: Event, last: Event, durable_us: int) -> RunSpan:
        """The span of an append, which ends when the append is confirmed durable."""
        return RunSpan(
            "openwop.event.append",
            self._at(f"append-{last.sequence}"),
            self.context.span_id,
            first.at_us,
            max(first.at_us, durable_us),
            {
                "openwop.run_id": self._run_id,
                "openwop.workflow_id": workflow_id,
                "openwop.event_type": last.type,
                "openwop.event_seq": last.sequence,
            },
        )

    def _at(self, part: str) -> TraceContext:
        return msgspec.structs.replace(self.context, span_id=derived_span_id(self._run_id, part))

    def _node_context(self, began: NodeBegan) -> TraceContext:
        return self._at(f"node-{began.sequence}")

    def _node(self, fact: NodeEnded, shared: dict[str, Attribute]) -> RunSpan:
        began = fact.began
        return RunSpan(
            f"openwop.node.{began.node_type}",
            self._node_context(began),
            self.context.span_id,
            began.at_us,
            max(began.at_us, fact.at_us),
            shared
            | {
                "openwop.node_id": began.node_id,
                "openwop.node_type": began.node_type,
                "openwop.node_attempt": began.attempt,
                "openwop.event_seq": fact.sequence,
            },
            "unset" if fact.status == "completed" else "error",
        )

    def _activity(self, fact: ActivityEnded, shared: dict[str, Attribute]) -> RunSpan:
        """A call; without a recorded duration it is a point in time."""
        within = self._node_context(fact.within) if fact.within else self.context
        took_us = round((fact.seconds or 0) * 1e6)
        node = {"openwop.node_id": fact.node_id} if fact.node_id else {}
        return RunSpan(
            f"openwop.activity.{fact.provider}",
            self._at(f"activity-{fact.sequence}"),
            within.span_id,
            fact.at_us - took_us,
            fact.at_us,
            shared | node | {"openwop.event_seq": fact.sequence} | _cost(fact),
            "error" if fact.status == "error" else "unset",
        )

    def _run(self, fact: RunEnded, shared: dict[str, Attribute], began_us: int) -> RunSpan:
        fork = self._fork
        code = {"error.type": fact.error_code} if fact.error_code else {}
        return RunSpan(
            "openwop.run",
            self.context,
            self._parent_id,
            began_us,
            max(began_us, fact.at_us),
            shared | {"openwop.run_status": fact.status} | code | _replay(fork),
            "error" if fact.status == "failed" else "unset",
            fork.source if fork else None,
        )


def _cost(fact: ActivityEnded) -> dict[str, Attribute]:
    usage = fact.usage
    if usage is None or fact.is_repeated:
        return {}
    cost: dict[str, Attribute] = {
        "openwop.cost.provider": fact.provider,
        "openwop.cost.tokens.input": usage.input_tokens,
        "openwop.cost.tokens.output": usage.output_tokens,
        "openwop.cost.tokens.total": usage.input_tokens + usage.output_tokens,
    }
    if usage.usd is not None:
        cost |= {"openwop.cost.usd": usage.usd, "openwop.cost.currency": "USD"}
    return cost


def _replay(fork: ForkOrigin | None) -> dict[str, Attribute]:
    if fork is None:
        return {}
    return {
        "openwop.replay.source_run_id": fork.source_run_id,
        "openwop.replay.from_seq": fork.from_seq,
        "openwop.replay.mode": fork.mode,
    }


_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracer(Protocol):
    """Takes finished spans; used by one thread."""

    @property
    def is_recording(self) -> bool:
        """Whether spans are recorded at all."""

    def samples(self, trace_id: str) -> bool:
        """Whether a trace that starts here is recorded."""

    def export(self, span: RunSpan) -> None:
        """Send a span later; does not block and does not raise."""

    def close(self) -> None:
        """Send the remaining spans, for a few seconds at most."""


class NoTracer:
    """Drops every span."""

    is_recording = False

    def samples(self, trace_id: str) -> bool:  # noqa: ARG002 - the protocol has it
        """No trace is recorded."""
        return False

    def export(self, span: RunSpan) -> None:
        """Drop it."""

    def close(self) -> None:
        """Nothing to send."""


def open_tracer(environment: Mapping[str, str], endpoint: str | None = None) -> Tracer:
    """A tracer for the configured endpoint, or for the one named by the OTEL_ variables."""
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
            "packages to send traces are not installed: pip install 'PATH_TO_THE_CLONE[otel]'"
        ) from None
    return OtlpTracer(endpoint.rstrip("/") + "/v1/traces" if endpoint else None)


def _is_off(environment: Mapping[str, str]) -> bool:
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none"


def _require_http(environment: Mapping[str, str]) -> None:
    for name in _PROTOCOLS:
        protocol = environment.get(name, "").strip()
        if protocol not in ("", "http/protobuf"):
            raise BadInput(
                f"{name}={protocol}: only http/protobuf is supported; unset the variable"
            )
