"""PostgreSQL is restarted or away: hosts say so, lose nothing and go on by themselves."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import a_suite, a_task
from evalwright.store.location import HOST_PATIENCE
from host.caller import Caller, Frame
from host.server import GATED, HostProcess, ServedHost, running_host
from postgres_server import PostgresServer
from subjects.command import Evalwright
from subjects.waiting import Journal, eventually

WAITING = a_suite([a_task("one", input="wait"), a_task("two")])


@pytest.fixture
def served(own_postgres: PostgresServer, gate: Journal) -> Iterator[ServedHost]:
    with running_host(own_postgres.new_database(), patience=HOST_PATIENCE) as served:
        yield served


def test_while_the_database_is_away_clients_are_told_to_come_back_and_nothing_is_lost(
    served: ServedHost, own_postgres: PostgresServer, gate: Journal
):
    caller = served.caller()
    ref = caller.publish(WAITING)
    run_id = caller.start(ref, GATED)
    path = f"/v1/runs/{run_id}/events?streamMode=debug"
    with ThreadPoolExecutor() as threads, caller.stream(path) as stream:
        frames = stream.until("agent.invocation.started")
        followed = threads.submit(list[Frame], stream)
        own_postgres.stop(signal.SIGQUIT)
        gate.open_gate()
        for reply in (caller.get(f"/v1/runs/{run_id}"), caller.create(ref, GATED)):
            assert reply.refusal == (503, "service_unavailable")
            assert int(reply.headers["retry-after"]) > 0
        assert served.nobody().get("/v1/host/readyz").status == 503
        assert served.nobody().get("/v1/host/healthz").status == 200
        own_postgres.start()
        frames += followed.result()
    assert [frame.id for frame in frames] == list(range(len(frames)))
    assert frames[-1].name == "run.completed"
    eventually(lambda: served.nobody().get("/v1/host/readyz").status == 200, "the host is ready")
    assert caller.evaluate(ref, GATED)


def test_a_killed_host_s_runs_go_on_at_another_one(
    evalwright: Evalwright, journal: Journal, postgres_address: str
):
    first = HostProcess(evalwright, journal.environment)
    second = first.twin()
    first.db = second.db = postgres_address
    first.start()
    second.start()
    caller = first.caller()
    run_id = caller.start(WAITING, GATED)
    journal.wait_for(1)
    first.kill()
    journal.open_gate()
    frames = Caller(second.url, caller.key).frames(run_id)
    second.kill()
    names = [frame.name for frame in frames]
    assert [frame.id for frame in frames] == list(range(len(frames)))
    assert (names.count("eval.scored"), names[-1]) == (2, "run.completed")
