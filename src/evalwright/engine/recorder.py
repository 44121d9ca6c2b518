"""Recording: payloads get a time and go to the log."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

import msgspec

from evalwright.contracts.events import CONTENT_FREE, Payload, ProviderUsage
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.engine.clock import Clock
from evalwright.store.protocol import EventSink, NewEvent
from evalwright.store.records import RecordChange

TOGETHER = 12  # that wait for the same commit at most
HANDOVER_SECONDS = 0.0001  # in which the thread that writes begins: it cannot while this one works
HOLD_SECONDS = 0.005  # as long as an append waits for others: instant answers come before that
MAX_BACKLOG = 4096  # appends that may wait for the disk before the run waits with them


class Recorder:
    """Writes the events of one run; safe to use from an agent's thread."""

    def __init__(
        self, log: EventSink, run_id: str, clock: Clock, redactor: Redactor = NOTHING_SECRET
    ) -> None:
        self.run_id = run_id
        self._log = log
        self._clock = clock
        self._loop_thread = threading.get_ident()
        self._encode = msgspec.json.Encoder().encode
        self._redact = redactor.redact if redactor.knows_secrets else None
        self._waiting: list[asyncio.Future[None]] = []  # for the next commit
        self._held: dict[str, NewEvent] = {}  # by task
        self._order = threading.Lock()  # of what is held and what comes after it
        self._release_s = 0.0  # when it is appended at the latest

    def record(
        self, task_id: str | None, *payloads: Payload, facts: Sequence[NewEvent] = ()
    ) -> None:
        """Append payloads, and facts recorded elsewhere, as one unit, in order."""
        events = self._events(task_id, payloads, facts)
        if not self._held:
            self._log.append(self.run_id, events)
            return
        with self._order:  # held until it is appended, so that nothing of its task overtakes it
            tasks = [task_id] if task_id is not None else list(self._held)
            held = [self._held[each] for each in tasks if each in self._held]
            if held or events:
                self._log.append(self.run_id, [*held, *events])
            for each in tasks:
                self._held.pop(each, None)

    def hold(self, task_id: str, payload: Payload) -> None:
        """Append a payload together with the next of its task, or a moment later without."""
        (self._held[task_id],) = self._events(task_id, (payload,))
        loop = asyncio.get_running_loop()
        if loop.time() >= self._release_s:
            self._release_s = loop.time() + HOLD_SECONDS
            loop.call_at(self._release_s, lambda: self.record(None) if self._held else None)

    def note(self, task_id: str, payload: Payload) -> None:
        """Append a payload that the end of this process, whatever ends it, must not lose."""
        events = self._events(task_id, (payload,))
        with self._order:
            if (held := self._held.get(task_id)) is not None:
                self._log.append(self.run_id, [held])
            self._log.note(self.run_id, events)
            self._held.pop(task_id, None)

    def for_task(
        self, task_id: str, count: Callable[[ProviderUsage], None] = lambda _: None
    ) -> Callable[[Payload], None]:
        """A function that records one payload under a task; a thread waits when the disk does.

        Usage is noted and written without delay, because it was paid for, and counted in the event
        loop.
        """
        loop = asyncio.get_running_loop()

        def record(payload: Payload) -> None:
            is_thread = threading.get_ident() != self._loop_thread
            if not isinstance(payload, ProviderUsage):
                self.record(task_id, payload)
            else:
                self.note(task_id, payload)
                self._log.flush(self.run_id)
                if is_thread:
                    loop.call_soon_threadsafe(count, payload)
                else:
                    count(payload)
            if is_thread and self._log.backlog > MAX_BACKLOG:
                self._log.flush(self.run_id).result()

        return record

    async def create(
        self, frame: Sequence[Payload], facts: Sequence[NewEvent], changes: Sequence[RecordChange]
    ) -> None:
        """Write what a run begins with, soon or not at all, and wait until it is durable."""
        events = self._events(None, frame, facts)
        await asyncio.wrap_future(self._log.request(self.run_id, events, changes))

    def _events(
        self, task_id: str | None, payloads: Sequence[Payload], facts: Sequence[NewEvent] = ()
    ) -> list[NewEvent]:
        now, encode, redact = self._clock.now_us(), self._encode, self._redact
        events = [
            NewEvent(
                payload.TYPE,
                task_id,
                now,
                encode(payload)
                if redact is None or payload.TYPE in CONTENT_FREE
                else redact(encode(payload)),
            )
            for payload in payloads
        ]
        if facts:  # taken over now
            events += [event._replace(at_us=now) for event in facts]
        return events

    async def keep_pace(self) -> None:
        """Wait for the disk when too much is queued."""
        if self._log.backlog > MAX_BACKLOG:
            await self.flush()

    async def flush(self, *payloads: Payload) -> None:
        """Append payloads, if there are any, and wait until everything recorded is durable.

        All who ask in one turn of the event loop wait for the same commit, unless they are many:
        then the first begin their next tasks while the others wait.
        """
        if payloads or self._held:
            self.record(None, *payloads)
        loop = asyncio.get_running_loop()
        durable = loop.create_future()
        self._waiting.append(durable)
        if len(self._waiting) == 1:
            loop.call_soon(self._flush, loop)
        elif len(self._waiting) == TOGETHER:
            self._flush(loop)
            time.sleep(HANDOVER_SECONDS)  # noqa: ASYNC251 - to others, this thread is busy anyway
        await durable

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []  # who asks from here on waits for another one
        if not waiting:
            return

        def settle(flushed: "Future[None]") -> None:
            error = flushed.exception()
            for durable in waiting:
                if durable.done():  # whoever asked has been cancelled
                    continue
                if error is None:
                    durable.set_result(None)
                else:
                    durable.set_exception(error)

        def settle_soon(flushed: "Future[None]") -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(settle, flushed)

        self._log.flush(self.run_id).add_done_callback(settle_soon)
