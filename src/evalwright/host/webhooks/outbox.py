"""The outbox: every event that a subscription wants is delivered at least once, in order.

Each subscription has a lane of its own, so a slow receiver does not delay others. What is still to
be delivered is known from the log and from the cursors beside it, so that a restart loses nothing.
Of several hosts the leader delivers, and all of them can change what is delivered.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

import msgspec

from evalwright.contracts.errors import RunNotFound, StoreError
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.contracts.run_plan import Owner
from evalwright.engine.clock import Clock
from evalwright.host.access.keys import place_of, tenant_of
from evalwright.host.hosts import Hosts
from evalwright.host.http.settings import WebhookSettings
from evalwright.host.webhooks import cursors, dead_letters
from evalwright.host.webhooks.cursors import Cursor, CursorKeeper, cursor_key, first_cursor
from evalwright.host.webhooks.dead_letters import MOST_KEPT, ParkedDelivery
from evalwright.host.webhooks.post import (
    TIMEOUT_S,
    Attempt,
    AttemptResult,
    DeliveryOutcome,
    DeliveryReport,
    Poster,
    delivery_id,
)
from evalwright.host.webhooks.subscriptions import Subscription, SubscriptionRequest, Subscriptions
from evalwright.store.protocol import ALL_RUNS, EventLog, NewEvent, RunFacts
from evalwright.store.records import RecordChange, RecordConflict

READERS = 2  # threads that read the log for all lanes
LISTED_AT_ONCE = 100  # cursors
MOST_NEWS = 1000  # runs with news that a lane remembers; the others are looked up in the store
MOST_TIDIED = 1000  # cursors of a lane that say at the end how far events were sent
DELETED_AT_ONCE = 500
MOST_OPEN = 100_000  # runs of a tenant that a new subscription joins
STORE_RETRY_S = (0.5, 10.0)  # after a failure of the store: at first, and at most
JOIN_SECONDS = 0.3  # in which another host may create a run without knowing of it
LOOK_SECONDS = 10.0  # between two looks at what other hosts do, whatever was heard
TOGETHER_SECONDS = 0.05  # in which news wait for more
NEWS = "webhooks"  # told like a run: subscriptions have changed
RESENDING = "webhook_resending"  # dead letters that the leader is to send again
_PAGE = 50

LaneState = Literal["active", "failed", "dead-lettered"]
Found = TypeVar("Found")

_log = logging.getLogger(__name__)
_random = random.Random()  # noqa: S311 - it only spreads attempts over time


class Outbox:
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
        self.log = log
        self.poster = poster
        self.clock = clock
        self.settings = settings
        self.report = report
        self.hosts = hosts or Hosts(log.records)
        self.keeper = CursorKeeper(log.records, self.hosts)
        self._subscriptions = subscriptions
        self._readers = ThreadPoolExecutor(READERS, "webhook-reader")
        self._lanes: dict[str, dict[str, Lane]] = {}  # by tenant and webhook
        self._was_leader = self.hosts.is_leader
        self._others_changed = False  # subscriptions or dead letters, or perhaps anything
        self._others_runs: dict[str, None] = {}  # to which others have appended
        self._others_came = asyncio.Event()
        self._is_closing = False

    async def start(self) -> None:
        """Take up what an earlier process has not delivered."""
        for subscription in await self.read(self._subscriptions.load):
            self._add(subscription)

    async def close(self, grace_s: float = TIMEOUT_S) -> None:
        """Let attempts in flight end in the given time; the rest goes on at the next start."""
        if self._is_closing:
            return
        self._is_closing = True
        await _stop(self.lanes(), grace_s)
        await self.keeper.close()
        if self.hosts.is_leader:
            with suppress(StoreError):
                await self.write([*self.hosts.fence, *await self.read(self._tidied_cursors)])
        await self.poster.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _tidied_cursors(self) -> list[RecordChange]:
        """The cursors of this process, without the events that it could have sent and did not."""
        changes = []
        for subscription in [lane.subscription for lane in self.lanes()]:
            tenant, webhook_id = subscription.tenant, subscription.webhook_id
            prefix = f"{webhook_id}/"
            for each in self.log.records.list(cursors.KIND, tenant, prefix, "", MOST_TIDIED):
                with suppress(msgspec.MsgspecError):  # it is damaged
                    changes += cursors.tidied(tenant, webhook_id, each)
        return changes

    def lanes(self) -> Iterable["Lane"]:
        """The lanes of all tenants."""
        return (lane for of_tenant in self._lanes.values() for lane in of_tenant.values())

    def lane(self, tenant: str, webhook_id: str) -> "Lane | None":
        """The lane of a subscription."""
        return self._lanes.get(tenant, {}).get(webhook_id)

    async def states(self, tenant: str) -> dict[str, tuple[LaneState, int]]:
        """The states of a tenant's webhooks with the numbers of their dead letters, by id.

        Where another host delivers, they are what that host has stored.
        """
        lanes = dict(self._lanes.get(tenant, {}))
        if self.hosts.is_leader:
            return {each: (lane.state, lane.parked) for each, lane in lanes.items()}

        def stored(webhook_id: str) -> tuple[LaneState, int]:
            place = self.log.records, tenant, webhook_id
            parked = dead_letters.count_dead_letters(*place)
            failures = cursors.most_attempts(*place)
            return _state(lanes[webhook_id].subscription, parked, failures), parked

        return await self.read(lambda: {each: stored(each) for each in lanes})

    def _add(self, subscription: Subscription) -> None:
        lane = Lane(subscription, self)
        self._lanes.setdefault(subscription.tenant, {})[subscription.webhook_id] = lane
        lane.wake()

    async def read(self, read: Callable[[], Found]) -> Found:
        """Read the store, not on the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def write(self, changes: Sequence[RecordChange]) -> None:
        """Write documents as one unit."""
        await asyncio.wrap_future(self.log.records.write(changes))

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
            if not self.hosts.is_alone:
                await asyncio.sleep(JOIN_SECONDS)
            changes = await self.read(lambda: self._joined_runs(made))
            await self.write(changes)
        except StoreError:
            with suppress(StoreError):
                await self._subscriptions.delete(made)
            raise
        self._add(made)
        self.log.publish([NEWS])
        return made

    def _joined_runs(self, subscription: Subscription) -> list[RecordChange]:
        """The cursors of runs that were open before there was the subscription."""
        tenant, prefix = subscription.tenant, f"{subscription.webhook_id}/"
        changes = []
        for run_id, partition in (*self.log.open_runs(), *self._recent_runs(subscription)):
            edges: list[Event] = []
            with suppress(RunNotFound):  # deleted meanwhile
                edges = self.log.edges(run_id) if tenant_of(partition) == tenant else []
            if not edges:
                continue
            workspace, tags = run_origin(edges[0].body)
            if subscription.follows(workspace, tags):
                is_new = not self.hosts.is_alone and edges[0].at_us >= subscription.created_us
                position = 0 if is_new else edges[-1].sequence + 1
                first = first_cursor(workspace, position=position)
                key, body = f"{prefix}{run_id}", msgspec.json.encode(first)
                changes.append(RecordChange(cursors.KIND, tenant, key, body))
        known = set(self.log.records.keys(cursors.KIND, tenant, prefix, limit=MOST_OPEN))
        return [change for change in changes if change.key not in known]

    def _recent_runs(self, subscription: Subscription) -> Iterator[tuple[str, str]]:
        """Runs that other hosts began since there is the subscription, and that have ended."""
        before, page = None, list[RunFacts]()
        while not self.hosts.is_alone and (page := self.log.find_runs(ALL_RUNS, _PAGE, before)):
            for run in page:
                if run.started_us < subscription.created_us:
                    return
                if run.ended_us is not None:
                    yield run.run_id, run.tenant
            before = page[-1].run_id

    async def unsubscribe(self, tenant: str, workspace: str | None, webhook_id: str) -> bool:
        """Delete a subscription; False if the tenant, or the workspace, does not have it."""
        found = await self.read(lambda: self._subscriptions.find(tenant, workspace, webhook_id))
        if found is None:
            return False

        def listed(kind: str) -> Sequence[str]:
            return self.log.records.keys(kind, tenant, f"{webhook_id}/", limit=DELETED_AT_ONCE)

        lane = self._lanes.get(tenant, {}).pop(webhook_id, None)
        await _stop([lane] if lane else [])
        try:
            with self._subscriptions.leaving(found):
                await self.keeper.forget(tenant, webhook_id)
                for kind in (cursors.KIND, dead_letters.KIND):
                    while keys := await self.read(partial(listed, kind)):
                        await self.write([RecordChange(kind, tenant, key, None) for key in keys])
                await self._subscriptions.delete(found)
        except BaseException:
            if not self._is_closing:
                self._add(found)
            raise
        self.log.publish([NEWS])
        return True

    # Dead letters.

    async def dead_letters(
        self, tenant: str, webhook_id: str, after: str, limit: int
    ) -> list[ParkedDelivery]:
        """Deliveries that were given up, run by run and in order, after a key."""
        records = self.log.records
        return await self.read(
            lambda: dead_letters.dead_letters(records, tenant, webhook_id, after, limit)
        )

    async def resend(self, lane: "Lane", delivery_ids: Sequence[str] | None) -> int:
        """Send dead letters again: these, or all; gives how many."""
        found = await self._letters(lane, delivery_ids)
        if self.hosts.is_leader:
            lane.resend(found)
        elif found:
            subscription = lane.subscription
            place = RESENDING, subscription.tenant, subscription.webhook_id
            body = msgspec.json.encode([letter.delivery_id for letter in found])
            await self.write([RecordChange(*place, body)])
            self.log.publish([NEWS])
        return len(found)

    async def discard(self, lane: "Lane", delivery_id: str) -> bool:
        """Delete a dead letter; False if there is none with this id."""
        found = await self._letters(lane, [delivery_id])
        await lane.discard(found)
        self.log.publish([NEWS])
        return bool(found)

    async def _letters(
        self, lane: "Lane", delivery_ids: Sequence[str] | None
    ) -> list[ParkedDelivery]:
        subscription = lane.subscription
        found = await self.dead_letters(
            subscription.tenant, subscription.webhook_id, "", dead_letters.MOST_KEPT
        )
        wanted = None if delivery_ids is None else set(delivery_ids)
        return [letter for letter in found if wanted is None or letter.delivery_id in wanted]

    # Several hosts.

    def hear_others(self, run_ids: Sequence[str] | None) -> None:
        """Take note of what other processes tell."""
        if run_ids is None or NEWS in run_ids:
            self._others_changed = True
        self._others_runs.update(dict.fromkeys(run_ids or ()))
        self._others_came.set()

    async def beaten(self) -> None:
        """Begin or cease to deliver, when this host becomes the leader or is it no longer."""
        is_leader = self.hosts.is_leader
        if is_leader is self._was_leader:
            return
        self._was_leader = is_leader
        if is_leader:
            self.hear_others(None)
        else:
            resting = list(self.lanes())
            await _stop(resting)
            await self.keeper.drop()
            for lane in resting:
                self._add(lane.subscription)

    async def follow(self) -> None:
        """Follow the other hosts."""
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        while not self.hosts.is_alone:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._others_came.wait()
                await asyncio.sleep(TOGETHER_SECONDS)
            self._others_came.clear()
            runs, self._others_runs = self._others_runs, {}
            runs.pop(NEWS, None)
            is_changed = self._others_changed or loop.time() - looked_at > LOOK_SECONDS
            self._others_changed = False
            try:
                if is_changed:
                    looked_at = loop.time()
                    await self._look_at_everything()
                elif runs:
                    await self._look_at_runs(list(runs))
            except StoreError as error:
                _log.warning("the webhooks of other hosts are not followed: %s", error)

    async def _look_at_everything(self) -> None:
        """Follow what other hosts did to subscriptions and dead letters."""
        before = list(self.lanes())
        found = {each.webhook_id: each for each in await self.read(self._subscriptions.load)}
        for lane in before:
            subscription = lane.subscription
            if subscription.webhook_id not in found:
                self._lanes[subscription.tenant].pop(subscription.webhook_id, None)
                await _stop([lane])
                await self.keeper.forget(subscription.tenant, subscription.webhook_id)
        for webhook_id, subscription in found.items():
            lane_or_none = self.lane(subscription.tenant, webhook_id)
            if lane_or_none is None:
                self._add(subscription)
            else:
                lane_or_none.look()
        if not self.hosts.is_leader:
            return
        records = self.log.records
        for tenant, record in await self.read(lambda: records.of_all_tenants(RESENDING)):
            lane_or_none = self.lane(tenant, record.key)
            if lane_or_none is not None:
                wanted = msgspec.json.decode(record.body)
                lane_or_none.resend(await self._letters(lane_or_none, wanted))
            removal = RecordChange(RESENDING, tenant, record.key, None, record.body)
            with suppress(RecordConflict):
                await self.write([removal])

    async def _look_at_runs(self, run_ids: Sequence[str]) -> None:
        """Read what other processes have appended."""
        if not self.hosts.is_leader or not any(self._lanes.values()):
            return

        def known() -> Iterator[RunFacts]:
            for run_id in run_ids:
                with suppress(RunNotFound):
                    yield self.log.facts(run_id)

        for run in await self.read(lambda: list(known())):
            tenant, _, workspace = place_of(run.tenant).partition("/")
            for lane in list(self._lanes.get(tenant, {}).values()):
                if lane.subscription.follows(workspace or None, run.tags):
                    lane.look(run.run_id)

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
        lanes = self._lanes.get(tenant) if self.hosts.is_leader else None
        if not lanes or self._is_closing or _is_replay(repeated):
            return
        for lane in lanes.values():
            if lane.subscription.follows(workspace, tags):
                lane.hear(events)


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


async def _stop(lanes: Iterable["Lane"], grace_s: float = 0.0) -> None:
    """End lanes for good, those with an attempt in flight after some time."""
    tasks = [task for lane in lanes if (task := lane.stop(grace_s)) is not None]
    await asyncio.gather(*tasks, return_exceptions=True)


def _state(subscription: Subscription, parked: int, failures: int) -> LaneState:
    """What a subscription is said to be, in the words of the protocol."""
    if parked >= MOST_KEPT:
        return "dead-lettered"
    return "failed" if failures or subscription.secret is None else "active"


class Lane:
    """The deliveries to one subscription, one after the other, read from the log.

    A lane holds the page of events that it delivers, and the names of runs that have news;
    everything else is in the log and in the store. Where another host leads, lanes rest.
    """

    def __init__(self, subscription: Subscription, outbox: Outbox) -> None:
        self.subscription = subscription
        self.parked = 0  # dead letters
        self.failures = 0  # in a row
        self._outbox = outbox
        self._place = subscription.tenant, subscription.webhook_id
        self._wants: dict[str, bool] = {}  # by type of event
        self._news: dict[str, None] = {}  # runs that may have undelivered events, in order
        self._unread: str | None = ""  # stored cursors after this key have not been looked at
        self._resending: deque[ParkedDelivery] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_counted = False
        self._is_posting = False
        self._is_stopping = False

    @property
    def state(self) -> LaneState:
        """What the subscription is said to be."""
        return _state(self.subscription, self.parked, self.failures)

    def hear(self, events: Sequence[Event]) -> None:
        """Take note of new events of a run that the subscription follows."""
        if any(event.type in TERMINAL_TYPES or self._is_wanted(event.type) for event in events):
            self.look(events[0].run_id)

    def look(self, run_id: str | None = None) -> None:
        """Read the log: there are new events of a run, or perhaps of any."""
        if run_id is None:
            self._unread = ""
            self._is_counted = False  # dead letters, too, may have been discarded
        elif len(self._news) < MOST_NEWS:
            self._news[run_id] = None
        else:
            self._unread = ""  # the store knows of it
        self.wake()

    def wake(self) -> None:
        """Work, unless it is working already."""
        if self._task is None and not self._is_stopping and self._outbox.hosts.is_leader:
            self._task = asyncio.create_task(self._work())

    def stop(self, grace_s: float = 0.0) -> "asyncio.Task[None] | None":
        """Break off, an attempt in flight after some time; gives the task to wait for."""
        self._is_stopping = True
        task = self._task
        if task is not None and (self._is_posting and grace_s > 0):
            asyncio.get_running_loop().call_later(grace_s, task.cancel)
        elif task is not None:
            task.cancel()
        return task

    def resend(self, letters: Sequence[ParkedDelivery]) -> None:
        """Attempt to deliver dead letters once more, until one fails."""
        known = {letter.key for letter in self._resending}
        self._resending.extend(letter for letter in letters if letter.key not in known)
        self.wake()

    async def discard(self, letters: Sequence[ParkedDelivery]) -> None:
        """Delete dead letters; those that are about to be sent again are not sent."""
        gone = {letter.key for letter in letters}
        self._resending = deque(each for each in self._resending if each.key not in gone)
        await self._outbox.write([letter.removal(self.subscription.tenant) for letter in letters])
        self._is_counted = False
        self.wake()

    def _is_wanted(self, event_type: str) -> bool:
        is_wanted = self._wants.get(event_type)
        if is_wanted is None:
            is_wanted = self._wants[event_type] = self.subscription.wants(event_type)
        return is_wanted

    async def _work(self) -> None:
        pause_s = STORE_RETRY_S[0]
        try:
            while self._has_work and self._outbox.hosts.is_leader:
                try:
                    await self._step()
                    pause_s = STORE_RETRY_S[0]
                except Exception as error:  # noqa: BLE001 - one run must not end the lane
                    self._is_counted = False
                    webhook_id = self.subscription.webhook_id
                    if isinstance(error, StoreError):
                        _log.warning("webhook %s waits for the store: %s", webhook_id, error)
                    else:  # its message may hold content
                        name = type(error).__name__
                        _log.error("webhook %s: internal error %s", webhook_id, name)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, STORE_RETRY_S[1])
        finally:
            self._task = None

    @property
    def _has_work(self) -> bool:
        if not self._is_counted:
            return True
        if self.subscription.secret is None:  # nothing can be signed
            return False
        if self._resending:
            return True
        return self.parked < MOST_KEPT and bool(self._news or self._unread is not None)

    async def _step(self) -> None:
        records = self._outbox.log.records
        tenant, webhook_id = self._place
        if not self._is_counted:
            self._is_counted = True  # unless others are discarded meanwhile
            self.parked = await self._outbox.read(
                lambda: dead_letters.count_dead_letters(records, tenant, webhook_id)
            )
        elif self._resending:
            await self._resend_next()
        elif self._news:
            await self._advance(next(iter(self._news)))
        else:  # look at the next stored cursors
            after, prefix = self._unread or "", f"{webhook_id}/"
            found = await self._outbox.read(
                lambda: records.keys(cursors.KIND, tenant, prefix, after, LISTED_AT_ONCE)
            )
            self._unread = found[-1] if len(found) == LISTED_AT_ONCE else None
            self._news.update((key.removeprefix(prefix), None) for key in found)

    async def _advance(self, run_id: str) -> None:
        """Deliver a page of a run's events; the run waits for its next turn if there are more."""
        keeper, log, types = self._outbox.keeper, self._outbox.log, self.subscription.exact_types
        wanted = (*types, *TERMINAL_TYPES) if types else ()
        self._news.pop(run_id)  # news from now on enter it again
        try:
            cursor = await keeper.load(*self._place, run_id)
        except StoreError:
            self._news[run_id] = None
            raise
        if cursor is None:
            return
        try:
            page, has_more = await self._outbox.read(lambda: cursor.read(log, wanted))
            if cursor.is_foreign:  # from here on it is of this process
                cursor.is_foreign = False
                keeper.note(cursor)
            while page and self.parked < MOST_KEPT:  # else somebody has to look first
                event = page.pop(0)
                if self._is_wanted(event.type) and event.sequence not in cursor.repeated:
                    await self._deliver(cursor, event)
                else:
                    self._settle(cursor, event)
            if page or has_more:
                self._news[run_id] = None
        except RunNotFound:  # deleted meanwhile
            cursor.is_done = True
            keeper.note(cursor)
        except BaseException:
            self._news[run_id] = None
            raise

    def _settle(self, cursor: Cursor, event: Event) -> None:
        """Go on after an event that was delivered, parked, or not wanted."""
        cursor.settle(event)
        self._outbox.keeper.note(cursor)

    async def _deliver(self, cursor: Cursor, event: Event) -> None:
        """Attempt to deliver an event until it is taken or parked."""
        if cursor.attempts and self.failures == 0:  # an earlier process has just tried
            self.failures = cursor.attempts
            await self._pause()
        settings, keeper = self._outbox.settings, self._outbox.keeper
        while True:
            if event.sequence >= cursor.reach:
                await keeper.save(cursor)
            number, is_repeat = cursor.attempts + 1, cursor.is_repeat
            cursor.attempts += 1
            result = await self._post(event, cursor.workspace, number, is_repeat=is_repeat)
            if result.is_delivered:
                self._settle(cursor, event)
                self._break_off()
                return
            age_s = (self._outbox.clock.now_us() - event.at_us) / 1_000_000
            if cursor.attempts >= settings.max_attempts or age_s > settings.max_age_s:
                await self._park(cursor, event, result)
                return
            keeper.note(cursor)
            self._break_off()
            await self._pause()

    def _break_off(self) -> None:
        if self._is_stopping:
            raise asyncio.CancelledError

    async def _pause(self) -> None:
        """Wait before the next attempt."""
        delay_s = self._outbox.settings.retry_delay_s(self.failures)
        await asyncio.sleep(delay_s * _random.uniform(0.8, 1.0))

    async def _post(
        self, event: Event, workspace: str | None, number: int, *, is_repeat: bool
    ) -> AttemptResult:
        if not self._outbox.hosts.is_leader:  # another host may have sent it
            raise asyncio.CancelledError
        name = delivery_id(self.subscription.webhook_id, event.run_id, event.sequence)
        attempt = Attempt(name, number, is_repeat)
        self._is_posting = True
        try:
            result = await self._outbox.poster.post(self.subscription, event, workspace, attempt)
        finally:
            self._is_posting = False
        self.failures = 0 if result.is_delivered else self.failures + 1
        self._report(result.outcome, result.reason, event, result.seconds)
        return result

    async def _park(self, cursor: Cursor, event: Event, result: AttemptResult) -> None:
        """Give an event up: keep it as a dead letter, and go on with the next one."""
        letter = ParkedDelivery(
            webhook_id=self.subscription.webhook_id,
            run_id=event.run_id,
            sequence=event.sequence,
            event_type=event.type,
            workspace=cursor.workspace,
            attempts=cursor.attempts,
            parked_us=self._outbox.clock.now_us(),
            last_reason=result.reason,
            last_status=result.status,
        )
        cursor.settle(event)
        self.parked += 1
        await self._outbox.keeper.save(cursor, [letter.change(self.subscription.tenant)])
        self._report("parked", result.reason, event)

    async def _resend_next(self) -> None:
        """Attempt to deliver a dead letter; after a failure, the others stay as they are."""
        letter, tenant = self._resending[0], self.subscription.tenant
        event = await self._outbox.read(lambda: dead_letters.find_event(self._outbox.log, letter))
        result = None
        if event is not None and letter in self._resending:
            number = letter.attempts + 1
            result = await self._post(event, letter.workspace, number, is_repeat=True)
        if letter not in self._resending:  # it was discarded meanwhile
            return
        if result is not None and not result.is_delivered:
            self._resending.clear()
            await self._outbox.write([letter.tried_again(result).change(tenant)])
            return
        await self._outbox.write([letter.removal(tenant)])
        self.parked -= 1
        if letter in self._resending:
            self._resending.remove(letter)

    def _report(
        self, outcome: DeliveryOutcome, reason: str, event: Event, seconds: float | None = None
    ) -> None:
        place = (*self._place, event.run_id, event.type)
        self._outbox.report(DeliveryReport(outcome, reason, *place, seconds))
