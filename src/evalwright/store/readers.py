"""Reading the log for others: threads that are shared fairly, and what they remember.

A thread that serves many clients must not wait for the disk: it lets the reading threads do it.
Each share, such as the reads of one tenant, has a queue of its own, and the queues take turns.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from evalwright.contracts.events import TERMINAL_TYPES, Event

T = TypeVar("T")

MOST_THREADS = 4
MOST_THREADS_PER_SHARE = 2
MOST_ENDED_BYTES = 16 * 1024 * 1024  # of ended runs whose edges are remembered
ENDED_SECONDS = 1.0  # after which they are read again: another process may have deleted the run


class EndedRuns:
    """The edges of runs that have ended, which do not change; those asked for last are kept."""

    def __init__(
        self, most_bytes: int = MOST_ENDED_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._change = threading.Lock()  # guards the rest
        self._bytes = 0
        self._known: dict[tuple[str | None, str], tuple[float, int, list[Event]]] = {}

    def get(self, tenant: str | None, run_id: str) -> list[Event] | None:
        known = self._known.get((tenant, run_id))
        return known[2] if known is not None and self._clock() < known[0] else None

    def put(self, tenant: str | None, run_id: str, edges: list[Event]) -> None:
        if not edges or edges[-1].type not in TERMINAL_TYPES:
            return
        size = sum(len(event.body) for event in edges)
        with self._change:
            self._drop((tenant, run_id))
            self._known[tenant, run_id] = (self._clock() + ENDED_SECONDS, size, edges)
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._known)))

    def _drop(self, key: tuple[str | None, str]) -> None:
        _, size, _ = self._known.pop(key, (0.0, 0, []))
        self._bytes -= size

    def forget(self, run_ids: Sequence[str] | None) -> None:
        """Forget runs of which another process told; without any, all."""
        if run_ids is None:
            self.clear()
            return
        with self._change:
            for key in [key for key in self._known if key[1] in run_ids]:
                self._drop(key)

    def clear(self) -> None:
        with self._change:
            self._known.clear()
            self._bytes = 0


class _QueuedRead(NamedTuple):
    read: Callable[[], Any]
    done: "Future[Any]"

    def do(self) -> None:
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            found = self.read()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self.done.set_exception(error)
        else:
            self.done.set_result(found)


class ReadingThreads:
    """Threads that read for others; they start when they are needed."""

    def __init__(
        self,
        most: int = MOST_THREADS,
        most_per_share: int = MOST_THREADS_PER_SHARE,
        name: str = "event-log-reader",
    ) -> None:
        self._name = name
        self._most = most
        self._most_per_share = most_per_share
        self._change = threading.Condition()  # guards the rest
        self._waiting: dict[str, deque[_QueuedRead]] = {}  # by share; the first share is the next
        self._busy: dict[str, int] = {}  # threads, by share
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, share: str, read: Callable[[], T]) -> "Future[T]":
        """Let a thread read; a share has at most a few threads, however much it asks for."""
        done: Future[T] = Future()
        with self._change:
            if self._closed:
                raise RuntimeError("the reading threads have ended")
            self._waiting.setdefault(share, deque()).append(_QueuedRead(read, done))
            if self._idle:
                self._change.notify()
            elif len(self._threads) < self._most:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return done

    def _work(self) -> None:
        share: str | None = None
        while True:
            with self._change:
                if share is not None:
                    self._busy[share] -= 1
                    if not self._busy[share]:
                        del self._busy[share]
                while (found := self._next()) is None:
                    if self._closed:
                        return
                    self._idle += 1
                    self._change.wait()
                    self._idle -= 1
                share, work = found
            work.do()
            del work, found  # they may hold much, and the next may come late

    def _next(self) -> tuple[str, _QueuedRead] | None:
        """The oldest work of the first share that may have one more thread."""
        free = (s for s in self._waiting if self._busy.get(s, 0) < self._most_per_share)
        share = next(free, None)
        if share is None:
            return None
        self._busy[share] = self._busy.get(share, 0) + 1
        queue = self._waiting.pop(share)
        work = queue.popleft()
        if queue:
            self._waiting[share] = queue  # behind the others
        return share, work

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()


class LogReading:
    """What a log has for those who must not wait for the disk."""

    def __init__(
        self, most: int = MOST_THREADS, most_per_share: int = MOST_THREADS_PER_SHARE
    ) -> None:
        self.threads = ReadingThreads(most, most_per_share)
        self.ended_runs = EndedRuns()  # to be cleared when a run is deleted
