"""Delivery: each event is posted at most once to each subscription, in order, beside the run.

Every subscription has a lane of its own, so a slow receiver holds up nobody else. A lane is bounded
in events and bytes; what finds no room is dropped, and said to be. Lanes and breakers live in
memory: a restart delivers nothing twice, and forgets who failed.
"""

import asyncio
import io
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from evalwright.contracts.errors import StoreError
from evalwright.contracts.events import Event
from evalwright.engine.clock import Clock
from evalwright.host.egress import Egress, EgressRefused
from evalwright.host.webhooks.breaker import Breaker
from evalwright.host.webhooks.content import without_content
from evalwright.host.webhooks.signing import delivery_headers
from evalwright.host.webhooks.subscriptions import Subscription, Subscriptions

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_S = 5.0
MAX_WAITING = 1000
MAX_WAITING_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)

Outcome = Literal["delivered", "failed", "refused", "skipped", "dropped"]


class Told(NamedTuple):
    """What became of one delivery, for metrics and logs; nothing in it is secret or content."""

    outcome: Outcome
    reason: str
    tenant: str
    webhook_id: str
    run_id: str
    event_type: str
    seconds: float | None = None  # None: it was not tried


class _Parcel(NamedTuple):
    tenant: str
    webhook_id: str
    workspace: str | None
    event: Event


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    workspace_id: str
    type: str  # also within the event: receivers are known that look for it here
    event: msgspec.Raw


class _Lane:
    """The deliveries that wait for one receiver."""

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.task: asyncio.Task[None] | None = None
        self._waiting: deque[_Parcel] = deque()
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def put(self, parcel: _Parcel) -> bool:
        """Queue a delivery if there is room; a large one has room in an empty lane."""
        size = self._bytes + len(parcel.event.body)
        if self._waiting and (len(self._waiting) >= MAX_WAITING or size > MAX_WAITING_BYTES):
            return False
        self._waiting.append(parcel)
        self._bytes = size
        return True

    def take(self) -> _Parcel:
        parcel = self._waiting.popleft()
        self._bytes -= len(parcel.event.body)
        return parcel


class WebhookSender:
    """Delivers events to subscriptions; used from one event loop."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        egress: Egress,
        clock: Clock,
        tell: Callable[[Told], None],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._subscriptions = subscriptions
        self._egress = egress
        self._clock = clock
        self._tell = tell
        self._timeout_s = timeout_s
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._session: aiohttp.ClientSession | None = None
        self._is_closing = False

    def notify(self, tenant: str, workspace: str | None, tags: Sequence[str], event: Event) -> None:
        """Queue an event of a tenant's run for the subscriptions that want it; never waits."""
        if self._is_closing:
            return
        try:
            subscriptions = self._subscriptions.of_tenant(tenant)
        except StoreError as error:
            _log.warning("webhooks of run %s cannot be read: %s", event.run_id, error)
            return
        for subscription in subscriptions:
            if subscription.wants(event.type, workspace, tags):
                self._queue(_Parcel(tenant, subscription.webhook_id, workspace, event))

    async def close(self, grace_s: float = TIMEOUT_S) -> None:
        """Take nothing more, finish what can be finished in the time given, drop the rest."""
        self._is_closing = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for lane in self._lanes.values():
            while not lane.is_empty:
                self._report("dropped", "closing", lane.take())
        self._lanes.clear()
        if self._session is not None:
            await self._session.close()

    def _queue(self, parcel: _Parcel) -> None:
        key = parcel.tenant, parcel.webhook_id
        lane = self._lanes.get(key) or self._open_lane(parcel.tenant, parcel.webhook_id)
        if not lane.put(parcel):
            self._report("dropped", "queue_full", parcel)
        elif lane.task is None:
            lane.task = asyncio.create_task(self._empty(key, lane))

    def _open_lane(self, tenant: str, webhook_id: str) -> _Lane:
        """A new lane, and an end to those that a deleted subscription left behind open breakers."""
        alive = {subscription.webhook_id for subscription in self._subscriptions.of_tenant(tenant)}
        for owner, other in list(self._lanes):
            if owner == tenant and other not in alive and not self._lanes[owner, other].task:
                del self._lanes[owner, other]
        lane = self._lanes[tenant, webhook_id] = _Lane()
        return lane

    async def _empty(self, key: tuple[str, str], lane: _Lane) -> None:
        try:
            while not lane.is_empty:
                await self._deliver(lane, lane.take())
        finally:
            lane.task = None
            if lane.breaker.is_untroubled and lane.is_empty:
                self._lanes.pop(key, None)

    async def _deliver(self, lane: _Lane, parcel: _Parcel) -> None:
        if not lane.breaker.allows(self._clock.monotonic_s()):
            self._report("skipped", "breaker_open", parcel)
            return
        try:
            subscription = self._subscriptions.find(parcel.tenant, parcel.webhook_id)
        except StoreError:
            self._report("failed", "store_error", parcel)
            return
        if subscription is None:
            lane.breaker.note_success()  # so that the lane is given up
            self._report("skipped", "unsubscribed", parcel)
            return
        began_s = self._clock.monotonic_s()
        try:
            outcome, reason = await self._post(subscription, parcel)
        except asyncio.CancelledError:
            self._report("dropped", "closing", parcel)
            raise
        ended_s = self._clock.monotonic_s()
        if outcome == "delivered":
            lane.breaker.note_success()
        else:
            lane.breaker.note_failure(ended_s)
        self._report(outcome, reason, parcel, ended_s - began_s)

    async def _post(self, subscription: Subscription, parcel: _Parcel) -> tuple[Outcome, str]:
        import aiohttp

        body = _body(subscription, parcel)
        timestamp = self._clock.now_us() // 1_000_000
        headers = delivery_headers(subscription, parcel.event.type, timestamp, body)
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
            # Without kept connections: one that the receiver has just closed would cost the only
            # attempt, and a new one means a new lookup.
            self._session = self._egress.session(
                https_only=True, timeout_s=self._timeout_s, keep_alive=False
            )
        return self._session

    def _report(
        self, outcome: Outcome, reason: str, parcel: _Parcel, seconds: float | None = None
    ) -> None:
        event, owner = parcel.event, (parcel.tenant, parcel.webhook_id)
        self._tell(Told(outcome, reason, *owner, event.run_id, event.type, seconds))


def _body(subscription: Subscription, parcel: _Parcel) -> bytes:
    event = parcel.event if subscription.include_content else without_content(parcel.event)
    assert event is not None, "only events that a subscription may have are queued"
    return msgspec.json.encode(
        _Body(
            run_id=event.run_id,
            workspace_id=parcel.workspace or parcel.tenant,
            type=event.type,
            event=msgspec.Raw(event.to_json()),
        )
    )
