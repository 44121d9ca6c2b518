"""Delivery: every event that a subscription wants is delivered at least once, in order.

Each subscription has a lane of its own, so a slow receiver does not delay others. What is still to
be delivered is known from the log and from the cursors beside it, so that a restart loses nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec

from evalwright.contracts.errors import RunNotFound, StoreError
from evalwright.contracts.events import Event
from evalwright.contracts.planning import Owner
from evalwright.engine.clock import Clock
from evalwright.host.hosts import Hosts
from evalwright.host.principal import place_of, tenant_of
from evalwright.host.settings import WebhookSettings
from evalwright.host.webhooks import cursors, dead_letters
from evalwright.host.webhooks.cursors import CursorKeeper, cursor_key, first_cursor
from evalwright.host.webhooks.dead_letters import ParkedDelivery
from evalwright.host.webhooks.lanes import Lane, LaneState, lane_state
from evalwright.host.webhooks.posting import TIMEOUT_S, DeliveryReport, LaneTools, Poster
from evalwright.host.webhooks.subscriptions import Subscription, SubscriptionRequest, Subscriptions
from evalwright.store.protocol import ALL_RUNS, EventLog, NewEvent, RunFacts
from evalwright.store.records import RecordChange, RecordConflict

READERS = 2  # threads that read the log for all lanes
DELETED_AT_ONCE = 500
MOST_OPEN = 100_000  # runs of a tenant that a new subscription joins
JOIN_SECONDS = 0.3  # in which another host may create a run without knowing of it
NEWS = "webhooks"  # told like a run: subscriptions have changed
RESENDING = "webhook_resending"  # dead letters that the leader is to send again
_PAGE = 50

Found = TypeVar("Found")


class WebhookSender:
    """Delivers events to subscriptions; used from one event loop."""

    def __init__(
        self,
        log: EventLog,
        subscriptions: Subscriptions,
        poster: Poster,
        clock: Clock,
        settings: WebhookSettings,
        report: Callable[[DeliveryReport], None],
        hosts: Hosts | None = None,
    ) -> None:
        self._log = log
        self._hosts = hosts = hosts or Hosts(log.records)
        self._subscriptions = subscriptions
        self._poster = poster
        self._keeper = CursorKeeper(log.records, hosts)
        self._readers = ThreadPoolExecutor(READERS, "webhook-reader")
        self._tools = LaneTools(
            log, poster, self._keeper, clock, settings, self._readers, report, hosts
        )
        self._lanes: dict[str, dict[str, Lane]] = {}  # by tenant and webhook
        self._is_closing = False

    async def start(self) -> None:
        """Take up what an earlier process has not delivered."""
        for subscription in await self._read(self._subscriptions.load):
            self._add(subscription)

    async def close(self, grace_s: float = TIMEOUT_S) -> None:
        """Let attempts in flight end in the given time; the rest goes on at the next start."""
        self._is_closing = True
        lanes = list(self.lanes())
        tasks = [task for lane in lanes if (task := lane.stop(grace_s)) is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        for cursor in [cursor for lane in lanes for cursor in lane.cursors.values()]:
            self._keeper.note(cursor)
        await self._keeper.close()
        await self._poster.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def lanes(self) -> Iterable[Lane]:
        """The lanes of all tenants."""
        return (lane for of_tenant in self._lanes.values() for lane in of_tenant.values())

    def lane(self, tenant: str, webhook_id: str) -> Lane | None:
        """The lane of a subscription."""
        return self._lanes.get(tenant, {}).get(webhook_id)

    async def states(self, tenant: str) -> dict[str, tuple[LaneState, int]]:
        """The states of a tenant's webhooks with the numbers of their dead letters, by id.

        Where another host delivers, they are what that host has stored.
        """
        lanes = dict(self._lanes.get(tenant, {}))
        if not self._hosts.is_leader:
            return await self._read(
                lambda: {each: self._stored_state(lanes[each]) for each in lanes}
            )
        return {each: (lane.state, lane.parked) for each, lane in lanes.items()}

    def _stored_state(self, lane: Lane) -> tuple[LaneState, int]:
        subscription, records = lane.subscription, self._log.records
        place = records, subscription.tenant, subscription.webhook_id
        parked = dead_letters.count_dead_letters(*place)
        return lane_state(subscription, parked, cursors.most_attempts(*place)), parked

    def _add(self, subscription: Subscription) -> None:
        lane = Lane(subscription, self._tools)
        self._lanes.setdefault(subscription.tenant, {})[subscription.webhook_id] = lane
        lane.wake()

    async def _read(self, read: Callable[[], Found]) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    # Subscriptions.

    async def subscribe(
        self, tenant: str, workspace: str | None, wanted: SubscriptionRequest
    ) -> Subscription:
        """Create a subscription to what happens from now on, in new runs and in open ones.

        Raises `InvalidDocument`, and `EgressRefused` for its URL.
        """
        made = await self._subscriptions.create(tenant, workspace, wanted)
        # Every run that is created from here on begins with a cursor of this subscription.
        try:
            if not self._hosts.is_alone:
                await asyncio.sleep(JOIN_SECONDS)
            changes = await self._read(lambda: self._joined_runs(made))
            await asyncio.wrap_future(self._log.records.write(changes))
        except StoreError:
            with suppress(StoreError):
                await self._subscriptions.delete(made)
            raise
        self._add(made)
        self._log.tell([NEWS])
        return made

    def _joined_runs(self, subscription: Subscription) -> list[RecordChange]:
        """The cursors of runs that were open before there was the subscription."""
        tenant, prefix = subscription.tenant, f"{subscription.webhook_id}/"
        changes = []
        for run_id, partition in (*self._log.open_runs(), *self._recent_runs(subscription)):
            edges = self._edges(run_id) if tenant_of(partition) == tenant else []
            if not edges:
                continue
            workspace, tags = run_origin(edges[0].body)
            if subscription.follows(workspace, tags):
                is_new = not self._hosts.is_alone and edges[0].at_us >= subscription.created_us
                position = 0 if is_new else edges[-1].sequence + 1
                first = first_cursor(workspace, position=position)
                key, body = f"{prefix}{run_id}", msgspec.json.encode(first)
                changes.append(RecordChange(cursors.KIND, tenant, key, body))
        known = set(self._log.records.keys(cursors.KIND, tenant, prefix, limit=MOST_OPEN))
        return [change for change in changes if change.key not in known]

    def _recent_runs(self, subscription: Subscription) -> Iterator[tuple[str, str]]:
        """Runs that other hosts began since there is the subscription, and that have ended."""
        before, page = None, list[RunFacts]()
        while not self._hosts.is_alone and (page := self._log.find_runs(ALL_RUNS, _PAGE, before)):
            for run in page:
                if run.started_us < subscription.created_us:
                    return
                if run.ended_us is not None:
                    yield run.run_id, run.tenant
            before = page[-1].run_id

    def _edges(self, run_id: str) -> list[Event]:
        try:
            return self._log.edges(run_id)
        except RunNotFound:  # deleted meanwhile
            return []

    async def unsubscribe(self, tenant: str, workspace: str | None, webhook_id: str) -> bool:
        """Delete a subscription; False if the tenant, or the workspace, does not have it."""
        found = await self._read(lambda: self._subscriptions.find(tenant, workspace, webhook_id))
        if found is None:
            return False
        lane = self._lanes.get(tenant, {}).pop(webhook_id, None)
        task = lane.stop() if lane else None
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        try:
            with self._subscriptions.leaving(found):
                await self._keeper.forget(tenant, webhook_id)
                for kind in (cursors.KIND, dead_letters.KIND):
                    await self._delete_all(kind, tenant, f"{webhook_id}/")
                await self._subscriptions.delete(found)
        except BaseException:
            if not self._is_closing:
                self._add(found)
            raise
        self._log.tell([NEWS])
        return True

    async def _delete_all(self, kind: str, tenant: str, prefix: str) -> None:
        records = self._log.records
        while True:
            keys = await self._read(
                lambda: records.keys(kind, tenant, prefix, limit=DELETED_AT_ONCE)
            )
            if not keys:
                return
            changes = [RecordChange(kind, tenant, key, None) for key in keys]
            await asyncio.wrap_future(records.write(changes))

    # Dead letters.

    async def dead_letters(
        self, tenant: str, webhook_id: str, after: str, limit: int
    ) -> list[ParkedDelivery]:
        """Deliveries that were given up, run by run and in order, after a key."""
        records = self._log.records
        return await self._read(
            lambda: dead_letters.dead_letters(records, tenant, webhook_id, after, limit)
        )

    async def resend(self, lane: Lane, delivery_ids: Sequence[str] | None) -> int:
        """Send dead letters again: these, or all; gives how many."""
        found = await self._letters(lane, delivery_ids)
        if self._hosts.is_leader:
            lane.resend(found)
        elif found:
            subscription = lane.subscription
            place = RESENDING, subscription.tenant, subscription.webhook_id
            body = msgspec.json.encode([letter.delivery_id for letter in found])
            await asyncio.wrap_future(self._log.records.write([RecordChange(*place, body)]))
            self._log.tell([NEWS])
        return len(found)

    async def discard(self, lane: Lane, delivery_id: str) -> bool:
        """Delete a dead letter; False if there is none with this id."""
        found = await self._letters(lane, [delivery_id])
        await lane.discard(found)
        self._log.tell([NEWS])
        return bool(found)

    async def _letters(
        self, lane: Lane, delivery_ids: Sequence[str] | None
    ) -> list[ParkedDelivery]:
        subscription = lane.subscription
        found = await self.dead_letters(
            subscription.tenant, subscription.webhook_id, "", dead_letters.MOST_KEPT
        )
        wanted = None if delivery_ids is None else set(delivery_ids)
        return [letter for letter in found if wanted is None or letter.delivery_id in wanted]

    # Several hosts.

    async def follow_others(self) -> None:
        """Follow what other hosts did to subscriptions and dead letters."""
        before = list(self.lanes())
        found = {each.webhook_id: each for each in await self._read(self._subscriptions.load)}
        for lane in before:
            subscription = lane.subscription
            if subscription.webhook_id not in found:
                self._lanes[subscription.tenant].pop(subscription.webhook_id, None)
                await lane.leave()
                await self._keeper.forget(subscription.tenant, subscription.webhook_id)
        for webhook_id, subscription in found.items():
            lane_or_none = self.lane(subscription.tenant, webhook_id)
            if lane_or_none is None:
                self._add(subscription)
            else:
                lane_or_none.look()
        if self._hosts.is_leader:
            await self._resend_for_others()

    async def _resend_for_others(self) -> None:
        records = self._log.records
        for tenant, record in await self._read(lambda: records.of_all_tenants(RESENDING)):
            lane = self.lane(tenant, record.key)
            if lane is not None:
                lane.resend(await self._letters(lane, msgspec.json.decode(record.body)))
            removal = RecordChange(RESENDING, tenant, record.key, None, record.body)
            with suppress(RecordConflict):
                await asyncio.wrap_future(records.write([removal]))

    async def leave(self) -> None:
        """Deliver no more: another host does."""
        await asyncio.gather(*(lane.leave() for lane in self.lanes()))
        await self._keeper.drop()

    async def hear_of(self, run_ids: Sequence[str]) -> None:
        """Take note of runs to which other processes have appended."""
        if not self._hosts.is_leader or not any(self._lanes.values()):
            return
        for run in await self._read(lambda: self._facts(run_ids)):
            tenant, _, workspace = place_of(run.tenant).partition("/")
            for lane in list(self._lanes.get(tenant, {}).values()):
                if lane.subscription.follows(workspace or None, run.tags):
                    lane.look(run.run_id)

    def _facts(self, run_ids: Sequence[str]) -> list[RunFacts]:
        found = []
        for run_id in run_ids:
            with suppress(RunNotFound):
                found.append(self._log.facts(run_id))
        return found

    # Runs.

    def first_cursors(
        self, tenant: str, run_id: str, events: Sequence[NewEvent], repeated: range
    ) -> list[RecordChange]:
        """The cursors of a new run, to be written with its first events; any thread may ask."""
        known = self._subscriptions.remembered(tenant)
        if not known or _is_replay(repeated):
            return []
        workspace, tags = run_origin(events[0].body)
        body = msgspec.json.encode(first_cursor(workspace, repeated))
        return [
            RecordChange(cursors.KIND, tenant, cursor_key(each.webhook_id, run_id), body)
            for each in known
            if each.follows(workspace, tags)
        ]

    def hear(
        self,
        tenant: str,
        workspace: str | None,
        tags: Sequence[str],
        events: Sequence[Event],
        repeated: range = range(0),
    ) -> None:
        """Take note of durable events of a run, in order; does not block."""
        lanes = self._lanes.get(tenant) if self._hosts.is_leader else None
        if not lanes or self._is_closing or _is_replay(repeated):
            return
        for lane in lanes.values():
            if lane.subscription.follows(workspace, tags):
                lane.hear(events[0].run_id, workspace, events, repeated)


class _WebhookOrigin(msgspec.Struct):
    """The part of `run.started` that decides who follows a run."""

    owner: Owner | None = None
    tags: list[str] | None = None


def run_origin(started: bytes) -> tuple[str | None, list[str]]:
    """The workspace and the tags of a run, from its `run.started` event."""
    try:
        origin = msgspec.json.decode(started, type=_WebhookOrigin)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # damaged: it is of no workspace
        return None, []
    return origin.owner.workspace if origin.owner else None, origin.tags or []


def _is_replay(repeated: range) -> bool:
    """Whether a run repeats another from its first event on."""
    return bool(repeated) and repeated.start == 0
