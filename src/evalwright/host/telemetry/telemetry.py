"""The entry point to telemetry: the host reports events; telemetry measures, logs and traces."""

from collections.abc import Iterable, Sequence

import msgspec

from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.engine.clock import Clock
from evalwright.host.telemetry import logs
from evalwright.host.telemetry.facts import ForkOrigin, RunFold
from evalwright.host.telemetry.metrics import Metrics
from evalwright.host.telemetry.trace_context import TraceContext, derived_trace_id
from evalwright.host.telemetry.traces import NoTracer, RunSpans, Tracer
from evalwright.models.providers import PROVIDERS


class RunOrigin(msgspec.Struct, frozen=True):
    """The origin of a run: the request that created it, the run it was forked from."""

    correlation_id: str | None = None
    parent: TraceContext | None = None
    fork: ForkOrigin | None = None


UNKNOWN_ORIGIN = RunOrigin()


class Telemetry:
    """Measures, logs and traces; used on the event loop's thread only."""

    def __init__(
        self, clock: Clock, tracer: Tracer | None = None, providers: Iterable[str] = ()
    ) -> None:
        self.metrics = Metrics()
        self._clock = clock
        self._tracer = tracer or NoTracer()
        self._providers = frozenset((*PROVIDERS, *providers))
        self._runs: dict[str, _OpenRun] = {}
        self.metrics.run_active.set_function(
            lambda: sum(run.has_begun for run in self._runs.values())
        )

    def expect(self, run_id: str, tenant: str, origin: RunOrigin) -> None:
        """Announce the origin of a run before its first event is appended."""
        self._runs[run_id] = self._new_run(run_id, tenant, origin)

    def adopt(self, started: Event, tenant: str, origin: RunOrigin = UNKNOWN_ORIGIN) -> None:
        """Take over a run that an earlier process started, from its `run.started` event."""
        run = self._new_run(started.run_id, tenant, origin)
        run.fold.resume(started)
        run.has_begun = True
        self._runs[started.run_id] = run

    def forget(self, run_id: str) -> None:
        """Forget a run that was announced and could not be created."""
        self._runs.pop(run_id, None)

    def on_request(
        self, method: str, route: str | None, status: int, seconds: float, **ids: str | None
    ) -> None:
        """Count and log an answered request; the route is its template, None if none matched."""
        self.metrics.count_request(route, method, status, seconds)
        entry = logs.LogEntry(
            event="request",
            method=method,
            route=route,
            status=status,
            latency_ms=round(seconds * 1000, 3),
            **ids,  # type: ignore[arg-type]
        )
        logs.access(entry, status)

    def on_delivery(self, outcome: str, seconds: float | None) -> None:
        """Count a webhook delivery; without seconds, it was not attempted."""
        self.metrics.count_delivery(outcome, seconds)

    def on_events(self, run_id: str, tenant: str, events: Sequence[Event]) -> None:
        """Take in events of a run that became durable together, in order."""
        if not events:
            return
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = self._new_run(run_id, tenant, UNKNOWN_ORIGIN)
        run.has_begun = True
        now_us = self._clock.now_us()
        self.metrics.count_append(events, now_us)
        is_traced, fold, export = self._tracer.is_recording, run.fold, self._tracer.export
        for event in events:
            for fact in fold.add(event):
                self.metrics.count(fact)
                logs.run_fact(fact, run.names)
                if is_traced and (span := run.spans.span(fact, fold.workflow_id, fold.began_us)):
                    export(span)
        if is_traced:
            export(run.spans.append(fold.workflow_id, events[0], events[-1], now_us))
        if events[-1].type in TERMINAL_TYPES:
            del self._runs[run_id]

    def close(self) -> None:
        self._tracer.close()

    def _new_run(self, run_id: str, tenant: str, origin: RunOrigin) -> "_OpenRun":
        is_sampled = self._tracer.samples(derived_trace_id(run_id))
        spans = RunSpans(run_id, origin.parent, origin.fork, is_sampled=is_sampled)
        fold = RunFold(self._providers, origin.fork)
        return _OpenRun(run_id, tenant, origin.correlation_id, fold, spans)


class _OpenRun(msgspec.Struct):
    """The telemetry of a run that has not ended."""

    run_id: str
    tenant: str
    correlation_id: str | None
    fold: RunFold
    spans: RunSpans
    has_begun: bool = False

    def names(self) -> dict[str, str | None]:
        return {
            "run_id": self.run_id,
            "workflow_id": self.fold.workflow_id,
            "tenant": self.tenant,
            "correlation_id": self.correlation_id,
            "trace_id": self.spans.context.trace_id,
        }
