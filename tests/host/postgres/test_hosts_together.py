"""Several hosts over one PostgreSQL: whichever a client speaks to, it sees and does the same."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from builders import a_suite, a_task
from evalwright.host.access.keys import list_keys, revoke_key
from host.caller import Caller, Frame
from host.server import GATED, ServedHost, running_host
from host.web.visitor import Visitor, signed_in
from postgres_server import PostgresServer, database_of
from subjects.waiting import Journal, eventually

WAITING = a_suite([a_task("one", input="wait"), a_task("two")])

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def address(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.new_database()
    yield address
    postgres.drop_database(address)


@pytest.fixture(scope="module")
def pair(address: str) -> Iterator[tuple[ServedHost, ServedHost]]:
    with ExitStack() as running:
        first, second = (running.enter_context(running_host(address)) for _ in range(2))
        yield first, second


@pytest.fixture
def callers(pair: tuple[ServedHost, ServedHost]) -> tuple[Caller, Caller]:
    """A client of a new tenant, at either host."""
    key = pair[0].key(f"tenant-{next(_numbers)}")
    return Caller(pair[0].url, key), Caller(pair[1].url, key)


def test_a_stream_has_every_event_whichever_host_appended_it(
    callers: tuple[Caller, Caller], gate: Journal
):
    here, there = callers
    run_id = here.start(WAITING, GATED)
    with ThreadPoolExecutor() as threads:
        followed = [threads.submit(each.frames, run_id) for each in (here, there)]
        gate.open_gate()
        frames: list[list[Frame]] = [each.result() for each in followed]
    assert frames[0] == frames[1]
    assert [frame.id for frame in frames[1]] == list(range(len(frames[1])))
    assert frames[1][-1].name == "run.completed"


def test_a_stream_misses_nothing_when_the_connection_that_listens_breaks(
    callers: tuple[Caller, Caller], gate: Journal, postgres: PostgresServer, address: str
):
    here, there = callers
    run_id = here.start(WAITING, GATED)
    with there.stream(f"/v1/runs/{run_id}/events?streamMode=debug") as stream:
        seen = stream.until("agent.invocation.started")
        broken = postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{database_of(address)}'"
            " AND (query LIKE '%pg_notify%' OR query LIKE 'LISTEN%')"
        )
        gate.open_gate()
        seen += list(stream)
    assert broken
    assert [frame.id for frame in seen] == list(range(len(seen)))
    assert seen[-1].name == "run.completed"


def test_a_run_is_paused_resumed_and_cancelled_by_a_host_that_does_not_execute_it(
    callers: tuple[Caller, Caller], gate: Journal
):
    here, there = callers
    run_id = here.start(WAITING, GATED)
    assert there.post(f"/v1/runs/{run_id}:pause").status == 202
    assert here.snapshot(run_id)["status"] == "paused"
    assert there.post(f"/v1/runs/{run_id}:resume").status == 202
    assert here.snapshot(run_id)["status"] == "running"
    assert there.post(f"/v1/runs/{run_id}/cancel").json()["status"] == "cancelled"
    assert here.snapshot(run_id)["status"] == "cancelled"


def test_the_same_request_to_two_hosts_creates_one_run(callers: tuple[Caller, Caller]):
    ref = callers[0].publish(a_suite(1))
    together = threading.Barrier(2)

    def create(caller: Caller) -> str:
        together.wait()
        return str(caller.create(ref, headers={"Idempotency-Key": "order"}).json()["runId"])

    with ThreadPoolExecutor() as threads:
        made = list(threads.map(create, callers))
    assert made[0] == made[1]
    assert callers[1].run_ids() == made[:1]


def test_what_one_host_changes_the_other_shows_at_once(callers: tuple[Caller, Caller]):
    here, there = callers
    run_id = here.evaluate(a_suite(1))
    assert there.snapshot(run_id)["status"] == "completed"
    assert there.get("/v1/suites").json() == here.get("/v1/suites").json()
    assert here.send("DELETE", f"/v1/runs/{run_id}").status == 204
    eventually(lambda: there.get(f"/v1/runs/{run_id}").status == 404, "the run is gone there")


def test_a_revoked_key_is_refused_by_both_hosts(
    pair: tuple[ServedHost, ServedHost], callers: tuple[Caller, Caller]
):
    records = pair[0].log.records
    revoke_key(records, list_keys(records)[-1].key_id, datetime.now(UTC))
    assert [caller.get("/v1/runs").status for caller in callers] == [401, 401]


def test_hosts_share_the_rates_of_their_clients_and_one_leads(pair: tuple[ServedHost, ServedHost]):
    eventually(lambda: {each.host.hosts.count for each in pair} == {2}, "both hosts are counted")
    assert sorted(each.host.hosts.is_leader for each in pair) == [False, True]


def test_another_host_takes_over_what_one_leaves_and_scores_each_task_once(
    address: str, pair: tuple[ServedHost, ServedHost], gate: Journal
):
    with running_host(address) as leaving:
        key = leaving.key()
        run_id = Caller(leaving.url, key).start(WAITING, GATED)
    gate.open_gate()
    frames = Caller(pair[1].url, key).frames(run_id)
    assert [frame.id for frame in frames] == list(range(len(frames)))
    assert [frame.name for frame in frames].count("eval.scored") == 2


def test_a_new_host_leads_where_the_leader_has_left(postgres_address: str):
    for _ in range(2):
        with running_host(postgres_address) as served:
            assert served.host.hosts.is_leader


def test_pages_show_and_do_the_same_at_either_host(
    pair: tuple[ServedHost, ServedHost], callers: tuple[Caller, Caller], gate: Journal
):
    here = signed_in(callers[0].url, callers[0].key or "")
    there = Visitor(callers[1].url)
    (session,) = [value for name, value in here.cookies.items() if "session" in name]
    there.cookies = {f"evalwright_session_{there.address[1]}": session}
    run_id = callers[0].start(WAITING, GATED)
    gate.wait_for(2)
    assert run_id in there.get("/runs").text
    eventually(lambda: "1 of 2 tasks are scored" in there.get(f"/runs/{run_id}").text)
    assert there.post(f"/runs/{run_id}/cancel").status == 303
    eventually(lambda: ">Cancelled</h1>" in here.get(f"/runs/{run_id}").text)
    assert here.post("/sign-out").status == 303
    assert there.get("/").status == 401
