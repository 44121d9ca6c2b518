"""What one tenant does must not slow the others: many streams, and many tasks that take no time."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.engine import scoring_pool
from evalwright.host.http import guarded_connection as connection
from evalwright.host.http import routing
from faults.soaking import scaled
from host.attacks.raw_client import connected, request
from host.server import ECHO, ServedHost, running_host
from subjects.waiting import eventually

LONG_RUNS = scaled(4, 16)
TASKS = scaled(400, 1_000)
IDLE = scaled(60, 300)
READING = scaled(15, 100)
SENDERS = scaled(40, 500)
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

    def __init__(self, work: Callable[[], Any], threads: int = 1) -> None:
        self._work = work
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(threads)]
        self.results: list[Any] = []

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


LONG_ANSWERS: dict[str, tuple[Any, list[Any]]] = {
    "many": (
        "The order has been shipped. " * scaled(10_000, 54_000),
        [{"contains": f"absent {n}"} for n in range(1_000)],
    ),
    "endless": (
        "The order has been shipped. " * scaled(10_000, 54_000),
        [{"similar": {"to": f"{'Your order is on its way. ' * 100}{n}"}} for n in range(200)],
    ),
}


@pytest.mark.parametrize("kind", LONG_ANSWERS)
def test_the_host_answers_while_it_scores_and_ends_what_takes_too_long(
    tmp_path: Path, kind: str
) -> None:
    output, checks = LONG_ANSWERS[kind]
    tasks = [{"id": "long", "input": output, "checks": checks}]
    suite = {"evalwright": 1, "name": "desk", "tasks": tasks}
    settings = {"scoring_s": 1 if kind == "endless" else 30}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        caller, other = served.caller("long"), served.caller("other")
        theirs = other.evaluate(suite_of(1, "1.0.0"))

        def asked_at() -> int:
            assert other.get(f"/v1/runs/{theirs}").status == 200
            return time.time_ns() // 1000

        with Again(asked_at) as probe:
            run_id = caller.evaluate(caller.publish(suite), ECHO)
        answered, scored = (
            {event.task_id: event.at_us for event in served.log.read(run_id, (kind_of_event,))}
            for kind_of_event in ("agent.invocation.completed", "eval.scored")
        )
        (checked,) = (each.payload() for each in served.log.read(run_id, ("evalwright.checked",)))
    meanwhile = [each for each in probe.results if answered["long"] < each < scored["long"]]
    assert len(meanwhile) > 2, "nobody was answered while the long answer was scored"
    if kind == "endless":
        assert checked["error"]["code"] == "scoring_timeout"
    else:
        assert len(checked["checks"]) == 1_000


def templated(text: str) -> dict[str, Any]:
    task = {"id": "a", "input": text, "checks": [{"contains": "{{ n[0] }}"}]}
    return {
        "evalwright": 1,
        "name": "desk",
        "vars": {"n": [f"{n}" for n in range(20_000)]},
        "tasks": [task],
    }


def test_templates_without_an_end_are_refused_while_others_are_answered(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One filter on a long list holds an interpreter, so that a thread could not be stopped."""
    caller, other = lasting.caller("templates"), lasting.caller("other-templates")
    caller.publish(templated("{{ n | first }}"))
    monkeypatch.setattr(scoring_pool, "LOWERING_S", scaled(1, 10))
    endless = (
        "{% for a in n %}{% if (n" + " | unique" * 16 + " | first) == 'q' %}{% endif %}{% endfor %}"
    )
    with Again(lambda: other.get("/v1/host/healthz").status) as probe:
        reply = caller.post("/v1/suites", templated(endless))
    assert reply.refusal == (400, "validation_error")
    assert "to render the templates takes longer than" in reply.json()["message"]
    assert len(probe.results) > 10


SLOW = {
    "heads": b"GET /v1/host/healthz HTTP/1.1\r\nX-Slow: ",
    "bodies": b"POST /v1/runs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{key}\r\n",
    "trailers": b"POST /v1/runs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{key}\r\n0\r\nX-Slow: ",
}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_senders_leave_the_host_to_others_and_are_cut_off(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    patience = scaled(1, 10)
    monkeypatch.setattr(connection, "HEAD_SECONDS", patience)
    monkeypatch.setattr(routing, "BODY_SECONDS", patience)
    caller, other = lasting.caller("slow"), lasting.caller("other-slow")
    theirs = other.evaluate(suite_of(1, "1.0.0"))
    begin = SLOW[kind].replace(b"{key}", f"Authorization: Bearer {caller.key}\r\n".encode())
    with ExitStack() as held, Again(lambda: other.get(f"/v1/runs/{theirs}").status) as probe:
        clients = [held.enter_context(connected(caller, begin)) for _ in range(SENDERS)]
        while clients:  # ends, because each of them is cut off
            time.sleep(scaled(1, 10) / 10)
            clients = [client for client in clients if not _is_cut_off(client)]
    assert set(probe.results) == {200}
    eventually(lambda: lasting.host.requests.held == 0, "the end of all requests")


def _is_cut_off(client: socket.socket) -> bool:
    """Send one byte more; returns whether nobody takes it."""
    try:
        client.sendall(b"a")
        client.setblocking(False)
        return client.recv(65536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


EVENTS = "/events?streamMode=debug"
BESIDE = "/compare-report?baseline={other}"
READ = ("", "/events/poll", EVENTS, "/eval-summary", "/debug-bundle", BESIDE)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_runs_that_are_deleted_beside_their_readers_are_read_whole_or_not_at_all(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    """Retention deletes as `prune` does; here it does so while all about the runs is read."""
    db: Path | str = tmp_path / "host.db"
    if store == "postgres":
        db = request.getfixturevalue("postgres").new_database()
    with running_host(db) as served:
        caller = served.caller()
        ref = caller.publish(suite_of(scaled(20, 100), "1.0.0"))
        runs = [caller.start(ref) for _ in range(scaled(3, 15))]
        other = caller.evaluate(ref)
        whole = {len(caller.frames(run_id)) for run_id in (*runs, other)}
        assert len(whole) == 1

        def read() -> tuple[int, int | None]:
            run_id, path = random.choice(runs), random.choice(READ)
            reply = caller.get(f"/v1/runs/{run_id}{path.replace('{other}', other)}")
            is_ended = path == EVENTS and b"event: run.completed" in reply.body
            return reply.status, reply.body.count(b"event: ") if is_ended else None

        with Again(read, threads=4) as reading:
            for run_id in runs:
                before = len(reading.results)
                eventually(lambda before=before: len(reading.results) > before + 8, "readers")
                served.log.upkeep.prune([run_id], "retention", ())
        assert {status for status, _ in reading.results} <= {200, 404, 429}  # 429: one comparison
        assert {frames for _, frames in reading.results} <= {None, *whole}
        assert caller.run_ids() == [other]


def test_the_log_of_a_crowd_stays_whole(tmp_path: Path) -> None:
    with running_host(tmp_path / "host.db") as served:
        callers = [served.caller(f"tenant-{n}") for n in range(3)]
        runs = [(each, each.start(suite_of(60, "1.0.0"))) for each in callers * 3]
        for caller, run_id in runs:
            assert caller.finish(run_id)["status"] == "completed"
            ids = [frame.id for frame in caller.frames(run_id)]
            assert ids == list(range(len(ids)))
