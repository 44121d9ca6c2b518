"""Live events: each subscriber has a place in a run's log and is told when there is more.

The thread that writes the log tells the feed; the feed tells those who wait, on the event loop.
Events are kept for nobody: a subscriber that was away, or slow, reads on from the log.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.store.protocol import EventLog, NewEvent

Listener = Callable[[str, list[Event]], None]

MOST_KEPT = 256  # events that a subscriber may be behind before it reads from the log again


class Notice(NamedTuple):
    """Something about a run that is told to those who follow it and stands in no log."""

    id: str
    type: str
    at_us: int
    body: bytes


class Subscriber:
    """Somebody who follows one run; what has come lies in `events` until it is taken."""

    __slots__ = ("_events", "_lost", "_notices", "_wakened")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._notices: list[Notice] = []
        self._lost = False
        self._wakened: asyncio.Future[None] | None = None

    def put(self, events: list[Event]) -> None:
        """Hand over what has come."""
        if len(self._events) + len(events) > MOST_KEPT:
            self._lost, self._events = True, []
        elif not self._lost:
            self._events += events
        self.wake()

    def tell(self, notice: Notice) -> None:
        """Hand over a notice; to one that takes none, no more than can be borne."""
        if len(self._notices) < MOST_KEPT:
            self._notices.append(notice)
        self.wake()

    def take_notices(self) -> list[Notice]:
        """The notices that have come."""
        notices, self._notices = self._notices, []
        return notices

    def take(self) -> tuple[list[Event], bool]:
        """What has come, and whether some of it has to be read from the log."""
        events, lost = self._events, self._lost
        self._events, self._lost = [], False
        return events, lost

    def wake(self) -> None:
        """Let the one who waits go on."""
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)

    def has_end(self) -> bool:
        """Whether what has come includes the end of the run, or is too much to wait any longer."""
        return self._lost or any(event.type in TERMINAL_TYPES for event in self._events[-1:])

    async def wait(self, seconds: float) -> bool:
        """Wait until something has come; False if nothing did."""
        if not self._has_any():
            await self.wait_more(seconds)
        return self._has_any()

    def _has_any(self) -> bool:
        return bool(self._events or self._lost or self._notices)

    async def wait_more(self, seconds: float) -> None:
        """Wait until something more has come."""
        loop = asyncio.get_running_loop()
        self._wakened = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        try:
            await self._wakened
        finally:
            timer.cancel()
            self._wakened = None


class Feed:
    """Hands the events of the log to those who follow a run, and to listeners of all runs."""

    def __init__(self) -> None:
        self._subscribers: dict[str, set[Subscriber]] = {}
        self._listeners: list[Listener] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, log: EventLog) -> None:
        """Begin to listen, for the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        log.observe(self._observe)

    def listen(self, listener: Listener) -> None:
        """Tell somebody of the events of every run."""
        self._listeners.append(listener)

    @contextmanager
    def follow(self, run_id: str) -> Iterator[Subscriber]:
        """Follow a run; what comes after this is not missed."""
        subscriber = Subscriber()
        followers = self._subscribers.setdefault(run_id, set())
        followers.add(subscriber)
        try:
            yield subscriber
        finally:
            followers.discard(subscriber)
            if not followers and self._subscribers.get(run_id) is followers:
                del self._subscribers[run_id]

    def tell(self, run_id: str, notice: Notice) -> None:
        """Tell those who follow a run something that its log does not say."""
        for subscriber in tuple(self._subscribers.get(run_id, ())):
            subscriber.tell(notice)

    def stop(self) -> None:
        """Wake everybody: there will be nothing more."""
        self._loop = None
        for followers in self._subscribers.values():
            for subscriber in followers:
                subscriber.wake()

    @property
    def is_stopped(self) -> bool:
        """Whether the host goes down, so that nobody should wait any longer."""
        return self._loop is None

    def _observe(self, run_id: str, first: int, events: Sequence[NewEvent]) -> None:
        """Called by the thread that writes."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        known = [Event(run_id, first + n, *event) for n, event in enumerate(events)]
        loop.call_soon_threadsafe(self._deliver, run_id, known)

    def _deliver(self, run_id: str, events: list[Event]) -> None:
        for subscriber in tuple(self._subscribers.get(run_id, ())):
            subscriber.put(events)
        for listener in self._listeners:
            listener(run_id, events)
