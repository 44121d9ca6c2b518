"""A lane: the deliveries to one subscription, one after the other, read from the log.

Lanes do not wait for each other. A lane holds a page of events and the cursors of runs that have
news; everything else is in the log and in the store.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import msgspec

from evalwright.contracts.errors import RunNotFound, StoreError
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.host.webhooks import cursors
from evalwright.host.webhooks.cursors import (
    Cursor,
    StoredCursor,
    first_cursor,
    log_end,
)
from evalwright.host.webhooks.dead_letters import (
    MOST_KEPT,
    ParkedDelivery,
    count_dead_letters,
    find_event,
    park,
)
from evalwright.host.webhooks.posting import (
    Attempt,
    AttemptResult,
    DeliveryOutcome,
    DeliveryReport,
    LaneTools,
    delivery_id,
)
from evalwright.host.webhooks.subscriptions import Subscription
from evalwright.store.records import RecordChange

PAGE = 16  # events read at once
PAGE_BYTES = 1024 * 1024  # that a lane holds at most, beyond its first event
LOADED_AT_ONCE = 100  # cursors
MOST_CURSORS = 1000  # in memory; the others are looked up in the store
STORE_RETRY_S = (0.5, 10.0)  # after a failure of the store: at first, and at most

LaneState = Literal["active", "failed", "dead-lettered"]
Found = TypeVar("Found")

_log = logging.getLogger(__name__)
_random = random.Random()  # noqa: S311 - it only spreads attempts over time


def lane_state(subscription: Subscription, parked: int, failures: int) -> LaneState:
    """What a subscription is said to be, by its dead letters and its failures in a row."""
    if parked >= MOST_KEPT:
        return "dead-lettered"
    return "failed" if failures or subscription.secret is None else "active"


class Lane:
    """The deliveries to one subscription; used from one event loop.

    Of several hosts only the leader delivers. The lanes of others rest.
    """

    def __init__(self, subscription: Subscription, tools: LaneTools) -> None:
        self.subscription = subscription
        self.parked = 0  # dead letters
        self.failures = 0  # in a row
        self.cursors: dict[str, Cursor] = {}  # by run
        self._tools = tools
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
        """What the subscription is said to be, in the words of the protocol."""
        return lane_state(self.subscription, self.parked, self.failures)

    def hear(
        self, run_id: str, workspace: str | None, events: Sequence[Event], repeated: range
    ) -> None:
        """Take note of new events of a run that the subscription follows."""
        cursor = self.cursors.get(run_id)
        has_room = len(self.cursors) < MOST_CURSORS
        if cursor is None and has_room and events[0].sequence == 0:
            first = first_cursor(workspace, repeated)
            cursor = Cursor(self.subscription.tenant, self._id, run_id, first)
            self.cursors[run_id] = cursor
        if cursor is not None and self._can_pass_over(cursor, events):
            self._settle(cursor, events[-1])
            return
        if cursor is not None:
            cursor.heard = events[-1].sequence + 1
        if cursor is not None or has_room:
            self._news[run_id] = None
        else:  # the store knows of it
            self._unread = ""
        self.wake()

    def look(self, run_id: str | None = None) -> None:
        """Read the log: another process has appended to a run, or perhaps to any."""
        if run_id is None:
            self._unread = ""
            self._is_counted = False  # dead letters, too, may have been discarded
        else:
            self._news[run_id] = None
        self.wake()

    async def leave(self) -> None:
        """Leave the deliveries to another host."""
        task = self.stop()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        self.cursors, self._news, self._resending = {}, {}, deque()
        self._unread, self._is_counted, self._is_stopping = "", False, False
        self.failures = 0

    async def recount(self) -> None:
        """Count the dead letters, which another host may have added."""
        records, tenant = self._tools.log.records, self.subscription.tenant
        self.parked = await self._read(lambda: count_dead_letters(records, tenant, self._id))

    def resend(self, letters: Sequence[ParkedDelivery]) -> None:
        """Attempt to deliver dead letters once more, until one fails."""
        known = {letter.key for letter in self._resending}
        self._resending.extend(letter for letter in letters if letter.key not in known)
        self.wake()

    async def discard(self, letters: Sequence[ParkedDelivery]) -> None:
        """Delete dead letters; those that are about to be sent again are not sent."""
        gone = {letter.key for letter in letters}
        self._resending = deque(each for each in self._resending if each.key not in gone)
        removals = [letter.removal(self.subscription.tenant) for letter in letters]
        await self._write(removals)
        self._is_counted = False
        self.wake()

    def wake(self) -> None:
        """Work, unless it is working already."""
        if self._task is None and not self._is_stopping and self._tools.hosts.is_leader:
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

    @property
    def _id(self) -> str:
        return self.subscription.webhook_id

    @property
    def _is_locked(self) -> bool:
        """Whether nothing can be signed, because the key of the secret is not here."""
        return self.subscription.secret is None

    def _can_pass_over(self, cursor: Cursor, events: Sequence[Event]) -> bool:
        """Whether nothing before or among the events is to be delivered."""
        return (
            cursor.run_id not in self._news
            and cursor.position == events[0].sequence
            and not any(self._is_wanted(cursor, event) for event in events)
        )

    def _is_wanted(self, cursor: Cursor, event: Event) -> bool:
        is_wanted = self._wants.get(event.type)
        if is_wanted is None:
            is_wanted = self._wants[event.type] = self.subscription.wants(event.type)
        return is_wanted and event.sequence not in cursor.repeated

    async def _work(self) -> None:
        pause_s = STORE_RETRY_S[0]
        try:
            while self._has_work and self._tools.hosts.is_leader:
                try:
                    await self._step()
                    pause_s = STORE_RETRY_S[0]
                except Exception as error:  # noqa: BLE001 - one run must not end the lane
                    self._is_counted = False
                    self._say_why(error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, STORE_RETRY_S[1])
        finally:
            self._task = None

    def _say_why(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            _log.warning("webhook %s waits for the store: %s", self._id, error)
        else:  # its message may hold content
            _log.error("webhook %s: internal error %s", self._id, type(error).__name__)

    @property
    def _has_work(self) -> bool:
        if self._is_locked:
            return not self._is_counted
        if self._resending or not self._is_counted:
            return True
        return self.parked < MOST_KEPT and bool(self._news or self._unread is not None)

    async def _step(self) -> None:
        if not self._is_counted:
            self._is_counted = True  # unless others are discarded meanwhile
            await self.recount()
        elif self._resending:
            await self._resend_next()
        elif self._news:
            await self._advance(next(iter(self._news)))
        else:
            await self._load_more()

    async def _read(self, read: Callable[[], Found]) -> Found:
        """Read the store, not on the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._tools.readers, read)

    # Cursors.

    async def _load_more(self) -> None:
        """Look at the next stored cursors."""
        after, tenant, prefix = self._unread or "", self.subscription.tenant, f"{self._id}/"
        records = self._tools.log.records
        found = await self._read(
            lambda: records.list(cursors.KIND, tenant, prefix, after, LOADED_AT_ONCE)
        )
        self._unread = found[-1].key if len(found) == LOADED_AT_ONCE else None
        for record in found:
            await self._take(record.key.removeprefix(prefix), record.body)

    async def _load(self, run_id: str) -> Cursor | None:
        """The cursor of a run; None if its events are settled."""
        cursor = self.cursors.get(run_id)
        if cursor is None:
            tenant, key = self.subscription.tenant, cursors.cursor_key(self._id, run_id)
            records = self._tools.log.records
            body = await self._read(lambda: records.get(cursors.KIND, tenant, key))
            if body is not None:
                await self._take(run_id, body)
        return self.cursors.get(run_id)

    async def _take(self, run_id: str, body: bytes) -> None:
        """Go on from a stored cursor, unless it is behind one in memory."""
        tenant, key = self.subscription.tenant, cursors.cursor_key(self._id, run_id)
        if run_id in self.cursors:
            return
        stored = msgspec.json.decode(body, type=StoredCursor)
        end = await self._read(lambda: log_end(self._tools.log, run_id))
        if run_id in self.cursors or self._tools.keeper.holds(tenant, key):
            return
        self.cursors[run_id] = Cursor(tenant, self._id, run_id, stored, end)
        self._news[run_id] = None

    def _settle(self, cursor: Cursor, event: Event, *, is_sent: bool = False) -> None:
        """Go on after an event that was delivered, parked, or not wanted."""
        cursor.settle(event.sequence)
        if event.type in TERMINAL_TYPES:
            self._end(cursor)
        elif is_sent:
            self._tools.keeper.note(cursor)

    def _end(self, cursor: Cursor) -> None:
        cursor.is_done = True
        self.cursors.pop(cursor.run_id, None)
        self._news.pop(cursor.run_id, None)
        self._tools.keeper.note(cursor)

    # Deliveries.

    async def _advance(self, run_id: str) -> None:
        """Deliver a page of a run's events; the run waits for its next turn if there are more."""
        cursor = await self._load(run_id)
        self._news.pop(run_id, None)  # news from now on enter it again
        if cursor is None:
            return
        heard = cursor.heard
        try:
            page, has_more = await self._read(lambda: self._page(cursor))
            while page and self.parked < MOST_KEPT:  # else somebody has to look first
                event = page.pop(0)
                if self._is_wanted(cursor, event):
                    await self._deliver(cursor, event)
                else:
                    self._settle(cursor, event)
            if page or has_more:
                self._news[run_id] = None
            else:  # what was not read until then is not wanted
                cursor.position = max(cursor.position, heard)
        except RunNotFound:  # deleted meanwhile
            self._end(cursor)
        except BaseException:
            self._news[run_id] = None
            raise

    def _page(self, cursor: Cursor) -> tuple[list[Event], bool]:
        """The next events of a run, and whether there may be more."""
        types = self.subscription.exact_types
        wanted = (*types, *TERMINAL_TYPES) if types else ()
        return cursor.read(self._tools.log, wanted, PAGE, PAGE_BYTES)

    async def _deliver(self, cursor: Cursor, event: Event) -> None:
        """Attempt to deliver an event until it is taken or parked."""
        if cursor.attempts and self.failures == 0:  # an earlier process has just tried
            self.failures = cursor.attempts
            await self._pause()
        while True:
            if event.sequence >= cursor.reach:
                await self._tools.keeper.save(cursor)
            attempt = self._attempt(event, cursor.attempts + 1, is_repeat=cursor.is_repeat)
            cursor.attempts += 1
            result = await self._post(event, cursor.workspace, attempt)
            if result.is_delivered:
                self._settle(cursor, event, is_sent=True)
                self._break_off()
                return
            if self._is_exhausted(cursor, event):
                await self._park(cursor, event, result)
                return
            self._tools.keeper.note(cursor)
            self._break_off()
            await self._pause()

    def _break_off(self) -> None:
        if self._is_stopping:
            raise asyncio.CancelledError

    def _attempt(self, event: Event, number: int, *, is_repeat: bool) -> Attempt:
        return Attempt(delivery_id(self._id, event.run_id, event.sequence), number, is_repeat)

    async def _post(self, event: Event, workspace: str | None, attempt: Attempt) -> AttemptResult:
        if not self._tools.hosts.is_leader:  # another host may have sent it
            raise asyncio.CancelledError
        self._is_posting = True
        try:
            result = await self._tools.poster.post(self.subscription, event, workspace, attempt)
        finally:
            self._is_posting = False
        self.failures = 0 if result.is_delivered else self.failures + 1
        self._report(result.outcome, result.reason, event, result.seconds)
        return result

    def _is_exhausted(self, cursor: Cursor, event: Event) -> bool:
        settings = self._tools.settings
        age_s = (self._tools.clock.now_us() - event.at_us) / 1_000_000
        return cursor.attempts >= settings.max_attempts or age_s > settings.max_age_s

    async def _pause(self) -> None:
        """Wait before the next attempt."""
        delay_s = self._tools.settings.retry_delay_s(self.failures)
        await asyncio.sleep(delay_s * _random.uniform(0.8, 1.0))

    async def _park(self, cursor: Cursor, event: Event, result: AttemptResult) -> None:
        """Give an event up: keep it as a dead letter, and go on with the next one."""
        now_us = self._tools.clock.now_us()
        letter = park(self._id, event, cursor.workspace, cursor.attempts, now_us, result)
        self._settle(cursor, event, is_sent=True)
        self.parked += 1
        await self._tools.keeper.save(cursor, [letter.change(self.subscription.tenant)])
        self._report("parked", result.reason, event)

    async def _resend_next(self) -> None:
        """Attempt to deliver a dead letter; after a failure, the others stay as they are."""
        letter = self._resending[0]
        event = await self._read(lambda: find_event(self._tools.log, letter))
        result = None
        if event is not None and letter in self._resending:
            attempt = self._attempt(event, letter.attempts + 1, is_repeat=True)
            result = await self._post(event, letter.workspace, attempt)
        if letter not in self._resending:  # it was discarded meanwhile
            return
        if result is not None and not result.is_delivered:
            self._resending.clear()
            await self._write([letter.tried_again(result).change(self.subscription.tenant)])
            return
        await self._write([letter.removal(self.subscription.tenant)])
        self.parked -= 1
        if letter in self._resending:
            self._resending.remove(letter)

    async def _write(self, changes: Sequence[RecordChange]) -> None:
        await asyncio.wrap_future(self._tools.log.records.write(changes))

    def _report(
        self, outcome: DeliveryOutcome, reason: str, event: Event, seconds: float | None = None
    ) -> None:
        place = (self.subscription.tenant, self._id, event.run_id, event.type)
        self._tools.report(DeliveryReport(outcome, reason, *place, seconds))
