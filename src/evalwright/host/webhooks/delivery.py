"""Delivery: each event is posted at most once to each subscription, in order.

Each subscription has its own queue, so a slow receiver does not delay others. A queue is bounded in
events and bytes; an event that does not fit is dropped and reported. Queues and circuit breakers
live in memory: a restart delivers nothing twice and forgets which receivers failed.
"""

import asyncio
import hashlib
import hmac
import io
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from evalwright import __version__
from evalwright.contracts.errors import StoreError
from evalwright.contracts.events import Event
from evalwright.engine.clock import Clock
from evalwright.host.egress import Egress, EgressRefused
from evalwright.host.webhooks.content import without_content
from evalwright.host.webhooks.subscriptions import Subscription, Subscriptions

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_S = 5.0
MAX_WAITING = 1000
MAX_WAITING_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)

DeliveryOutcome = Literal["delivered", "failed", "refused", "skipped", "dropped"]


class DeliveryReport(NamedTuple):
    """The outcome of one delivery, for metrics and logs; it holds no secret and no content."""

    outcome: DeliveryOutcome
    reason: str
    tenant: str
    webhook_id: str
    run_id: str
    event_type: str
    seconds: float | None = None  # None: not attempted


class _QueuedEvent(NamedTuple):
    tenant: str
    webhook_id: str
    workspace: str | None
    event: Event


class _DeliveryBody(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    workspace_id: str
    type: str  # repeated from the event: some receivers look for it here
    event: msgspec.Raw


class _DeliveryQueue:
    """The events that wait for one receiver."""

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.task: asyncio.Task[None] | None = None
        self._waiting: deque[_QueuedEvent] = deque()
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def put(self, queued: _QueuedEvent) -> bool:
        """Queue an event if it fits; an empty queue takes an event of any size."""
        size = self._bytes + len(queued.event.body)
        if self._waiting and (len(self._waiting) >= MAX_WAITING or size > MAX_WAITING_BYTES):
            return False
        self._waiting.append(queued)
        self._bytes = size
        return True

    def take(self) -> _QueuedEvent:
        queued = self._waiting.popleft()
        self._bytes -= len(queued.event.body)
        return queued


class WebhookSender:
    """Delivers events to subscriptions; used from one event loop."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        egress: Egress,
        clock: Clock,
        tell: Callable[[DeliveryReport], None],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._subscriptions = subscriptions
        self._egress = egress
        self._clock = clock
        self._tell = tell
        self._timeout_s = timeout_s
        self._queues: dict[tuple[str, str], _DeliveryQueue] = {}
        self._session: aiohttp.ClientSession | None = None
        self._is_closing = False

    def notify(self, tenant: str, workspace: str | None, tags: Sequence[str], event: Event) -> None:
        """Queue an event for the tenant's subscriptions that want it; does not block."""
        if self._is_closing:
            return
        try:
            subscriptions = self._subscriptions.of_tenant(tenant)
        except StoreError as error:
            _log.warning("cannot read the webhooks for run %s: %s", event.run_id, error)
            return
        for subscription in subscriptions:
            if subscription.wants(event.type, workspace, tags):
                self._queue(_QueuedEvent(tenant, subscription.webhook_id, workspace, event))

    async def close(self, grace_s: float = TIMEOUT_S) -> None:
        """Accept no more events, deliver what can be delivered in the given time, drop the rest."""
        self._is_closing = True
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for queue in self._queues.values():
            while not queue.is_empty:
                self._report("dropped", "closing", queue.take())
        self._queues.clear()
        if self._session is not None:
            await self._session.close()

    def _queue(self, queued: _QueuedEvent) -> None:
        key = queued.tenant, queued.webhook_id
        queue = self._queues.get(key) or self._open_queue(queued.tenant, queued.webhook_id)
        if not queue.put(queued):
            self._report("dropped", "queue_full", queued)
        elif queue.task is None:
            queue.task = asyncio.create_task(self._empty(key, queue))

    def _open_queue(self, tenant: str, webhook_id: str) -> _DeliveryQueue:
        """A new queue; queues of deleted subscriptions, kept for their breakers, are removed."""
        alive = {subscription.webhook_id for subscription in self._subscriptions.of_tenant(tenant)}
        for owner, other in list(self._queues):
            if owner == tenant and other not in alive and not self._queues[owner, other].task:
                del self._queues[owner, other]
        queue = self._queues[tenant, webhook_id] = _DeliveryQueue()
        return queue

    async def _empty(self, key: tuple[str, str], queue: _DeliveryQueue) -> None:
        try:
            while not queue.is_empty:
                await self._deliver(queue, queue.take())
        finally:
            queue.task = None
            if queue.breaker.is_untroubled and queue.is_empty:
                self._queues.pop(key, None)

    async def _deliver(self, queue: _DeliveryQueue, queued: _QueuedEvent) -> None:
        if not queue.breaker.allows(self._clock.monotonic_s()):
            self._report("skipped", "breaker_open", queued)
            return
        try:
            subscription = self._subscriptions.find(queued.tenant, queued.webhook_id)
        except StoreError:
            self._report("failed", "store_error", queued)
            return
        if subscription is None:
            queue.breaker.note_success()  # so that the queue is removed
            self._report("skipped", "unsubscribed", queued)
            return
        began_s = self._clock.monotonic_s()
        try:
            outcome, reason = await self._post(subscription, queued)
        except asyncio.CancelledError:
            self._report("dropped", "closing", queued)
            raise
        ended_s = self._clock.monotonic_s()
        if outcome == "delivered":
            queue.breaker.note_success()
        else:
            queue.breaker.note_failure(ended_s)
        self._report(outcome, reason, queued, ended_s - began_s)

    async def _post(
        self, subscription: Subscription, queued: _QueuedEvent
    ) -> tuple[DeliveryOutcome, str]:
        import aiohttp

        body = _body(subscription, queued)
        timestamp = self._clock.now_us() // 1_000_000
        headers = delivery_headers(subscription, queued.event.type, timestamp, body)
        try:
            async with self._open_session().post(
                subscription.url, data=io.BytesIO(body), headers=headers, allow_redirects=False
            ) as response:
                is_taken = 200 <= response.status < 300
                return ("delivered" if is_taken else "failed"), f"status_{response.status}"
        except EgressRefused as refusal:
            return "refused", refusal.reason
        except TimeoutError:
            return "failed", "timeout"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return "failed", type(error).__name__

    def _open_session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            # Connections are not reused: one that the receiver has just closed would cost the only
            # attempt, and a new connection looks the name up again.
            self._session = self._egress.session(
                https_only=True, timeout_s=self._timeout_s, keep_alive=False
            )
        return self._session

    def _report(
        self,
        outcome: DeliveryOutcome,
        reason: str,
        queued: _QueuedEvent,
        seconds: float | None = None,
    ) -> None:
        event, owner = queued.event, (queued.tenant, queued.webhook_id)
        self._tell(DeliveryReport(outcome, reason, *owner, event.run_id, event.type, seconds))


def _body(subscription: Subscription, queued: _QueuedEvent) -> bytes:
    event = queued.event if subscription.include_content else without_content(queued.event)
    assert event is not None, "only events that a subscription may receive are queued"
    return msgspec.json.encode(
        _DeliveryBody(
            run_id=event.run_id,
            workspace_id=queued.workspace or queued.tenant,
            type=event.type,
            event=msgspec.Raw(event.to_json()),
        )
    )


FAILURES_TO_OPEN = 4
OPEN_S = 3600.0


class Breaker:
    """Opens after failures in a row; later it lets one attempt through, which decides.

    Deliveries to a receiver are sequential, so only one attempt follows the pause.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_untroubled(self) -> bool:
        """Whether the last delivery succeeded: this breaker holds no state worth keeping."""
        return self._failures == 0

    def allows(self, now_s: float) -> bool:
        """Whether a delivery may be attempted now."""
        return self._opened_at is None or now_s - self._opened_at >= OPEN_S

    def note_success(self) -> None:
        """Close, and reset the count."""
        self._failures, self._opened_at = 0, None

    def note_failure(self, now_s: float) -> None:
        """Count a failure; after too many in a row, open for another period."""
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self._opened_at = now_s


# The protocol is changing the prefix of its headers: receivers may read either.
HEADER_FAMILIES = ("X-openwop-", "OpenWOP-")
ALGORITHM = "v1"


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a body sent at a timestamp, in seconds since the epoch."""
    signed = f"{timestamp}.".encode() + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def delivery_headers(
    subscription: Subscription, event_type: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """All headers of a delivery."""
    values = {
        "Webhook-Id": subscription.webhook_id,
        "Event-Type": event_type,
        "Timestamp": str(timestamp),
        "Signature": sign(subscription.secret, timestamp, body),
        "Signature-Algorithm": ALGORITHM,
    }
    return {
        "Content-Type": "application/json",
        "User-Agent": f"openwop-webhook-dispatcher/{__version__}",
        **{family + name: value for family in HEADER_FAMILIES for name, value in values.items()},
    }
