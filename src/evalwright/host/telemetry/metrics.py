"""The metrics of the host; no label holds a run, a tenant, a key or a user's text."""

from collections.abc import Sequence

from evalwright.contracts.events import PAYLOADS, TERMINAL_TYPES, Event
from evalwright.host.telemetry.facts import (
    ActivityEnded,
    Fact,
    LimitReached,
    NodeBegan,
    NodeEnded,
    RunBegan,
    RunEnded,
)
from evalwright.host.telemetry.prometheus import OTHER, Counter, Family, Gauge, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
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


class Metrics:
    """All metrics, named as in the protocol where it names them."""

    def __init__(self) -> None:
        self._of_runs()
        self._of_activities()
        self._of_the_host()

    def _of_runs(self) -> None:
        ends = [kind.removeprefix("run.") for kind in TERMINAL_TYPES]
        self.run_created = Counter("openwop_run_created_total", "Runs created.")
        self.run_completed = Counter("openwop_run_completed_total", "Runs ended.", ["status"], ends)
        self.run_duration = Histogram(
            "openwop_run_duration_seconds",
            "From the creation of a run to its end.",
            _RUN_SECONDS,
            ["status"],
        )
        self.run_active = Gauge("openwop_run_active", "Runs that have not ended.")
        self.run_backlog = Histogram(
            "openwop_run_backlog_seconds",
            "From the creation of a run to the start of its first task.",
            _BACKLOG_SECONDS,
        )
        self.queue_depth = Gauge("openwop_queue_depth", "Appends waiting to be written.")
        self.node_completed = Counter(
            "openwop_node_completed_total", "Tasks ended.", ["node_type", "status"]
        )
        self.node_duration = Histogram(
            "openwop_node_duration_seconds",
            "From the start of a task to its end.",
            _NODE_SECONDS,
            ["node_type", "status"],
        )
        self.cap_exceeded = Counter("openwop_cap_exceeded_total", "Run limits reached.", ["kind"])

    def _of_activities(self) -> None:
        self.activity_invocations = Counter(
            "openwop_activity_invocations_total",
            "Calls to models (by provider), tools and webhooks; "
            "idempotent_hit: recorded by an earlier run and not repeated.",
            ["provider", "status"],
        )
        self.activity_duration = Histogram(
            "openwop_activity_duration_seconds",
            "Duration of calls, where it is recorded.",
            _ACTIVITY_SECONDS,
            ["provider", "status"],
        )
        self.activity_tokens = Counter(
            "openwop_activity_tokens_total", "Tokens used by models.", ["provider", "direction"]
        )
        self.cost_usd = Counter(
            "openwop_cost_usd_total",
            "Cost of model calls in US dollars, where the price is known.",
            ["provider", "estimated"],
        )

    def _of_the_host(self) -> None:
        self.http_requests = Counter(
            "evalwright_http_requests_total", "Requests answered.", ["route", "method", "status"]
        )
        self.http_duration = Histogram(
            "evalwright_http_request_duration_seconds",
            "From the arrival of a request to the end of its answer.",
            _REQUEST_SECONDS,
            ["route", "method"],
        )
        self.sse_clients = Gauge("evalwright_sse_clients", "Open event streams.")
        self.webhook_deliveries = Counter(
            "evalwright_webhook_deliveries_total", "Deliveries to webhooks.", ["outcome"]
        )
        self.webhooks_failing = Gauge(
            "evalwright_webhooks_failing", "Webhooks whose last delivery failed."
        )
        self.webhook_dead_letters = Gauge(
            "evalwright_webhook_dead_letters", "Deliveries that were given up and are kept."
        )
        self.events_appended = Counter(
            "evalwright_events_appended_total", "Events appended durably.", ["type"]
        )
        self.append_duration = Histogram(
            "evalwright_event_append_duration_seconds",
            "From the time of an event to its confirmed durability.",
            _APPEND_SECONDS,
        )

    def render(self) -> bytes:
        """All metrics in the Prometheus text format."""
        families = [each for each in vars(self).values() if isinstance(each, Family)]
        lines = [line for family in families for line in family.lines()]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def count_request(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count an answered request; the route is its template, None if none matched."""
        template = route or UNMATCHED
        verb = method if method in _METHODS else OTHER
        self.http_requests.add(template, verb, str(status))
        self.http_duration.observe(seconds, template, verb)

    def count_append(self, events: Sequence[Event], now_us: int) -> None:
        """Count events that were appended together and are now durable."""
        for event in events:
            self.events_appended.add(event.type if event.type in _EVENT_TYPES else OTHER)
        self.append_duration.observe(max(0, now_us - events[0].at_us) / 1e6)

    def count_delivery(self, outcome: str, seconds: float | None) -> None:
        """Count a webhook delivery, attempted or not."""
        self.webhook_deliveries.add(outcome)
        if seconds is not None:
            status = "success" if outcome == "delivered" else "error"
            self.activity_invocations.add(WEBHOOK, status)
            self.activity_duration.observe(seconds, WEBHOOK, status)

    def count(self, fact: Fact) -> None:
        """Count a fact of a run."""
        match fact:
            case RunBegan():
                self.run_created.add()
            case NodeBegan():
                if fact.waited_s is not None:
                    self.run_backlog.observe(fact.waited_s)
            case NodeEnded():
                self.node_completed.add(fact.node_type, fact.status)
                self.node_duration.observe(fact.seconds, fact.node_type, fact.status)
            case ActivityEnded():
                self._count_activity(fact)
            case LimitReached():
                self.cap_exceeded.add(fact.kind)
            case RunEnded():
                self._count_end(fact)

    def _count_end(self, fact: RunEnded) -> None:
        self.run_completed.add(fact.status)
        if fact.seconds is not None:
            self.run_duration.observe(fact.seconds, fact.status)

    def _count_activity(self, fact: ActivityEnded) -> None:
        self.activity_invocations.add(fact.provider, fact.status)
        if fact.seconds is not None:
            self.activity_duration.observe(fact.seconds, fact.provider, fact.status)
        if fact.usage is None or fact.is_repeated:  # nothing new was spent
            return
        self.activity_tokens.add(fact.provider, "input", by=fact.usage.input_tokens)
        self.activity_tokens.add(fact.provider, "output", by=fact.usage.output_tokens)
        if fact.usage.usd is not None:
            self.cost_usd.add(fact.provider, "true", by=fact.usage.usd)
