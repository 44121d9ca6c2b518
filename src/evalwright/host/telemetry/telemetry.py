"""The entry point to telemetry: the host reports events; telemetry measures, logs and traces."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.engine.clock import Clock
from evalwright.host.telemetry import logs
from evalwright.host.telemetry.facts import (
    ActivityEnded,
    Fact,
    ForkOrigin,
    LimitReached,
    RunBegan,
    RunEnded,
    RunFold,
)
from evalwright.host.telemetry.metrics import Metrics
from evalwright.host.telemetry.trace_context import TraceContext, derived_trace_id
from evalwright.host.telemetry.traces import NoTracer, RunSpans, Tracer, open_tracer
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
        self.metrics.run_active.set_function(self._active_runs)

    @classmethod
    def open(
        cls,
        clock: Clock,
        environment: Mapping[str, str],
        otlp_endpoint: str | None = None,
        providers: Iterable[str] = (),
    ) -> "Telemetry":
        """Telemetry as configured; `providers` are the declared ones beside those built in."""
        return cls(clock, open_tracer(environment, otlp_endpoint), providers)

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

    def on_request(self, request: logs.AnsweredRequest) -> None:
        """Count and log an answered request."""
        self.metrics.count_request(request.route, request.method, request.status, request.seconds)
        logs.access(request)

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
        for event in events:
            for fact in run.fold.take(event):
                self._take(run, fact)
        self._trace_append(run, events, now_us)
        if events[-1].type in TERMINAL_TYPES:
            del self._runs[run_id]

    def close(self) -> None:
        """Send the remaining spans."""
        self._tracer.close()

    def _active_runs(self) -> int:
        return sum(run.has_begun for run in self._runs.values())

    def _new_run(self, run_id: str, tenant: str, origin: RunOrigin) -> "_OpenRun":
        spans = RunSpans(run_id, origin.parent, origin.fork, is_sampled=self._samples(run_id))
        return _OpenRun(run_id, tenant, origin, RunFold(self._providers, origin.fork), spans)

    def _samples(self, run_id: str) -> bool:
        return self._tracer.samples(derived_trace_id(run_id))

    def _take(self, run: "_OpenRun", fact: Fact) -> None:
        self.metrics.count(fact)
        match fact:
            case RunBegan():
                logs.run_created(run.names())
            case ActivityEnded() if fact.usage is not None and not fact.is_repeated:
                logs.cost_recorded(run.names(), fact)
            case LimitReached():
                logs.limit_reached(run.names(), fact)
            case RunEnded():
                logs.run_completed(run.names(), fact)
        if self._tracer.is_recording:
            span = run.spans.span(fact, run.fold.workflow_id, run.fold.began_us)
            if span is not None:
                self._tracer.export(span)

    def _trace_append(self, run: "_OpenRun", events: Sequence[Event], now_us: int) -> None:
        if self._tracer.is_recording:
            self._tracer.export(
                run.spans.append(run.fold.workflow_id, events[0], events[-1], now_us)
            )


class _OpenRun:
    """The telemetry of a run that has not ended."""

    def __init__(
        self, run_id: str, tenant: str, origin: RunOrigin, fold: RunFold, spans: RunSpans
    ) -> None:
        self._run_id = run_id
        self._tenant = tenant
        self._origin = origin
        self.fold = fold
        self.spans = spans
        self.has_begun = False

    def names(self) -> logs.RunNames:
        """The ids under which it is logged."""
        return logs.RunNames(
            self._run_id,
            self.fold.workflow_id,
            self._tenant,
            self._origin.correlation_id,
            self.spans.context.trace_id,
        )
