"""Nothing reads the log on the thread that serves everybody: a slow disk would stop them all."""

import asyncio
import traceback
from collections.abc import Iterator

import pytest

from builders import a_suite, a_task
from evalwright.host.v1.api import v1_routes
from evalwright.store.sqlite.log import Database
from evalwright_conformance import EXTENSION
from host.caller import Caller
from host.core.requests_of_routes import SAMPLES, Ids, request_for
from host.server import GATED, TENANT, ServedHost, running_host
from subjects.waiting import Journal

MODES = ("updates", "values", "messages", "debug")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the log was read on the thread of a running event loop; documents do not count."""
    found: list[str] = []
    query = Database.query

    def watched(self, statement, values):
        if asyncio._get_running_loop() is not None and "FROM records" not in statement:
            found.append("".join(traceback.format_stack(limit=8)))
        return query(self, statement, values)

    monkeypatch.setattr(Database, "query", watched)
    return found


@pytest.fixture
def served(tmp_path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedHost]:
    for name, value in journal.environment.items():
        monkeypatch.setenv(name, value)
    with running_host(tmp_path / "host.db", extension=EXTENSION) as served:
        yield served
        journal.open_gate()


def waiting_run(caller: Caller, journal: Journal) -> str:
    tasks = [a_task("task-1", input="wait"), a_task("task-2")]
    run_id = caller.start(a_suite(tasks, version="1.0.1"), GATED)
    journal.wait_for(1)
    return run_id


def test_no_route_reads_the_log_on_the_event_loop(
    served: ServedHost, journal: Journal, reads: list[str]
) -> None:
    caller = served.caller()
    ended, running = caller.evaluate(a_suite(2)), waiting_run(caller, journal)
    forgotten = served.log._database
    guilty: list[str] = []
    for run_id in (ended, "run_nowhere", running):
        for route in v1_routes():
            is_endless = run_id == running and route.path.endswith("/events")
            if not is_endless and "cancel" not in route.path:
                forgotten.reading.ended_runs.clear()  # so that each has to look for itself
                forgotten.run_numbers.pop((TENANT, run_id), None)
                caller.send(*request_for(route, Ids(run=run_id)))
                guilty += [f"{route.method} {route.path} of {run_id}\n{each}" for each in reads]
                reads.clear()
    assert not guilty, "\n".join(guilty)
    for path in (f"/v1/runs/{running}/cancel", "/v1/runs:bulk-cancel"):
        body = {"runIds": [running]} if path.endswith("bulk-cancel") else {}
        forgotten.run_numbers.pop((TENANT, running), None)
        assert caller.post(path, body).status == 200
    assert not reads, reads[0]


def test_the_refusal_of_a_second_pause_does_not_read_the_log_on_the_event_loop(
    served: ServedHost, journal: Journal, reads: list[str]
) -> None:
    caller = served.caller()
    path = f"/v1/runs/{waiting_run(caller, journal)}:pause"
    first, second = (caller.post(path, {}) for _ in range(2))
    assert second.status == 409
    assert second.json()["details"]["pausedAt"] == first.json()["pausedAt"]
    assert not reads, reads[0]


def test_no_seam_reads_the_log_on_the_event_loop(served: ServedHost, reads: list[str]) -> None:
    caller = served.caller()
    run_id = caller.evaluate(a_suite(1))
    for route in EXTENSION.routes:
        path = route.path.replace("{runId}", run_id).replace("{", "").replace("}", "")
        served.log._database.run_numbers.pop((TENANT, run_id), None)
        caller.send(route.method, path, {} if route.method == "POST" else None)
        assert not reads, f"{route.method} {path}\n{reads[0]}"


@pytest.mark.parametrize("mode", MODES)
def test_no_stream_reads_the_log_on_the_event_loop(
    served: ServedHost, journal: Journal, reads: list[str], mode: str
) -> None:
    caller = served.caller()
    run_id = waiting_run(caller, journal)
    for ending in ("", "&bufferMs=10"):
        with caller.stream(f"/v1/runs/{run_id}/events?streamMode={mode}{ending}") as stream:
            journal.open_gate()
            list(stream)
    caller.get(f"/v1/runs/{run_id}/events/poll")
    assert not reads, reads[0]


def test_the_walk_reaches_every_route() -> None:
    assert {(route.method, route.path) for route in v1_routes()} == SAMPLES.keys()
