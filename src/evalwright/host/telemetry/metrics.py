"""The metrics of the host; no label holds a run, a tenant, a key or a user's text."""

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from evalwright.contracts.events import PAYLOADS, TERMINAL_TYPES, Event
from evalwright.host.telemetry.facts import (
    OTHER,
    ActivityEnded,
    Fact,
    LimitReached,
    NodeBegan,
    NodeEnded,
    RunBegan,
    RunEnded,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 1000  # of one metric; further label values share one series
UNMATCHED = "unmatched"  # the route of a request that matches none
WEBHOOK = "webhook"

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_EVENT_TYPES = frozenset((*PAYLOADS, *TERMINAL_TYPES))

_RUN_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600)
_BACKLOG_SECONDS = (0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800)
_NODE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60)
_ACTIVITY_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_APPEND_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

Kind = TypeVar("Kind", Counter, Histogram)


class Labelled(Generic[Kind]):
    """A metric whose series, one for each set of label values, are bounded in number."""

    def __init__(self, metric: Kind) -> None:
        self.metric: Kind = metric
        self._series: dict[tuple[str, ...], Kind] = {}

    def of(self, *values: str) -> Kind:
        """The series of these label values; a metric without labels is the only one of its own."""
        series = self._series.get(values)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                values = (OTHER,) * len(values)
            series = self.metric.labels(*values) if values else self.metric
            self._series[values] = series
        return series


class Metrics:
    """All metrics, named as in the protocol where it names them."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        gauge = partial(Gauge, registry=registry)

        def counter(name: str, about: str, *labels: str) -> Labelled[Counter]:
            return Labelled(Counter(name, about, labels, registry=registry))

        def histogram(
            name: str, about: str, buckets: Sequence[float], *labels: str
        ) -> Labelled[Histogram]:
            return Labelled(Histogram(name, about, labels, buckets=buckets, registry=registry))

        self.run_created = counter("openwop_run_created_total", "Runs created.")
        self.run_completed = counter("openwop_run_completed_total", "Runs ended.", "status")
        for kind in TERMINAL_TYPES:
            self.run_completed.of(kind.removeprefix("run."))  # begins with zero
        self.run_duration = histogram(
            "openwop_run_duration_seconds",
            "From the creation of a run to its end.",
            _RUN_SECONDS,
            "status",
        )
        self.run_active = gauge("openwop_run_active", "Runs that have not ended.")
        self.run_backlog = histogram(
            "openwop_run_backlog_seconds",
            "From the creation of a run to the start of its first task.",
            _BACKLOG_SECONDS,
        )
        self.queue_depth = gauge("openwop_queue_depth", "Appends waiting to be written.")
        self.node_completed = counter(
            "openwop_node_completed_total", "Tasks ended.", "node_type", "status"
        )
        self.node_duration = histogram(
            "openwop_node_duration_seconds",
            "From the start of a task to its end.",
            _NODE_SECONDS,
            "node_type",
            "status",
        )
        self.cap_exceeded = counter("openwop_cap_exceeded_total", "Run limits reached.", "kind")
        self.activity_invocations = counter(
            "openwop_activity_invocations_total",
            "Calls to models (by provider), tools and webhooks; "
            "idempotent_hit: recorded by an earlier run and not repeated.",
            "provider",
            "status",
        )
        self.activity_duration = histogram(
            "openwop_activity_duration_seconds",
            "Duration of calls, where it is recorded.",
            _ACTIVITY_SECONDS,
            "provider",
            "status",
        )
        self.activity_tokens = counter(
            "openwop_activity_tokens_total", "Tokens used by models.", "provider", "direction"
        )
        self.cost_usd = counter(
            "openwop_cost_usd_total",
            "Cost of model calls in US dollars, where the price is known.",
            "provider",
            "estimated",
        )
        self.http_requests = counter(
            "evalwright_http_requests_total", "Requests answered.", "route", "method", "status"
        )
        self.http_duration = histogram(
            "evalwright_http_request_duration_seconds",
            "From the arrival of a request to the end of its answer.",
            _REQUEST_SECONDS,
            "route",
            "method",
        )
        self.sse_clients = gauge("evalwright_sse_clients", "Open event streams.")
        self.webhook_deliveries = counter(
            "evalwright_webhook_deliveries_total", "Deliveries to webhooks.", "outcome"
        )
        self.webhooks_failing = gauge(
            "evalwright_webhooks_failing", "Webhooks whose last delivery failed."
        )
        self.webhook_dead_letters = gauge(
            "evalwright_webhook_dead_letters", "Deliveries that were given up and are kept."
        )
        self.events_appended = counter(
            "evalwright_events_appended_total", "Events appended durably.", "type"
        )
        self.append_duration = histogram(
            "evalwright_event_append_duration_seconds",
            "From the time of an event to its confirmed durability.",
            _APPEND_SECONDS,
        )

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def count_request(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count an answered request; the route is its template, None if none matched."""
        template = route or UNMATCHED
        verb = method if method in _METHODS else OTHER
        self.http_requests.of(template, verb, str(status)).inc()
        self.http_duration.of(template, verb).observe(seconds)

    def count_append(self, events: Sequence[Event], now_us: int) -> None:
        """Count events that were appended together and are now durable."""
        for event in events:
            self.events_appended.of(event.type if event.type in _EVENT_TYPES else OTHER).inc()
        self.append_duration.of().observe(max(0, now_us - events[0].at_us) / 1e6)

    def count_delivery(self, outcome: str, seconds: float | None) -> None:
        self.webhook_deliveries.of(outcome).inc()
        if seconds is not None:
            status = "success" if outcome == "delivered" else "error"
            self.activity_invocations.of(WEBHOOK, status).inc()
            self.activity_duration.of(WEBHOOK, status).observe(seconds)

    def count(self, fact: Fact) -> None:
        match fact:
            case RunBegan():
                self.run_created.of().inc()
            case NodeBegan():
                if fact.waited_s is not None:
                    self.run_backlog.of().observe(fact.waited_s)
            case NodeEnded():
                self.node_completed.of(fact.node_type, fact.status).inc()
                self.node_duration.of(fact.node_type, fact.status).observe(fact.seconds)
            case ActivityEnded():
                self.activity_invocations.of(fact.provider, fact.status).inc()
                if fact.seconds is not None:
                    self.activity_duration.of(fact.provider, fact.status).observe(fact.seconds)
                if fact.usage is not None and not fact.is_repeated:  # something new was spent
                    self.activity_tokens.of(fact.provider, "input").inc(fact.usage.input_tokens)
                    self.activity_tokens.of(fact.provider, "output").inc(fact.usage.output_tokens)
                    if fact.usage.usd is not None:
                        self.cost_usd.of(fact.provider, "true").inc(fact.usage.usd)
            case LimitReached():
                self.cap_exceeded.of(fact.kind).inc()
            case RunEnded():
                self.run_completed.of(fact.status).inc()
                if fact.seconds is not None:
                    self.run_duration.of(fact.status).observe(fact.seconds)
