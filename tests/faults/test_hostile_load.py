"""What one tenant does must not slow the others: many streams, and many tasks that take no time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders import a_suite, a_task
from faults.soaking import scaled
from host.attacks.raw_client import connected, request
from host.server import ServedHost, running_host

LONG_RUNS = scaled(4, 16)
TASKS = scaled(400, 10_000)
IDLE = scaled(60, 900)
READING = scaled(15, 200)
ASKED = 6  # times, by another tenant
LIMITS = {"max_tasks_per_suite": 10_000, "max_streams_per_tenant": 2_000}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    with running_host(tmp_path_factory.mktemp("host") / "host.db", settings=LIMITS) as served:
        yield served


def suite_of(tasks: int, version: str) -> object:
    return a_suite([a_task(f"task-{n}") for n in range(tasks)], version=version)


def times(served: ServedHost, run_id: str, kind: str) -> list[int]:
    """When the events of a kind were recorded, in microseconds."""
    return [event.at_us for event in served.log.read(run_id, (kind,))]


@pytest.mark.parametrize("tenant", ["same", "other"])
def test_a_short_run_does_not_wait_for_long_ones(lasting: ServedHost, tenant: str) -> None:
    caller = lasting.caller(f"long-{tenant}")
    mine = caller if tenant == "same" else lasting.caller("short")
    ref = caller.publish(suite_of(TASKS, "1.0.0"))
    short = mine.publish(suite_of(5, "1.0.1"))
    runs = [caller.start(ref) for _ in range(LONG_RUNS)]
    mine_id = mine.start(short)
    assert mine.finish(mine_id)["status"] == "completed"
    assert {caller.finish(run_id)["status"] for run_id in runs} == {"completed"}
    (began,), (ended,) = (
        times(lasting, mine_id, kind) for kind in ("run.started", "run.completed")
    )
    done = sum(
        began < at_us < ended for run_id in runs for at_us in times(lasting, run_id, "eval.scored")
    )
    assert done < LONG_RUNS * TASKS / 2, "the short run took as long as half of the long ones"


class Again:
    """Does something again and again, in so many threads, and notes what it gave."""

    def __init__(self, work: Callable[[], int], threads: int = 1) -> None:
        self._work = work
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(threads)]
        self.results: list[int] = []

    def _go_on(self) -> None:
        while not self._is_over.is_set():
            self.results.append(self._work())

    def __enter__(self) -> "Again":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join()


def test_streams_that_catch_up_leave_the_loop_to_others(lasting: ServedHost) -> None:
    """Told by what is done meanwhile, not by seconds: those depend on the machine."""
    caller, other = lasting.caller("crowd"), lasting.caller("other-crowd")
    run_id = caller.evaluate(suite_of(scaled(300, 1_000), "1.0.0"))
    theirs = other.evaluate(suite_of(1, "1.0.0"))
    path = f"/v1/runs/{run_id}/events?streamMode=debug"
    with (
        ExitStack() as idle,
        Again(lambda: other.get("/v1/host/healthz").status) as probe,
    ):
        for _ in range(IDLE):
            idle.enter_context(connected(caller, request(caller, path)))
        with Again(lambda: len(caller.frames(run_id)), READING) as reading:
            for _ in range(ASKED):
                assert other.get(f"/v1/runs/{theirs}").status == 200
            caught_up = len(reading.results)
    assert len(set(reading.results)) == 1  # all got the same, and all of it
    assert set(probe.results) == {200}
    # With the whole run read on the event loop, each answer would come after those of all streams.
    assert caught_up < ASKED * READING, "the other tenant waits for part of them at most"
    assert len(probe.results) > caught_up / READING


def test_the_log_of_a_crowd_stays_whole(tmp_path: Path) -> None:
    with running_host(tmp_path / "host.db") as served:
        callers = [served.caller(f"tenant-{n}") for n in range(3)]
        runs = [(each, each.start(suite_of(60, "1.0.0"))) for each in callers * 3]
        for caller, run_id in runs:
            assert caller.finish(run_id)["status"] == "completed"
            ids = [frame.id for frame in caller.frames(run_id)]
            assert ids == list(range(len(ids)))
