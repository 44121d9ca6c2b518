"""What one tenant does must not slow the others: many streams, and many tasks that take no time."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders import a_suite, a_task
from faults.soaking import scaled
from host.attacks.raw_client import connected, request
from host.caller import Caller
from host.server import ServedHost, running_host

LONG_RUNS = scaled(4, 16)
TASKS = scaled(400, 10_000)
IDLE = scaled(60, 900)
READING = scaled(15, 200)
LIMITS = {"max_tasks_per_suite": 10_000, "max_streams_per_tenant": 2_000}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    with running_host(tmp_path_factory.mktemp("host") / "host.db", settings=LIMITS) as served:
        yield served


def suite_of(tasks: int, version: str) -> object:
    return a_suite([a_task(f"task-{n}") for n in range(tasks)], version=version)


def scored(caller: Caller, run_id: str) -> int:
    """How many tasks of a run have their score: about, as each has the same number of events."""
    last = caller.get(f"/v1/runs/{run_id}").headers["etag"].strip('"').rpartition(".")[2]
    return int(last) // 5


@pytest.mark.parametrize("tenant", ["same", "other"])
def test_a_short_run_does_not_wait_for_long_ones(lasting: ServedHost, tenant: str) -> None:
    caller = lasting.caller(f"long-{tenant}")
    mine = caller if tenant == "same" else lasting.caller("short")
    ref = caller.publish(suite_of(TASKS, "1.0.0"))
    short = mine.publish(suite_of(5, "1.0.1"))
    runs = [caller.start(ref) for _ in range(LONG_RUNS)]
    assert mine.finish(mine.start(short))["status"] == "completed"
    done = sum(scored(caller, run_id) for run_id in runs)
    assert done < LONG_RUNS * TASKS / 2, "the short run ended after half of the long ones"
    assert {caller.finish(run_id)["status"] for run_id in runs} == {"completed"}


class Probe:
    """Asks for `healthz` again and again, and notes the longest wait."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.waits: list[float] = []

    def _ask(self) -> None:
        while not self._is_over.is_set():
            began = time.monotonic()
            assert self._caller.get("/v1/host/healthz").status == 200
            self.waits.append(time.monotonic() - began)

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def test_streams_that_catch_up_leave_the_loop_to_others(lasting: ServedHost) -> None:
    caller, other = lasting.caller("crowd"), lasting.caller("other-crowd")
    run_id = caller.evaluate(suite_of(scaled(300, 1_000), "1.0.0"))
    theirs = other.evaluate(suite_of(1, "1.0.0"))
    path = f"/v1/runs/{run_id}/events?streamMode=debug"
    with ExitStack() as idle, Probe(other) as probe:
        for _ in range(IDLE):
            idle.enter_context(connected(caller, request(caller, path)))
        lengths = set[int]()
        readers = [
            threading.Thread(target=lambda: lengths.add(len(caller.frames(run_id))))
            for _ in range(READING)
        ]
        for each in readers:
            each.start()
        began, waits = time.monotonic(), list[float]()
        while any(each.is_alive() for each in readers):
            asked = time.monotonic()
            assert other.get(f"/v1/runs/{theirs}").status == 200
            waits.append(time.monotonic() - asked)
        lasted = time.monotonic() - began
        for each in readers:
            each.join()
    assert len(lengths) == 1  # all got the same, and all of it
    typical = sorted(waits)[len(waits) // 2]  # the first meets all who connect at once
    assert len(waits) > 1, "the other tenant is served while they catch up"
    assert typical < lasted / 2, "the other tenant waits for part of it at most"
    # One read of the run on the event loop for each stream would take longer than that.
    assert sorted(probe.waits)[int(len(probe.waits) * 0.9)] < 2


def test_the_log_of_a_crowd_stays_whole(tmp_path: Path) -> None:
    with running_host(tmp_path / "host.db") as served:
        callers = [served.caller(f"tenant-{n}") for n in range(3)]
        runs = [(each, each.start(suite_of(60, "1.0.0"))) for each in callers * 3]
        for caller, run_id in runs:
            assert caller.finish(run_id)["status"] == "completed"
            ids = [frame.id for frame in caller.frames(run_id)]
            assert ids == list(range(len(ids)))
