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
        attributes: dict[str, Attribute] = {
            "openwop.run_id": self._run_id,
            "openwop.workflow_id": workflow_id,
        }
        match fact:
            case NodeEnded():
                began = fact.began
                attributes |= {
                    "openwop.node_id": began.node_id,
                    "openwop.node_type": began.node_type,
                    "openwop.node_attempt": began.attempt,
                    "openwop.event_seq": fact.sequence,
                }
                return RunSpan(
                    f"openwop.node.{began.node_type}",
                    self._node_context(began),
                    self.context.span_id,
                    began.at_us,
                    max(began.at_us, fact.at_us),
                    attributes,
                    "unset" if fact.status == "completed" else "error",
                )
            case ActivityEnded():  # a call; without a recorded duration it is a point in time
                within = self._node_context(fact.within) if fact.within else self.context
                attributes |= {"openwop.node_id": fact.node_id} if fact.node_id else {}
                attributes["openwop.event_seq"] = fact.sequence
                usage = None if fact.is_repeated else fact.usage
                if usage is not None:
                    attributes |= {
                        "openwop.cost.provider": fact.provider,
                        "openwop.cost.tokens.input": usage.input_tokens,
                        "openwop.cost.tokens.output": usage.output_tokens,
                        "openwop.cost.tokens.total": usage.input_tokens + usage.output_tokens,
                    }
                    if usage.usd is not None:
                        attributes["openwop.cost.usd"] = usage.usd
                        attributes["openwop.cost.currency"] = "USD"
                return RunSpan(
                    f"openwop.activity.{fact.provider}",
                    self._at(f"activity-{fact.sequence}"),
                    within.span_id,
                    fact.at_us - round((fact.seconds or 0) * 1e6),
                    fact.at_us,
                    attributes,
                    "error" if fact.status == "error" else "unset",
                )
            case RunEnded():
                fork, start_us = self._fork, fact.at_us if began_us is None else began_us
                attributes["openwop.run_status"] = fact.status
                attributes |= {"error.type": fact.error_code} if fact.error_code else {}
                if fork is not None:
                    attributes |= {
                        "openwop.replay.source_run_id": fork.source_run_id,
                        "openwop.replay.from_seq": fork.from_seq,
                        "openwop.replay.mode": fork.mode,
                    }
                return RunSpan(
                    "openwop.run",
                    self.context,
                    self._parent_id,
                    start_us,
                    max(start_us, fact.at_us),
                    attributes,
                    "error" if fact.status == "failed" else "unset",
                    fork.source if fork else None,
                )
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


_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracer(Protocol):
    """Takes finished spans; used by one thread. It neither blocks nor raises."""

    @property
    def is_recording(self) -> bool: ...

    def samples(self, trace_id: str) -> bool: ...  # whether a trace that starts here is recorded

    def export(self, span: RunSpan) -> None: ...

    def close(self) -> None: ...  # sends the remaining spans, for a few seconds at most


class NoTracer:
    """Drops every span."""

    is_recording = False

    def samples(self, trace_id: str) -> bool:  # noqa: ARG002 - the protocol has it
        return False

    def export(self, span: RunSpan) -> None:
        pass

    def close(self) -> None:
        pass


def open_tracer(environment: Mapping[str, str], endpoint: str | None = None) -> Tracer:
    """A tracer for the configured endpoint, or for the one named by the OTEL_ variables."""
    given = {name: value.strip() for name, value in environment.items()}
    is_off = given.get("OTEL_SDK_DISABLED", "").lower() == "true"
    named = environment.get(_TRACES_ENDPOINT) or environment.get(_ENDPOINT)
    if is_off or given.get("OTEL_TRACES_EXPORTER") == "none" or not (endpoint or named):
        return NoTracer()
    for name in _PROTOCOLS:
        if given.get(name, "") not in ("", "http/protobuf"):
            raise BadInput(
                f"{name}={given[name]}: only http/protobuf is supported; unset the variable"
            )
    try:
        from evalwright.host.telemetry.otlp import OtlpTracer
    except ImportError:
        raise BadInput(
            f"an OTLP endpoint is configured ({_ENDPOINT} or [host] of evalwright.toml), but the "
            "packages to send traces are not installed: pip install 'PATH_TO_THE_CLONE[otel]'"
        ) from None
    return OtlpTracer(endpoint.rstrip("/") + "/v1/traces" if endpoint else None)
