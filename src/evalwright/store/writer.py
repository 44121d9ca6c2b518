"""The one thread that writes: it gathers what has come in and commits it as a group."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from evalwright.contracts.errors import StoreError, StoreUnavailable
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.contracts.messages import phrase
from evalwright.store import records
from evalwright.store.location import Faults, Outage, Patience, WrongTenant
from evalwright.store.protocol import NewEvent, Observer, Watcher
from evalwright.store.records import LOCAL_TENANT, RecordChange
from evalwright.store.writes import Flush, View, WaitingWrites, Write, due_flushes

MOST_BROKEN = 10_000  # runs known to take no more; their writers have had the error
GATHER_SECONDS = 0.005  # how long an append waits for others when nobody waits for it

_logger = logging.getLogger(__name__)


class Position(NamedTuple):
    """A run as far as it is written: its number, its next sequence, and its tenant."""

    run: int
    following: int
    tenant: str


class WakeEvent:
    """A `threading.Event` that only one thread waits for, at a third of the cost.

    A wait that ends clears it.
    """

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the thread, or let it not wait the next time."""
        if self._unset.locked():
            with suppress(RuntimeError):  # another thread did at the same moment
                self._unset.release()

    def clear(self) -> None:
        self._unset.acquire(blocking=False)

    def wait(self, seconds: float = -1) -> None:
        self._unset.acquire(timeout=seconds)


class Writer(ABC):
    """Takes appends from any thread; its own thread assigns sequences and commits.

    Whoever queues something sets `_arrived` afterwards, and the thread clears `_arrived` before it
    takes the queue, so nothing queued goes unnoticed.

    While the place fails in a way that may pass, what is queued stays queued, in order, and is
    tried again: requests and appends for as long as the patience with them lasts.
    """

    def __init__(self, place: str, patience: Patience, faults: Faults) -> None:
        self._place = place
        self._patience = patience
        self._faults = faults
        self.outage: Outage | None = None  # while writes fail
        self._queue = threading.Lock()  # guards the next three
        self.waiting = WaitingWrites()
        self._flushes: list[Flush] = []
        self._closed = False
        self._arrived = WakeEvent()
        self._hurry = WakeEvent()
        self._broken: dict[View, StoreError] = {}  # runs that lost events
        self._positions: dict[str, Position] = {}
        self._watchers: dict[View, Watcher] = {}
        self._observers: list[tuple[str | None, Observer]] = []  # with the tenant they see
        self._thread = threading.Thread(target=self._work, name="event-log-writer", daemon=True)
        self._thread.start()

    def append(
        self,
        run_id: str,
        events: Sequence[NewEvent],
        changes: Sequence[RecordChange] = (),
        tenant: str | None = None,
    ) -> None:
        """Queue events; raises when the log or this run can take no more."""
        with self._queue:
            if self._closed or (tenant, run_id) in self._broken:
                self._refuse_closed()
                raise self._broken[tenant, run_id].with_traceback(None)
            self.waiting.add(Write(run_id, events, changes, tenant))
        self._arrived.set()

    def submit(self, write: Write) -> "Future[None]":
        """Write what somebody waits for; a request that is refused is not written later either."""
        done: Future[None] = Future()
        with self._queue:
            self._refuse_closed()
            if write.run_id is not None and (write.tenant, write.run_id) in self._broken:
                raise self._broken[write.tenant, write.run_id].with_traceback(None)
            if write.is_request and self.outage is not None:
                self.outage.refuse_after(self._patience.requests)
            self.waiting.add(write._replace(done=done))
        self._hurry.set()
        self._arrived.set()
        return done

    def flush(self, run_id: str, tenant: str | None = None) -> "Future[None]":
        flush = Flush((tenant, run_id), Future())
        with self._queue:
            if self._closed:
                self._refuse_closed()
            self._flushes.append(flush)
        self._hurry.set()
        self._arrived.set()
        return flush.done

    def watch(self, run_id: str, watcher: Watcher, tenant: str | None = None) -> None:
        if self._closed:
            self._refuse_closed()
        self._watchers[tenant, run_id] = watcher

    def observe(self, observer: Observer, tenant: str | None = None) -> None:
        """Call the observer with the events of every run, or of a tenant's, once durable."""
        self._refuse_closed()
        self._observers.append((tenant, observer))

    def close(self) -> None:
        with self._queue:
            self._closed = True
        self._hurry.set()
        self._arrived.set()
        self._thread.join()
        self._disconnect()

    def clear_failure(self, run_id: str, tenant: str | None) -> None:
        """Let a run take events again: whoever executes it now has read what is in the log."""
        with self._queue:
            self._broken.pop((None, run_id), None)
            self._broken.pop((LOCAL_TENANT if tenant is None else tenant, run_id), None)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"{self._place}: the event log is closed")

    def _work(self) -> None:
        is_over = False
        while not is_over:
            if self.outage is None:
                self._arrived.wait()
                self._hurry.wait(GATHER_SECONDS)
            else:
                self.outage.wait()
            self._arrived.clear()
            self._hurry.clear()
            with self._queue:
                writes = self.waiting.next_batch()
                flushes, self._flushes = self._flushes, []
                closed = self._closed
                if self.waiting.count:
                    flushes, self._flushes = due_flushes(flushes, self.waiting)
                    self._hurry.set()
                    self._arrived.set()
            if self.outage is not None and not writes:
                writes = [Write(None, (), [records.TRIAL])]
            left = self._commit(writes)
            if left and (left := self._give_up(left, is_closing=closed)):
                with self._queue:
                    self.waiting.put_back(left)
                    self._flushes[:0] = flushes
            else:
                self.waiting.in_hand = 0
                for view, done in flushes:
                    _settle(done, self._broken.get(view))
            is_over = closed and not left and not self.waiting.count

    def _commit(self, writes: list[Write]) -> list[Write]:
        """Write all together; one that would break its log breaks its own run only.

        Returns those that are to be tried again, because the place fails and that may pass.
        """
        if self._broken:
            writes = [write for write in writes if not self._is_lost(write)]
        if not writes:
            return []
        began = time.monotonic()
        try:
            starts = self._transact(writes)
        except Exception as error:  # noqa: BLE001 - the thread outlives whatever it is given
            if self._faults.may_pass(error):
                self.outage = self.outage or Outage(began)
                self.outage.go_on(self._faults.unavailable(self._place, error))
                return writes
            if len(writes) > 1 and not self._faults.blames_the_place(error):
                for number, write in enumerate(writes):
                    if self._commit([write]):
                        return writes[number:]
                return []
            self._break(writes, error)
            return []
        if self.outage is not None:
            self.outage.end(self._place)
            self.outage = None
        self._notify(writes, starts)
        for write in writes:  # at last: who is woken earlier only waits for this thread
            if write.done is not None:
                _settle(write.done, None)
        return []

    def _is_lost(self, write: Write) -> bool:
        error = self._broken.get((write.tenant, write.run_id or ""))
        if error is not None and write.done is not None:
            _settle(write.done, error)
        return error is not None

    def _give_up(self, writes: list[Write], *, is_closing: bool) -> list[Write]:
        """Fail what has been tried for long enough; returns the rest, to be tried again."""
        assert self.outage is not None
        patience, seconds, error = self._patience, self.outage.seconds, self.outage.error
        if seconds >= (patience.closing if is_closing else patience.appends):
            tried = phrase("{error}; given up after {seconds:.0f} s", error=error, seconds=seconds)
            self._break(writes, StoreUnavailable(tried, error.reason))
            return []
        if seconds < patience.requests:
            return writes
        for write in writes:
            if write.is_request and write.done is not None:
                _settle(write.done, StoreUnavailable(phrase("{error}", error=error), error.reason))
        return [write for write in writes if not write.is_request]

    @abstractmethod
    def _transact(self, writes: list[Write]) -> list[Position | None]: ...

    @abstractmethod
    def _disconnect(self) -> None: ...

    def _break(self, writes: list[Write], error: Exception) -> None:
        """Let runs that lost events take no more: what follows would hide the loss."""
        for write in writes:
            reason = self._faults.explain_refusal(self._place, write.run_id, error)
            is_lost = not (write.is_request and isinstance(error, StoreUnavailable))
            for view in self._broken_views(write, error) if is_lost else ():
                self._broken[view] = reason
                if len(self._broken) > MOST_BROKEN:
                    del self._broken[next(iter(self._broken))]
                self._watchers.pop(view, None)
            if write.done is not None:
                _settle(write.done, reason)

    def _broken_views(self, write: Write, error: Exception) -> list[View]:
        if write.run_id is None:
            return []
        if isinstance(error, WrongTenant):
            return [(write.tenant, write.run_id)]  # the run's own tenant has lost nothing
        position = self._positions.pop(write.run_id, None)
        owner = position.tenant if position else write.tenant or LOCAL_TENANT
        return [(None, write.run_id), (owner, write.run_id)]

    def _notify(self, writes: list[Write], starts: list[Position | None]) -> None:
        watched: dict[View, list[NewEvent]] = {}
        ended: list[View] = []
        for (run_id, events, *_), start in zip(writes, starts, strict=True):
            if run_id is None or start is None or not events:
                continue
            views = (None, run_id), (start.tenant, run_id)
            for view in self._watchers.keys() & set(views):
                watched.setdefault(view, []).extend(events)
            if self._observers:
                for tenant, observer in tuple(self._observers):
                    if tenant not in (None, start.tenant):
                        continue
                    try:
                        observer(run_id, start.following, events)
                    except Exception:
                        _logger.exception("an observer failed and is not called again")
                        self._observers.remove((tenant, observer))
            if events[-1].type in TERMINAL_TYPES:  # a log stays open for long
                self._positions.pop(run_id, None)
                ended += views
        self._call_watchers(watched)
        for view in ended:
            self._watchers.pop(view, None)

    def _call_watchers(self, news: dict[View, list[NewEvent]]) -> None:
        """Call each watcher once, however many appends there were."""
        for view, events in news.items():
            try:
                self._watchers[view](events)
            except Exception:
                _logger.exception("a watcher of run %s failed and is not called again", view[1])
                self._watchers.pop(view, None)


def _settle(done: "Future[None]", error: StoreError | None) -> None:
    if not done.set_running_or_notify_cancel():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
