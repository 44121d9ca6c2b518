"""Live events: subscribers to a run are notified when its log grows.

The thread that writes the log notifies the feed; the feed notifies subscribers on the event loop.
Few events are buffered: a subscriber that was away, or is slow, continues from the log.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.store.protocol import EventLog, NewEvent, News

Listener = Callable[[str, list[Event]], None]

MOST_KEPT = 256  # events that a subscriber may be behind before it reads the log again
MOST_DELIVERED = 16  # events of a run at a time; then it is the turn of other runs
DELIVERY_SECONDS = 0.0005  # after which requests have their turn


class Notice(NamedTuple):
    """A message about a run for its subscribers that is not in the log."""

    id: str
    type: str
    at_us: int
    body: bytes


class Subscriber:
    """A subscriber to one run, with the events that it has not taken yet."""

    __slots__ = ("_events", "_is_behind", "_notices", "_wakened", "ended")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._notices: list[Notice] = []
        self._is_behind = False
        self._wakened: asyncio.Future[None] | None = None
        self.ended: str | None = None  # the state of its key, which is no longer active

    def end(self, state: str) -> None:
        """Let it get nothing more: its key has ended."""
        self.ended = state
        self.wake()

    def put(self, events: list[Event]) -> None:
        if len(self._events) + len(events) > MOST_KEPT:
            self._is_behind, self._events = True, []
        elif not self._is_behind:
            self._events += events
        self.wake()

    def fall_behind(self) -> None:
        """Let it read the log: another process has appended to it."""
        self._is_behind = True
        self.wake()

    def notify(self, notice: Notice) -> None:
        """Add a notice; dropped if too many are waiting."""
        if len(self._notices) < MOST_KEPT:
            self._notices.append(notice)
        self.wake()

    def pop_notices(self) -> list[Notice]:
        notices, self._notices = self._notices, []
        return notices

    def pop_events(self) -> tuple[list[Event], bool]:
        """The events since the last call, and whether some must be read from the log instead."""
        events, is_behind = self._events, self._is_behind
        self._events, self._is_behind = [], False
        return events, is_behind

    def wake(self) -> None:
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)

    def has_end(self) -> bool:
        """Whether the run has ended, or too much has come to wait any longer."""
        return self._is_behind or any(event.type in TERMINAL_TYPES for event in self._events[-1:])

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to take; False after a timeout."""
        if not self._has_any():
            await self.wait_more(seconds)
        return self._has_any()

    def _has_any(self) -> bool:
        return bool(self._events or self._is_behind or self._notices)

    async def wait_more(self, seconds: float) -> None:
        """Wait until something more has come, or for a timeout."""
        loop = asyncio.get_running_loop()
        self._wakened = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        try:
            await self._wakened
        finally:
            timer.cancel()
            self._wakened = None


class Feed:
    """Passes new events to the subscribers of a run, and to listeners of all runs."""

    def __init__(self) -> None:
        self._subscribers: dict[str, set[Subscriber]] = {}
        self._listeners: list[Listener] = []
        self._news_listeners: list[News] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arriving = threading.Lock()  # guards the next two
        self._arrived: dict[str, list[Event]] = {}  # by run, in the order of their first events
        self._is_due = False
        self._is_oldest_next = False

    def start(self, log: EventLog) -> None:
        loop = self._loop = asyncio.get_running_loop()

        def on_append(run_id: str, first: int, events: Sequence[NewEvent]) -> None:
            """Called on the thread that writes the log."""
            if self.is_stopped or loop.is_closed():
                return
            known = [Event(run_id, first + n, *event) for n, event in enumerate(events)]
            with self._arriving:
                self._arrived.setdefault(run_id, []).extend(known)
                was_due, self._is_due = self._is_due, True
            if not was_due:
                loop.call_soon_threadsafe(self._deliver_some, loop)

        def on_news(run_ids: Sequence[str] | None) -> None:
            """Called on a thread of the log, when other processes have appended to it."""
            if not (self.is_stopped or loop.is_closed()):
                loop.call_soon_threadsafe(self._pass_news_on, run_ids)

        log.observe(on_append)
        log.subscribe(on_news)

    def on_events(self, listener: Listener) -> None:
        """Add a listener to the events of every run."""
        self._listeners.append(listener)

    def on_news(self, listener: News) -> None:
        """Add a listener to what other processes append; it is called on the event loop."""
        self._news_listeners.append(listener)

    @contextmanager
    def subscribe(self, run_id: str) -> Iterator[Subscriber]:
        """Subscribe to a run; no later event is missed."""
        subscriber = Subscriber()
        subscribers = self._subscribers.setdefault(run_id, set())
        subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            subscribers.discard(subscriber)
            if not subscribers and self._subscribers.get(run_id) is subscribers:
                del self._subscribers[run_id]

    def notify(self, run_id: str, notice: Notice) -> None:
        for subscriber in tuple(self._subscribers.get(run_id, ())):
            subscriber.notify(notice)

    def stop(self) -> None:
        """End all waits: there will be no more events."""
        self._loop = None
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.wake()

    @property
    def is_stopped(self) -> bool:
        return self._loop is None

    def _pass_news_on(self, run_ids: Sequence[str] | None) -> None:
        for run_id in self._subscribers.keys() if run_ids is None else run_ids:
            for subscriber in tuple(self._subscribers.get(run_id, ())):
                subscriber.fall_behind()
        for listener in self._news_listeners:
            listener(run_ids)

    def _deliver_some(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver events for a while, and the others when the loop has seen to the rest."""
        until = time.perf_counter() + DELIVERY_SECONDS
        while True:
            with self._arriving:
                if not self._arrived:
                    self._is_due = False
                    return
                # In turn the run with the fewest events, which may wait for its end, and the oldest
                self._is_oldest_next = not self._is_oldest_next
                run_id = next(iter(self._arrived))
                if not self._is_oldest_next:
                    run_id = min(self._arrived, key=lambda each: len(self._arrived[each]))
                events = self._arrived.pop(run_id)
                if len(events) > MOST_DELIVERED:
                    self._arrived[run_id] = events[MOST_DELIVERED:]
                    events = events[:MOST_DELIVERED]
            for subscriber in tuple(self._subscribers.get(run_id, ())):
                subscriber.put(events)
            for listener in self._listeners:
                listener(run_id, events)
            if time.perf_counter() > until:
                loop.call_soon(self._deliver_some, loop)
                return
