"""What the process beside a run takes for the code that holds the interpreter."""

import mmap
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evalwright.cli.watchdog_process import RUN, Onlooker, WatchedTask


@contextmanager
def a_busy_thread() -> Iterator[int]:
    """A thread that works without pause, by its number."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield worker.native_id or 0
    finally:
        is_over.set()
        worker.join()


@pytest.mark.parametrize("whose", ["of a task", "of a check"])
def test_a_task_is_blamed_only_if_its_own_thread_works(whose: str) -> None:
    """Else it may be a check that works, for an answer that came in time."""
    ours, theirs = socket.socketpair()
    with ours, theirs, mmap.mmap(-1, 8192) as seen, a_busy_thread() as busy:
        waiting = WatchedTask(1.0, 1.0, threading.get_native_id(), "waiting")
        working = WatchedTask(1.0, 1.0, busy, "working")
        tasks = [waiting, working] if whose == "of a task" else [waiting]
        held = Onlooker(RUN, os.getpid(), seen, ours, [])._holding(tasks)
    assert held == tasks[1:]


@pytest.mark.parametrize(("polls", "seconds"), [(2, 0.3), (14, 3.0)])
def test_a_thread_that_polls_for_the_interpreter_is_not_what_holds_it(
    monkeypatch: pytest.MonkeyPatch, polls: int, seconds: float
) -> None:
    """The task that waits in C is, and does no work at all; a busy machine measures for longer."""

    class Observed(Onlooker):
        ticks = iter([{1: 700, 2: 40, 3: 0}, {1: 700, 2: 40 + polls, 3: 0}])

        def _work_of_threads(self) -> dict[int, int]:
            return next(self.ticks)

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda _: now.append(now.pop() + seconds))
    ours, theirs = socket.socketpair()
    with ours, theirs, mmap.mmap(-1, 8192) as seen:
        tasks = [WatchedTask(1.0, 1.0, 3, "waits in C")]
        assert Observed(RUN, 1, seen, ours, [])._holding(tasks) == tasks
