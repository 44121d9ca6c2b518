"""The outbox: every event that a subscription wants is delivered at least once, in order.

A row for each of these events is written with it, by whoever appends. Each subscription has a lane
of its own, so a slow receiver does not delay others. Of several hosts the leader delivers, and all
of them can change what is delivered.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Literal, NamedTuple, TypeVar

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound, StoreError
from evalwright.contracts.events import Event
from evalwright.engine.clock import Clock
from evalwright.host.access.keys import place_of
from evalwright.host.http.settings import WebhookSettings
from evalwright.host.runs.cluster import Hosts
from evalwright.host.webhooks import dead_letters
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
from evalwright.store import outbox
from evalwright.store.protocol import EventLog
from evalwright.store.records import Execute, RecordChange, RecordConflict

READERS = 2  # threads that read the log for all lanes
BATCH = 32  # events that may be sent between two writes
PAGE_BYTES = 1024 * 1024  # of events that a lane holds at most, beyond the first
STORE_RETRY_S = (0.5, 10.0)  # after a failure of the store: at first, and at most
POLL_SECONDS = 10.0  # between two readings of what other hosts do, whatever was heard
TOGETHER_SECONDS = 0.05  # between two looks at the rows of the outbox
NEWS = "webhooks"  # told like a run: subscriptions or dead letters have changed
SESSION = secrets.token_hex(4)  # which process was about to send a row

LaneState = Literal["active", "failed", "dead-lettered"]
Found = TypeVar("Found")

_log = logging.getLogger(__name__)
_random = random.Random()  # noqa: S311 - it only spreads attempts over time

_DUE = (
    "SELECT id, run_id, tenant, seq, session, attempts FROM webhook_outbox"
    " WHERE webhook_id = $1 ORDER BY id LIMIT $2"
)
_CLAIM = (
    "UPDATE webhook_outbox SET session = $1"
    " WHERE webhook_id = $2 AND id <= $3 AND (session IS NULL OR session <> $1)"
)
_UNCLAIM = "UPDATE webhook_outbox SET session = NULL WHERE session = $1 AND attempts = 0"
_TRIED = "UPDATE webhook_outbox SET attempts = $1 WHERE id = $2"
_MOST_ATTEMPTS = "SELECT max(attempts) FROM webhook_outbox WHERE webhook_id = $1"
_PENDING = "SELECT DISTINCT webhook_id FROM webhook_outbox"
_LEFT_OVER = (
    "DELETE FROM webhook_outbox WHERE webhook_id NOT IN (SELECT webhook_id FROM webhook_followers)"
)


class _DueDelivery(NamedTuple):
    """A row of the outbox."""

    id: int
    run_id: str
    partition: str
    sequence: int
    session: str | None
    attempts: int


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
        self._subscriptions = subscriptions
        self._readers = ThreadPoolExecutor(READERS, "webhook-reader")
        self._lanes: dict[str, dict[str, Lane]] = {}  # by tenant and webhook
        self._was_leader = self.hosts.is_leader
        self._others_changed = False  # subscriptions or dead letters, or perhaps anything
        self._came = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._is_closing = False

    async def start(self) -> None:
        """Take up what an earlier process has not delivered."""
        found = await self.read(self._subscriptions.load)
        await self.write(await self.read(lambda: self._subscriptions.followers(found)))
        for subscription in found:
            self._add(subscription)
        self._following = asyncio.create_task(self._follow())

    async def close(self, grace_s: float = TIMEOUT_S) -> None:
        """Let attempts in flight end in the given time; the rest goes on at the next start."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._following is not None:
            self._following.cancel()
        await _stop(self.lanes(), grace_s)
        if self.hosts.is_leader:
            saved = [change for lane in self.lanes() for change in lane.unsaved()]
            with suppress(StoreError):
                await self.write([*saved, Execute(_UNCLAIM, (SESSION,))])
        await self.poster.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def lanes(self) -> Iterable["Lane"]:
        """The lanes of all tenants."""
        return [lane for of_tenant in self._lanes.values() for lane in of_tenant.values()]

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
            records = self.log.records
            parked = dead_letters.count_dead_letters(records, tenant, webhook_id)
            ((attempts,),) = records.rows(_MOST_ATTEMPTS, webhook_id)
            return _state(lanes[webhook_id].subscription, parked, attempts or 0), parked

        return await self.read(lambda: {each: stored(each) for each in lanes})

    def _add(self, subscription: Subscription) -> None:
        lane = Lane(subscription, self)
        self._lanes.setdefault(subscription.tenant, {})[subscription.webhook_id] = lane
        lane.wake()

    async def read(self, read: Callable[[], Found]) -> Found:
        """Read the store, not on the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def write(self, changes: Sequence[RecordChange | Execute]) -> None:
        """Write changes as one unit."""
        if changes:
            await asyncio.wrap_future(self.log.records.write(changes))

    # Subscriptions.

    async def subscribe(
        self, tenant: str, workspace: str | None, wanted: SubscriptionRequest
    ) -> Subscription:
        """Create a subscription to what happens from now on, in new runs and in open ones.

        Raises `InvalidDocument`, and `EgressRefused` for its URL.
        """
        made = await self._subscriptions.create(tenant, workspace, wanted)
        self._add(made)
        self.log.publish([NEWS])
        return made

    async def unsubscribe(self, tenant: str, workspace: str | None, webhook_id: str) -> bool:
        """Delete a subscription; False if the tenant, or the workspace, does not have it."""
        found = await self.read(lambda: self._subscriptions.find(tenant, workspace, webhook_id))
        if found is None:
            return False
        lane = self._lanes.get(tenant, {}).pop(webhook_id, None)
        await _stop([lane] if lane else [])
        try:
            letters = await self.dead_letters(tenant, webhook_id, "", MOST_KEPT)
            await self._subscriptions.delete(found, [each.removal(tenant) for each in letters])
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
        tenant = lane.subscription.tenant
        marked = [msgspec.structs.replace(each, is_resent=True) for each in found]
        await self.write([each.change(tenant) for each in marked])
        lane.check_letters()
        self.log.publish([NEWS])
        return len(found)

    async def discard(self, lane: "Lane", delivery_id: str) -> bool:
        """Delete a dead letter; False if there is none with this id."""
        found = await self._letters(lane, [delivery_id])
        await self.write([letter.removal(lane.subscription.tenant) for letter in found])
        lane.check_letters()
        self.log.publish([NEWS])
        return bool(found)

    async def _letters(
        self, lane: "Lane", delivery_ids: Sequence[str] | None
    ) -> list[ParkedDelivery]:
        subscription = lane.subscription
        found = await self.dead_letters(subscription.tenant, subscription.webhook_id, "", MOST_KEPT)
        wanted = None if delivery_ids is None else set(delivery_ids)
        return [letter for letter in found if wanted is None or letter.delivery_id in wanted]

    # What was appended, here and by others: a row of the outbox says who is to be sent it.

    def on_append(self, tenant: str) -> None:
        """Look for rows soon: events of a tenant are durable."""
        if self._lanes.get(tenant):
            self._came.set()

    def on_news(self, run_ids: Sequence[str] | None) -> None:
        """Take note of what other processes tell."""
        if run_ids is None or NEWS in run_ids:
            self._others_changed = True
        self._came.set()

    async def beaten(self) -> None:
        """Begin or cease to deliver, when this host becomes the leader or is it no longer."""
        is_leader = self.hosts.is_leader
        if is_leader is self._was_leader:
            return
        self._was_leader = is_leader
        if is_leader:
            self.on_news(None)
        else:
            resting = self.lanes()
            await _stop(resting)
            for lane in resting:
                self._add(lane.subscription)

    async def _follow(self) -> None:
        """Wake lanes that have something to send, and follow the other processes."""
        loop = asyncio.get_running_loop()
        read_at = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._came.wait()
            self._came.clear()
            is_changed = self._others_changed or loop.time() - read_at > POLL_SECONDS
            self._others_changed = False
            try:
                if is_changed and not self.hosts.is_alone:
                    read_at = loop.time()
                    await self._reload()
                elif self.hosts.is_leader and any(self._lanes.values()):
                    rows = await self.read(lambda: self.log.records.rows(_PENDING))
                    pending = {webhook_id for (webhook_id,) in rows}
                    for lane in self.lanes():
                        if lane.subscription.webhook_id in pending:
                            lane.wake()
            except StoreError as error:
                _log.warning("the webhooks of other hosts are not followed: %s", error)
            await asyncio.sleep(TOGETHER_SECONDS)

    async def _reload(self) -> None:
        """Follow what other processes did to subscriptions and dead letters."""
        before = self.lanes()
        found = {each.webhook_id: each for each in await self.read(self._subscriptions.load)}
        for lane in before:
            subscription = lane.subscription
            if subscription.webhook_id not in found:
                self._lanes[subscription.tenant].pop(subscription.webhook_id, None)
                await _stop([lane])
        for webhook_id, subscription in found.items():
            known = self.lane(subscription.tenant, webhook_id)
            if known is None:
                self._add(subscription)
            else:
                known.check_letters()
        if (
            self.hosts.is_leader
            and before
            and await self.read(
                lambda: {each for (each,) in self.log.records.rows(_PENDING)} - found.keys()
            )
        ):
            await self.write([Execute(_LEFT_OVER)])


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
    """The deliveries to one subscription, one after the other; where another host leads, it rests.

    A few rows are claimed for this process, sent, and forgotten together. A row that another
    process has claimed may have been sent: it is marked as a possible repeat.
    """

    def __init__(self, subscription: Subscription, outbox: Outbox) -> None:
        self.subscription = subscription
        self.parked = 0  # dead letters
        self.failures = 0  # in a row
        self._outbox = outbox
        self._place = subscription.tenant, subscription.webhook_id
        self._done: list[int] = []  # rows that were sent, and are still to be forgotten
        self._attempts: dict[int, int] = {}  # at rows, as far as that may not be stored
        self._task: asyncio.Task[None] | None = None
        self._has_news = True
        self._checks_letters = True
        self._is_posting = False
        self._is_stopping = False

    @property
    def state(self) -> LaneState:
        """What the subscription is said to be."""
        return _state(self.subscription, self.parked, self.failures)

    def check_letters(self) -> None:
        """Read dead letters, too: some may have been discarded, or are to be sent again."""
        self._checks_letters = True
        self.wake()

    def wake(self) -> None:
        """Work, unless it is working already."""
        self._has_news = True
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

    def unsaved(self) -> list[Execute]:
        """What is to be written of rows: those that were sent, and attempts at others."""
        tried = [Execute(_TRIED, (n, row)) for row, n in self._attempts.items()]
        return [*outbox.sent(self._done), *tried]

    async def _work(self) -> None:
        pause_s = STORE_RETRY_S[0]
        try:
            while self._has_news and self._outbox.hosts.is_leader:
                self._has_news = False
                try:
                    await self._deliver_all()
                    pause_s = STORE_RETRY_S[0]
                except Exception as error:  # noqa: BLE001 - one run must not end the lane
                    self._has_news = self._checks_letters = True
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

    async def _write(self, changes: Sequence[RecordChange | Execute] = ()) -> None:
        """Write changes and all that is unsaved, unless another host leads by now."""
        done, tried = list(self._done), dict(self._attempts)
        written = [*self.unsaved(), *changes]
        if written:
            await self._outbox.write([*self._outbox.hosts.fence, *written])
        self._done = self._done[len(done) :]
        self._attempts = {n: m for n, m in self._attempts.items() if tried.get(n) != m}

    async def _deliver_all(self) -> None:
        """Deliver what is due, dead letters that are sent again first."""
        records, (tenant, webhook_id) = self._outbox.log.records, self._place
        while True:
            if self._attempts:  # before rows are read that do not know of them
                await self._write()
            if self._checks_letters:
                self._checks_letters = False
                letters = await self._outbox.dead_letters(tenant, webhook_id, "", MOST_KEPT)
                self.parked = len(letters)
                resent = [each for each in letters if each.is_resent]
                if resent and self.subscription.secret is not None:
                    self._checks_letters = True
                    await self._resend(resent[0])
                    continue
            # What cannot be signed waits; so does everything until somebody looks at dead letters.
            if self.subscription.secret is None or self.parked >= MOST_KEPT:
                return
            limit = BATCH + len(self._done)
            found = await self._outbox.read(lambda: records.rows(_DUE, webhook_id, limit))  # noqa: B023
            rows = [row for row in map(_DueDelivery._make, found) if row.id not in self._done]
            if not rows:
                await self._write()
                return
            await self._write([Execute(_CLAIM, (SESSION, webhook_id, rows[-1].id))])
            while rows and not self._checks_letters and self.parked < MOST_KEPT:
                page = await self._outbox.read(lambda: self._page(rows))  # noqa: B023
                for row, event in zip(rows, page, strict=False):
                    if self.parked >= MOST_KEPT:
                        break
                    try:
                        if event is not None:  # else its run was deleted
                            await self._deliver(row, event)
                            continue
                    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                        place, name = f"{row.run_id}:{row.sequence}", type(error).__name__
                        _log.error("webhook %s: %s is damaged: %s", webhook_id, place, name)
                    self._done.append(row.id)
                rows = rows[len(page) :]

    def _page(self, rows: Sequence[_DueDelivery]) -> list[Event | None]:
        """The events of the first rows."""
        page: list[Event | None] = []
        size = 0
        for row in rows:
            event = None
            try:
                found = self._outbox.log.read(row.run_id, after=row.sequence - 1, limit=1)
                event = next(found, None)
            except RunNotFound:
                pass
            except DamagedEventLog as error:  # it must not keep others from being delivered
                _log.error("webhook %s: not delivered: %s", self.subscription.webhook_id, error)
            size += len(event.body) if event else 0
            if page and size > PAGE_BYTES:
                break
            page.append(event)
        return page

    async def _deliver(self, row: _DueDelivery, event: Event) -> None:
        """Attempt to deliver an event until it is taken or parked."""
        settings = self._outbox.settings
        workspace = place_of(row.partition).partition("/")[2] or None
        attempts = max(row.attempts, self._attempts.get(row.id, 0))
        is_repeat = attempts > 0 or row.session not in {None, SESSION}
        if attempts and self.failures == 0:  # an earlier process has just tried
            self.failures = attempts
            await self._pause()
        while True:
            attempts += 1
            try:
                result = await self._post(event, workspace, attempts, is_repeat=is_repeat)
            except asyncio.CancelledError:
                if self._is_posting:  # it may have arrived
                    self._attempts[row.id] = attempts
                raise
            if result.is_delivered:
                self._attempts.pop(row.id, None)
                self._done.append(row.id)
                self._break_off()
                return
            is_repeat = True
            age_s = (self._outbox.clock.now_us() - event.at_us) / 1_000_000
            if attempts >= settings.max_attempts or age_s > settings.max_age_s:
                self._attempts.pop(row.id, None)
                self._done.append(row.id)
                # Give an event up: keep it as a dead letter, and go on with the next one.
                letter = ParkedDelivery(
                    webhook_id=self.subscription.webhook_id,
                    run_id=event.run_id,
                    sequence=event.sequence,
                    event_type=event.type,
                    workspace=workspace,
                    attempts=attempts,
                    parked_us=self._outbox.clock.now_us(),
                    last_reason=result.reason,
                    last_status=result.status,
                )
                self.parked += 1
                await self._write([letter.change(self.subscription.tenant)])
                self._report("parked", result.reason, event)
                return
            self._attempts[row.id] = attempts
            self._break_off()
            await self._write()
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
        result = await self._outbox.poster.post(self.subscription, event, workspace, attempt)
        self._is_posting = False
        self.failures = 0 if result.is_delivered else self.failures + 1
        self._report(result.outcome, result.reason, event, result.seconds)
        return result

    async def _resend(self, letter: ParkedDelivery) -> None:
        """Attempt to deliver a dead letter; after a failure, the others stay as they are."""
        tenant = self.subscription.tenant
        event = await self._outbox.read(lambda: dead_letters.find_event(self._outbox.log, letter))
        result = None
        if event is not None:
            number = letter.attempts + 1
            result = await self._post(event, letter.workspace, number, is_repeat=True)
        if result is None or result.is_delivered:
            await self._write([letter.removal(tenant)])
            return
        letters = await self._outbox.dead_letters(*self._place, "", MOST_KEPT)
        if letter.key in {each.key for each in letters}:  # else it was discarded meanwhile
            tried = {letter.key: letter.tried_again(result)}
            left = [
                tried.get(each.key) or msgspec.structs.replace(each, is_resent=False)
                for each in letters
                if each.is_resent
            ]
            with suppress(RecordConflict):
                await self._write([each.change(tenant) for each in left])

    def _report(
        self, outcome: DeliveryOutcome, reason: str, event: Event, seconds: float | None = None
    ) -> None:
        place = (*self._place, event.run_id, event.type)
        self._outbox.report(DeliveryReport(outcome, reason, *place, seconds))
