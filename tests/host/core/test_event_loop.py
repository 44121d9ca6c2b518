"""The event loop of a host never waits for its database, which may be on another machine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.host.v1.api import v1_routes
from evalwright_conformance import EXTENSION
from host.caller import Caller
from host.core.requests_of_routes import Ids, request_for
from host.far_log import far_log
from host.server import GATED, RIGHT, ServedHost, running_host
from subjects.waiting import Journal

GATED_SUITE = a_suite([a_task("one", input="wait")])
SEAMS = "/v1/host/sample"


@pytest.fixture
def waits() -> Iterator[list[str]]:
    with far_log() as waits:
        yield waits


@pytest.fixture
def far(waits: list[str], tmp_path: Path, gate: Journal) -> Iterator[ServedHost]:
    with running_host(tmp_path / "host.db", extension=EXTENSION) as served:
        yield served


@pytest.fixture
def caller(far: ServedHost) -> Caller:
    return far.caller()


def test_whoever_reads_a_far_log_on_an_event_loop_is_noted(waits: list[str], far: ServedHost):
    async def read() -> None:
        far.host.catalogue.suite("acme", "no.such@1.0.0")

    asyncio.run(read())
    assert [wait.partition(":")[0] for wait in waits] == ["catalogue.py"]


def test_no_route_waits_for_the_log(caller: Caller, waits: list[str]):
    run_id = caller.evaluate(a_suite(1))
    webhook = caller.post("/v1/webhooks", {"url": "https://192.0.2.1/", "events": ["run.*"]})
    ids = Ids(run_id, webhook=webhook.json().get("webhookId", "wh_nothing"))
    routes = [route for route in v1_routes(()) if route.method != "DELETE"]
    routes += [route for route in v1_routes(()) if route.method == "DELETE"]
    for number, route in enumerate(routes):
        method, path, body = request_for(route, ids)
        key = {"Idempotency-Key": f"key-{number}"} if method != "GET" else {}
        for _ in range(2):
            caller.send(method, path, body, key)
    assert waits == []


def test_no_change_of_a_run_waits_for_the_log(caller: Caller, gate: Journal, waits: list[str]):
    scope = {"X-Dedup": "enforce"}
    run_id = caller.start(GATED_SUITE, GATED, scope, scopeId="one")
    assert caller.create(GATED_SUITE, GATED, scope, scopeId="one").status == 409
    assert caller.post(f"/v1/runs/{run_id}:pause").status == 202
    assert caller.post(f"/v1/runs/{run_id}:resume").status == 202
    assert caller.post(f"/v1/runs/{run_id}/cancel").status == 200
    assert caller.finish(run_id)["status"] == "cancelled"
    assert waits == []


def test_no_start_of_a_host_waits_for_the_log(tmp_path: Path, gate: Journal, waits: list[str]):
    with running_host(tmp_path / "host.db") as served:
        run_id = served.caller().start(GATED_SUITE, GATED)
    gate.open_gate()
    with running_host(tmp_path / "host.db") as served:
        assert served.caller().finish(run_id)["status"] == "completed"
    assert waits == []


def test_no_promotion_waits_for_the_log(caller: Caller, waits: list[str]):
    for scenario in ("promote", "unauthorized", "eval-gate-unmet", "channel-pin"):
        played = caller.post(f"{SEAMS}/agents/deployment-transition", {"scenario": scenario})
        assert played.status == 200
    channel = {"configurable": {"agentChannel": "stable"}}
    caller.create(a_suite(1), RIGHT, **channel)
    assert waits == []
