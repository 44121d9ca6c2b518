"""The host: everything that routes use, from startup to shutdown."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

from evalwright.contracts.errors import StoreError
from evalwright.contracts.events import TERMINAL_TYPES, Event, Planned, RunStarted
from evalwright.engine.clock import Clock, SystemClock
from evalwright.engine.session import ModelPool
from evalwright.host.access.egress import Egress, EgressPolicy
from evalwright.host.access.idempotency import Idempotency
from evalwright.host.access.key_watch import KeyWatch
from evalwright.host.access.keys import Principal
from evalwright.host.access.limits import (
    MOST_BODIES,
    MOST_BODIES_PER_TENANT,
    MOST_PARSED,
    MOST_PARSED_PER_TENANT,
    PAGES_PER_ROUND,
    SHAPES_PER_ROUND,
    Arrivals,
    ByteBudget,
    ConcurrencyLimit,
    FairSchedule,
    Rate,
    RateLimits,
)
from evalwright.host.access.quotas import Quotas
from evalwright.host.access.vault import Vault
from evalwright.host.deployments.service import Deployments
from evalwright.host.http.extension import NO_EXTENSION, Extension
from evalwright.host.http.settings import HostSettings, host_settings
from evalwright.host.library.annotations import AnnotationStore
from evalwright.host.library.catalogue import Catalogue
from evalwright.host.library.prompts import PromptLibrary
from evalwright.host.runs.cluster import Hosts
from evalwright.host.runs.executor import ExecutorMaker
from evalwright.host.runs.forks import Forks
from evalwright.host.runs.handle import RunHandle
from evalwright.host.runs.log_check import LogCheck
from evalwright.host.runs.planning import Planner
from evalwright.host.runs.recovery import Recovery, RunOrders, StoreCheck
from evalwright.host.runs.retention import Retention
from evalwright.host.runs.runs import Runs
from evalwright.host.streams.cache import (
    MOST_PAGE_BYTES,
    MOST_SNAPSHOTS,
    LogPage,
    PageKey,
    SharedCache,
    SnapshotKey,
)
from evalwright.host.streams.feed import Feed
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from evalwright.host.telemetry.trace_context import read_trace
from evalwright.host.web.progress import ProgressCache
from evalwright.host.web.run_figures import FiguresCache
from evalwright.host.web.sessions import forget_sessions
from evalwright.host.webhooks.outbox import Outbox
from evalwright.host.webhooks.post import DeliveryReport, Poster
from evalwright.host.webhooks.subscriptions import Subscriptions
from evalwright.models.config import Config
from evalwright.store.protocol import EventLog
from evalwright.store.readers import ReadingThreads
from evalwright.store.records import RecordChange

SWEEP_SECONDS = 60.0
MOST_WAITING = 32  # threads
MOST_LISTS = 32  # at once
MOST_LISTS_PER_TENANT = 16
MOST_EXPORTS = 16  # whole logs in memory at once: copied, compared, bundled
MOST_EXPORTS_PER_TENANT = 8
MOST_COMPARISONS = 2  # each takes a core for seconds
MOST_COMPARISONS_PER_TENANT = 1

TRACES = RecordChange("webhook_traces", "", "clear text", None)  # of secrets; its removal

_logger = logging.getLogger(__name__)

_NOT_DELIVERED = {
    "failed": "could not be delivered",
    "refused": "was not sent",
    "parked": "was given up and is a dead letter",
}

OpenTelemetry = Callable[[Clock, str | None], Telemetry]  # with the collector's address, if any


class Host:
    """A running host: its services, limits and telemetry."""

    def __init__(
        self,
        log: EventLog,
        config: Config,
        *,
        clock: Clock | None = None,
        extension: Extension = NO_EXTENSION,
        open_telemetry: OpenTelemetry | None = None,
        egress: Egress | None = None,
        vault: Vault | None = None,
        takes_part: bool = True,
    ) -> None:
        self.log = log
        self.records = log.records
        self.hosts = Hosts(log.records, takes_part=takes_part)
        self.clock: Clock = clock or SystemClock()
        self.settings: HostSettings = host_settings(config)
        self.extension = extension
        self.telemetry = (
            open_telemetry(self.clock, self.settings.otlp_endpoint)
            if open_telemetry
            else Telemetry(self.clock)
        )
        self.models = ModelPool(config)
        self.redactor = self.models.redactor
        self.egress = egress or Egress(EgressPolicy.of(self.settings.egress))
        self.catalogue = Catalogue(self.records, self.settings, self.models.load, self.egress)
        self.planner = Planner(self.settings, self.catalogue, self.redactor)
        self.vault = vault or Vault.for_database(log.place)
        self.idempotency = Idempotency(self.records, self.vault)
        settings, rates = self.settings, self.settings.rates
        self.requests = ConcurrencyLimit(
            "requests", settings.max_requests, settings.max_requests_per_tenant
        )
        self.streams = ConcurrencyLimit(
            "streams", settings.max_streams, settings.max_streams_per_tenant
        )
        self.lists = ConcurrencyLimit("lists", MOST_LISTS, MOST_LISTS_PER_TENANT)
        self.exports = ConcurrencyLimit("exports", MOST_EXPORTS, MOST_EXPORTS_PER_TENANT)
        self.comparisons = ConcurrencyLimit(
            "comparisons", MOST_COMPARISONS, MOST_COMPARISONS_PER_TENANT
        )
        self.response_budget = ByteBudget()
        self.bodies = ByteBudget(
            MOST_BODIES, MOST_BODIES_PER_TENANT, "large bodies are in work", "retry later"
        )
        self.parsers = ReadingThreads(MOST_PARSED, MOST_PARSED_PER_TENANT, "parser")
        per_key, per_tenant, per_address = (
            Rate(rate, max(1, int(rate * rates.seconds_of_burst)))
            for rate in (rates.per_key, rates.per_tenant, rates.per_address)
        )
        self.rates = RateLimits(per_key, per_tenant, per_address)
        self.feed = Feed()
        self.snapshots = SharedCache[SnapshotKey, bytes](MOST_SNAPSHOTS)
        self.pages = SharedCache[PageKey, LogPage](MOST_PAGE_BYTES, is_current=True)
        self.figures = FiguresCache()
        self.progress = ProgressCache()
        self.page_schedule = FairSchedule(PAGES_PER_ROUND)  # of streams that catch up
        self.arrivals = Arrivals()
        self.body_schedule = FairSchedule(SHAPES_PER_ROUND)  # of large bodies that arrive
        self.key_watch = KeyWatch(self.log)
        self.principals = SharedCache[str, Principal](0, is_current=True)
        self.edges = SharedCache[str, list[Event]](0, is_current=True)
        maker = ExecutorMaker(
            self.planner,
            self.models,
            self.redactor,
            self.clock,
            self.settings.tools,
            self.extension.workflows,
        )
        limit = ConcurrencyLimit("runs", self.settings.max_runs, self.settings.max_runs_per_tenant)
        self.fleet = None
        if not self.hosts.is_alone:  # a log in a file has no workers
            from evalwright.host.runs.fleet import HostFleet

            self.fleet = HostFleet(self.log)
        fleet = None if self.fleet is None else self.fleet.database
        handed_to = fleet if self.settings.workers else None
        self.runs = Runs(self.log, maker, self.redactor, self.clock, limit, handed_to)
        self.orders = RunOrders(self.log, self.runs, self.clock, fleet)
        self.recovery = Recovery(self.log, maker, self.runs, self._adopt, self.hosts)
        self.forks = Forks(self.runs, self.planner, self.settings, self.clock)
        self.prompts = PromptLibrary(self.records)
        self.annotations = AnnotationStore(self.records, self.clock, self.redactor)
        self.deployments = Deployments(log, self.catalogue, self.settings.deployments, self.clock)
        self.retention = Retention(log, self.settings, self.clock)
        self.quotas = Quotas(log, self.settings.quotas)
        self.subscriptions = Subscriptions(self.records, self.egress, self.clock, self.vault)
        self.webhooks = Outbox(
            log,
            self.subscriptions,
            Poster(self.egress, self.clock),
            self.clock,
            self.settings.webhooks,
            self._note_delivery,
            self.hosts,
        )
        self.is_ready = False
        self.store_check = StoreCheck(log)
        metrics, lanes = self.telemetry.metrics, self.webhooks.lanes
        metrics.queue_depth.set_function(lambda: self.log.backlog)
        metrics.webhooks_failing.set_function(lambda: sum(lane.failures > 0 for lane in lanes()))
        metrics.webhook_dead_letters.set_function(lambda: sum(lane.parked for lane in lanes()))
        self._owners: dict[str, str] = {}  # the tenants of open runs
        self._unattributed: dict[str, list[list[Event]]] = {}  # of runs whose owner is read
        self._finding: set[asyncio.Future[None]] = set()  # who looks

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Start and resume interrupted runs; at shutdown, leave every run resumable."""
        if not self.hosts.is_alone:  # threads that wait for an answer of the database
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(MOST_WAITING, "waiting"))
        self.feed.start(self.log)
        self.feed.on_events(self._on_events)
        await asyncio.to_thread(self._seal_secrets)
        if self.hosts.takes_part and not self.hosts.is_alone:
            await self.hosts.beat()
        await self.webhooks.start()
        await self.recovery.recover()
        self.feed.on_news(self.orders.on_news)
        self.feed.on_news(self.webhooks.on_news)
        works = (
            self._sweep,
            self._stay_alive,
            self.key_watch.run,
            self.orders.run,
            self.recovery.run,
            LogCheck(self.log).run,
        )
        async with self._working(*works, leave=(self.webhooks.close, self.hosts.leave)):
            yield

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Only show the log, and execute what is started here: other processes see to the rest."""
        self.feed.start(self.log)
        self.feed.on_news(self.orders.on_news)
        async with self._working(self.orders.run):
            yield

    @asynccontextmanager
    async def _working(
        self,
        *works: Callable[[], Coroutine[Any, Any, None]],
        leave: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> AsyncIterator[None]:
        """Serve while this works in the background; then close everything."""
        background = [asyncio.create_task(work()) for work in works]
        self.is_ready = True
        try:
            yield
        finally:
            await self.drain()
            self.feed.stop()
            self.retention.stop()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            for each in leave:
                await each()
            if self.fleet is not None:
                await self.fleet.database.close()
            await self.models.close()
            self.catalogue.close()
            await asyncio.to_thread(self.parsers.close)
            self.telemetry.close()

    def _seal_secrets(self) -> None:
        """Seal the secrets that version 0.2 stored in clear text, and erase all traces of them."""
        found = self.subscriptions.seal_clear_secrets()
        if found:
            found += self.idempotency.seal_secrets()
            self.records.write([*found, TRACES._replace(body=b"left")]).result()
        if not self.records.get(TRACES.kind, TRACES.tenant, TRACES.key):
            return
        is_erased = False
        with suppress(StoreError):  # the disk may be full; the next start tries again
            is_erased = self.log.upkeep.erase_deleted()
        if is_erased:
            self.records.write([TRACES]).result()
        else:
            _logger.warning(
                "%s may hold traces of the secrets of webhooks in its free space: "
                "run `evalwright db vacuum` while the host is stopped",
                self.log.place,
            )

    async def _adopt(self, run: RunHandle) -> None:
        """Connect a run that an earlier process started with its trace."""
        started = (await run.read_edges())[0]
        planned = await run.in_reader(
            lambda: next(run.log.read(run.run_id, (Planned.TYPE,), limit=1), None)
        )
        origin = planned.decode(Planned).origin if planned else None
        owner = origin.owner.tenant if origin else ""
        caller = read_trace(origin.traceparent, None) if origin else None
        self.telemetry.adopt(started, owner, RunOrigin(parent=caller))

    async def drain(self) -> None:
        """Start nothing more, and let calls in flight end within `shutdown_s`."""
        self.is_ready = False
        await self.runs.stop(self.settings.shutdown_s)

    async def _stay_alive(self) -> None:
        async def beaten() -> None:
            self.rates.divide(self.hosts.count)
            await self.webhooks.beaten()

        await self.hosts.run(beaten)

    async def _sweep(self) -> None:
        while True:
            if self.hosts.is_leader:
                try:
                    await self.idempotency.forget_old()
                    now_us = self.clock.now_us()
                    await forget_sessions(self.records, now_us, self.settings.session_s)
                    await self.deployments.sweep(now_us)
                except StoreError as error:
                    _logger.warning("old documents are not deleted: %s", error)
                await self.retention.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    def _on_events(self, run_id: str, events: list[Event]) -> None:
        """Pass durable events on; if their owner is not known, once it was read from the log."""
        if run_id in self._unattributed:
            self._unattributed[run_id].append(events)
        elif run_id in self._owners or events[0].sequence == 0:
            self._pass_on(run_id, events, events[0])
        else:
            self._unattributed[run_id] = [events]
            finding = asyncio.ensure_future(self._find_owner(run_id))
            self._finding.add(finding)
            finding.add_done_callback(self._finding.discard)

    async def _find_owner(self, run_id: str) -> None:
        try:
            edges = await asyncio.wrap_future(
                self.log.in_reader("", lambda: self.log.edges(run_id))
            )
        finally:
            unattributed = self._unattributed.pop(run_id)
        for events in unattributed:
            self._pass_on(run_id, events, edges[0])

    def _pass_on(self, run_id: str, events: list[Event], first: Event) -> None:
        """Pass events to telemetry and to webhooks; `first` is that of the run."""
        tenant = self._owners.get(run_id)
        if tenant is None:
            owner = first.decode(RunStarted).owner
            tenant = self._owners[run_id] = owner.tenant if owner else ""
        if events[-1].type in TERMINAL_TYPES:
            self._owners.pop(run_id, None)
        self.telemetry.on_events(run_id, tenant, events)
        self.webhooks.on_append(tenant)

    def _note_delivery(self, report: DeliveryReport) -> None:
        self.telemetry.on_delivery(report.outcome, report.seconds)
        if report.outcome != "delivered":
            _logger.warning(
                "webhook %s of tenant %s: %s of run %s %s: %s",
                *(report.webhook_id, report.tenant, report.event_type, report.run_id),
                *(_NOT_DELIVERED[report.outcome], report.reason),
            )
