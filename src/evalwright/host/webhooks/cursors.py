"""Cursors: how far each subscription has got in each run, kept as documents beside the log.

The document of a cursor is written in the transaction that creates its run, and deleted when the
last event of the run is settled: delivered, parked, or not wanted. In between it is saved from
time to time, many cursors in one commit. What an event that was sent after the last save led to is
unknown after a crash, so it is sent again and marked as a possible repeat.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from evalwright.contracts.errors import StoreError
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.host.async_store import read_soon
from evalwright.host.hosts import Hosts
from evalwright.store.protocol import EventLog
from evalwright.store.records import Record, RecordChange, Records

KIND = "webhook_cursor"
SAVE_S = 0.5  # how long a change of a cursor waits for others
RETRY_S = (0.5, 10.0)  # after a failure of the store: at first, and at most
MOST_SAVED_AT_ONCE = 500
WINDOW = 32  # events that may be sent between two saves of a cursor
PAGE = 16  # events read at once
PAGE_BYTES = 1024 * 1024  # that are held at most, beyond the first event

SESSION = secrets.token_hex(4)  # which process wrote a document

_log = logging.getLogger(__name__)


class StoredCursor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A cursor as stored."""

    next: int  # the first event that is not settled
    reach: int  # events before it may have been sent
    session: str
    workspace: str | None = None
    attempts: int = 0  # to deliver the next event
    repeated: tuple[int, int] = (0, 0)  # events that only repeat another run's
    doubtful: int = 0  # events before it may have been sent by an earlier process


class Cursor:
    """How far a subscription has got in a run."""

    def __init__(self, tenant: str, webhook_id: str, run_id: str, stored: StoredCursor) -> None:
        self.tenant = tenant
        self.webhook_id = webhook_id
        self.run_id = run_id
        self.workspace = stored.workspace
        self.position = stored.next
        self.attempts = stored.attempts
        self.repeated = range(*stored.repeated)
        self.reach = stored.reach  # as far as it is durable
        self.is_done = False
        self.is_foreign = stored.session != SESSION
        self._doubtful = stored.reach if self.is_foreign else stored.doubtful

    @property
    def key(self) -> str:
        """The key of its document."""
        return cursor_key(self.webhook_id, self.run_id)

    @property
    def is_repeat(self) -> bool:
        """Whether the next event may have been sent before."""
        return self.attempts > 0 or self.position < self._doubtful

    def settle(self, event: Event) -> None:
        """Go on after an event."""
        self.position = event.sequence + 1
        self.attempts = 0
        self.is_done = event.type in TERMINAL_TYPES

    def read(self, log: EventLog, types: Sequence[str]) -> tuple[list[Event], bool]:
        """The next events of the run, of these types or any, and whether there may be more."""
        if self.is_foreign:  # what is not in the log by now was not sent either
            self._doubtful = min(self._doubtful, log.facts(self.run_id).events)
        page: list[Event] = []
        size = 0
        for event in log.read(self.run_id, types, self.position - 1, PAGE):
            size += len(event.body)
            if page and size > PAGE_BYTES:
                return page, True
            page.append(event)
        return page, len(page) == PAGE and page[-1].type not in TERMINAL_TYPES

    def next_reach(self, *, is_last: bool) -> int:
        """How far events may be sent until the next save; the last save says how far they were."""
        further = min(self.attempts, 1) if is_last else WINDOW
        return max(self.position + further, self._doubtful)

    def change(self, reach: int) -> RecordChange:
        """What saves it, or deletes it once it is done."""
        if self.is_done:
            return RecordChange(KIND, self.tenant, self.key, None)
        bounds = (self.repeated.start, self.repeated.stop)
        stored = StoredCursor(
            self.position, reach, SESSION, self.workspace, self.attempts, bounds, self._doubtful
        )
        return RecordChange(KIND, self.tenant, self.key, msgspec.json.encode(stored))


def cursor_key(webhook_id: str, run_id: str) -> str:
    """The key of the document of a cursor."""
    return f"{webhook_id}/{run_id}"


def tidied(tenant: str, webhook_id: str, record: Record) -> list[RecordChange]:
    """What makes a cursor of this process say how far events were sent, if that is less."""
    stored = msgspec.json.decode(record.body, type=StoredCursor)
    cursor = Cursor(tenant, webhook_id, record.key.removeprefix(f"{webhook_id}/"), stored)
    reach = cursor.next_reach(is_last=True)
    return [] if cursor.is_foreign or reach >= stored.reach else [cursor.change(reach)]


def most_attempts(records: Records, tenant: str, webhook_id: str) -> int:
    """How often a subscription was tried in vain, as far as that is stored."""
    stored = records.list(KIND, tenant, f"{webhook_id}/", "", MOST_SAVED_AT_ONCE)
    found = (msgspec.json.decode(record.body, type=StoredCursor) for record in stored)
    return max((cursor.attempts for cursor in found), default=0)


def first_cursor(
    workspace: str | None, repeated: range = range(0), position: int = 0
) -> StoredCursor:
    """The cursor of a run that begins, or of one that a new subscription joins at a position."""
    bounds = (repeated.start, repeated.stop)
    return StoredCursor(position, position + WINDOW, SESSION, workspace, repeated=bounds)


class CursorKeeper:
    """Saves cursors, many in one commit, and again and again while the store fails."""

    def __init__(self, records: Records, hosts: Hosts) -> None:
        self._records = records
        self._hosts = hosts
        self._unsaved: dict[tuple[str, str], Cursor] = {}
        self._beside: list[RecordChange] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._in_flight: dict[tuple[str, str], Cursor] = {}
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()  # nothing is being written
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    async def load(self, tenant: str, webhook_id: str, run_id: str) -> Cursor | None:
        """The cursor of a run; None if all its events are settled."""
        place = tenant, cursor_key(webhook_id, run_id)
        known = self._unsaved.get(place) or self._in_flight.get(place)
        if known is not None:
            return None if known.is_done else known
        body = await read_soon(self._records, "", lambda: self._records.get(KIND, *place))
        if body is None:
            return None
        return Cursor(tenant, webhook_id, run_id, msgspec.json.decode(body, type=StoredCursor))

    def note(self, cursor: Cursor) -> None:
        """Save a cursor soon."""
        self._unsaved[cursor.tenant, cursor.key] = cursor
        if self._task is None:
            self._task = asyncio.create_task(self._save())

    async def save(self, cursor: Cursor, changes: Sequence[RecordChange] = ()) -> None:
        """Save a cursor now, and changes of documents in the same transaction; wait for it."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._beside += changes
        self._waiting.append(saved)
        self._hurry.set()
        self._unsaved = {(cursor.tenant, cursor.key): cursor, **self._unsaved}  # the first of all
        self.note(cursor)
        await saved

    async def forget(self, tenant: str, webhook_id: str) -> None:
        """Save no more cursors of a subscription that is being deleted."""
        for place, cursor in list(self._unsaved.items()):
            if cursor.tenant == tenant and cursor.webhook_id == webhook_id:
                del self._unsaved[place]
        await self._idle.wait()

    async def drop(self) -> None:
        """Save nothing more: another host delivers now, from what was saved last."""
        self._unsaved, self._beside = {}, []
        for each in self._waiting:
            each.cancel()
        self._waiting = []
        await self._idle.wait()
        self._unsaved = {}

    async def close(self) -> None:
        """Save everything, once; what fails is sent again by the next process."""
        self._is_closing = True
        if self._task is not None:
            self._hurry.set()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _save(self) -> None:
        pause_s = RETRY_S[0]
        try:
            while self._unsaved or self._beside:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), SAVE_S)
                if not self._is_closing:
                    self._hurry.clear()
                if await self._save_some():
                    pause_s = RETRY_S[0]
                elif self._is_closing:
                    return
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_S[1])
        finally:
            self._task = None

    async def _save_some(self) -> bool:
        """Write what has changed as one unit; False if the store fails."""
        places = list(self._unsaved)[:MOST_SAVED_AT_ONCE]
        taken = self._in_flight = {place: self._unsaved.pop(place) for place in places}
        beside, self._beside = self._beside, []
        waiting, self._waiting = self._waiting, []
        reaches = [cursor.next_reach(is_last=self._is_closing) for cursor in taken.values()]
        changes = [each.change(reach) for each, reach in zip(taken.values(), reaches, strict=True)]
        self._idle.clear()
        try:
            written = [*self._hosts.fence, *beside, *changes]
            await asyncio.wrap_future(self._records.write(written))
        except StoreError as error:
            _log.warning("the cursors of webhooks cannot be saved: %s", error)
            self._unsaved = {**taken, **self._unsaved}
            self._beside, self._waiting = beside + self._beside, waiting + self._waiting
            return False
        finally:
            self._in_flight = {}
            self._idle.set()
        for cursor, reach in zip(taken.values(), reaches, strict=True):
            cursor.reach = reach
        for each in waiting:
            if not each.done():
                each.set_result(None)
        return True
