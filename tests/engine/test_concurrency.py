"""How many tasks are worked on at once: as many as allowed, and not one more."""

import asyncio
import threading
from typing import Any

import pytest

from builders import a_suite
from evalwright.engine.clock import SystemClock
from subjects.runs import Workshop
from subjects.waiting import TIME_LIMIT_S

MEETING_SECONDS = 120


class Crowd:
    """Counts who is in at the same time."""

    def __init__(self) -> None:
        self.most = 0
        self._inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_sync_agents_meet_up_to_the_limit_and_not_beyond(workshop: Workshop, limit: int) -> None:
    crowd, meeting = Crowd(), threading.Barrier(limit)

    def meet(task: Any) -> str:
        with crowd:
            meeting.wait(MEETING_SECONDS)  # breaks unless so many are inside at once
            return "yes"

    recording = workshop.run(a_suite(tasks=limit * 4), meet, concurrency=limit)
    assert recording.summary.passed_count == limit * 4
    assert crowd.most == limit


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_async_agents_meet_up_to_the_limit_and_not_beyond(workshop: Workshop, limit: int) -> None:
    crowd = Crowd()
    arrived: list[str] = []
    everyone_is_here = asyncio.Event()

    async def meet(task: Any) -> str:
        with crowd:
            arrived.append(task.id)
            if len(arrived) == limit:
                everyone_is_here.set()
            await asyncio.wait_for(everyone_is_here.wait(), MEETING_SECONDS)
            await asyncio.sleep(0)
            return "yes"

    recording = workshop.run(a_suite(tasks=limit * 3), meet, concurrency=limit)
    assert recording.summary.passed_count == limit * 3
    assert crowd.most == limit


def test_more_concurrency_than_tasks_is_no_problem(workshop: Workshop) -> None:
    assert workshop.run(a_suite(tasks=2), lambda _: "yes", concurrency=64).summary.passed


def test_a_thread_lost_to_a_timeout_is_replaced(workshop: Workshop) -> None:
    """With one worker, tasks after a stuck one are still answered."""
    begun, release = threading.Event(), threading.Event()

    def stuck_on_the_first(task: Any) -> str:
        if task.id == "task-1":
            begun.set()
            release.wait()
        return "yes"

    recording = workshop.run(
        a_suite(tasks=4),
        stuck_on_the_first,
        concurrency=1,
        task_timeout_s=TIME_LIMIT_S,
        time_is_up=begun.is_set,
    )
    release.set()
    assert [result.passed for result in recording.summary.tasks] == [False, True, True, True]


def test_a_display_that_breaks_does_not_stop_the_run(workshop: Workshop) -> None:
    """Whoever watches the log is told by the thread that writes it."""

    def gone(events: object) -> None:
        raise BrokenPipeError

    def watch_and_answer(task: Any) -> str:
        workshop.log.watch(task._invocation.run_id, gone)
        return "yes"

    result: list[Any] = []
    thread = threading.Thread(
        target=lambda: result.append(workshop.run(a_suite(), watch_and_answer)), daemon=True
    )
    thread.start()
    thread.join(MEETING_SECONDS)
    assert result, "the run hangs"
    assert result[0].summary.passed


class BusyClock(SystemClock):
    """Asked for the time of day with each event, it keeps its thread busy: in a time that only
    such work takes, apart from that of the other threads."""

    def __init__(self, seconds: float = 0.05) -> None:
        self._seconds = seconds
        self._passed = threading.local()

    def work(self, seconds: float) -> None:
        """Keep this thread busy."""
        self._passed.s = self.monotonic_s() + seconds

    def monotonic_s(self) -> float:  # type: ignore[override]
        return float(getattr(self._passed, "s", 0.0))

    def now_us(self) -> int:
        self.work(self._seconds)
        return super().now_us()


def test_the_latency_of_an_agent_is_without_the_stalls_of_the_event_loop(
    workshop: Workshop,
) -> None:
    clock = BusyClock()

    def answer(_task: Any) -> str:
        clock.work(0.008)
        return "yes"

    recording = workshop.run(a_suite(tasks=8), answer, concurrency=8, clock=clock)
    assert [result.latency_ms for result in recording.summary.tasks] == [8] * 8


def test_an_async_agent_does_not_wait_for_what_is_done_about_all_the_others(
    workshop: Workshop,
) -> None:
    async def answer(task: Any) -> str:
        if int(task.id.removeprefix("task-")) % 2:
            for _ in range(5):  # turns of the loop, while the other half have answered
                await asyncio.sleep(0)
        return "yes"

    clock = BusyClock(0.002)
    recording = workshop.run(a_suite(tasks=50), answer, concurrency=50, clock=clock)
    assert max(result.latency_ms or 0 for result in recording.summary.tasks) <= 10


def test_the_latency_of_an_agent_that_failed_is_its_own_too(workshop: Workshop) -> None:
    def answer(task: Any) -> str:
        if task.id == "task-1":
            raise ValueError("too hard")
        return "yes"

    recording = workshop.run(a_suite(tasks=2), answer, concurrency=2, clock=BusyClock())
    assert recording.score("task-1")["latencyMs"] == 0
