"""Agents behind addresses: tenants register them, and the operator decides where they may be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.contracts.suite import Suite
from host.caller import Caller
from host.server import ServedHost, running_host
from subjects.endpoint import Endpoint, Reply, answer, serving

AGENT = "local.acme.remote"
LOOPBACK = {"egress": {"allow_private": True, "allow_http": True}}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving(lambda request: answer("yes")) as endpoint:
        yield endpoint


def register(caller: Caller, url: str, version: str = "1.0.0") -> int:
    return caller.post("/v1/agents", {"agentId": AGENT, "version": version, "url": url}).status


@pytest.fixture
def open_host(tmp_path: Path) -> Iterator[ServedHost]:
    """A host whose operator allows agents on this machine."""
    with running_host(tmp_path / "host.db", settings=LOOPBACK) as served:
        yield served


def test_an_agent_behind_an_address_is_evaluated(open_host: ServedHost, endpoint: Endpoint):
    caller = open_host.caller()
    assert register(caller, endpoint.url) == 201
    run_id = caller.evaluate(a_suite(3), AGENT)
    assert caller.get(f"/v1/runs/{run_id}/eval-summary").json()["passedCount"] == 3
    assert len(endpoint.requests) == 3


def test_the_callers_key_is_not_passed_on(open_host: ServedHost, endpoint: Endpoint):
    caller = open_host.caller()
    register(caller, endpoint.url)
    caller.evaluate(a_suite(1), AGENT)
    assert str(caller.key) not in str(endpoint.requests)


def test_a_redirect_is_not_followed(open_host: ServedHost, endpoint: Endpoint):
    def redirect(request: object) -> Reply:
        return Reply(b"", 307, {"Location": endpoint.url})

    caller = open_host.caller()
    with serving(redirect) as elsewhere:
        register(caller, elsewhere.url)
        assert caller.finish(caller.start(a_suite(1), AGENT))["status"] == "failed"
    assert endpoint.requests == []


def test_an_agent_on_this_machine_is_refused_unless_it_is_allowed(
    newcomer: Caller, endpoint: Endpoint
):
    https = endpoint.url.replace("http://", "https://")
    for url in (endpoint.url, https, "https://169.254.169.254/", "https://localhost/", "file:///"):
        assert register(newcomer, url) == 400
    assert endpoint.requests == []


def test_a_version_that_is_registered_stays_as_it_is(open_host: ServedHost, endpoint: Endpoint):
    caller = open_host.caller()
    statuses = [register(caller, endpoint.url), register(caller, endpoint.url)]
    assert statuses == [201, 200]
    assert register(caller, f"{endpoint.url}/other") == 409
    assert register(caller, f"{endpoint.url}/other", "1.0.1") == 201


def test_how_an_agent_is_reached_is_not_told(open_host: ServedHost, endpoint: Endpoint):
    caller = open_host.caller()
    register(caller, endpoint.url)
    for path in ("/v1/agents", f"/v1/agents/{AGENT}"):
        assert str(endpoint.port) not in caller.get(path).body.decode()


# Isolation.


def with_fixtures(**fixtures: list) -> Suite:
    return a_suite([a_task(fixtures=fixtures)], version="1.1.0")


TOOLS = {"toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}]}
MEMORY = {"memorySeed": [{"id": "contact", "content": "by e-mail"}]}
MARK = "not-isolated"


@pytest.mark.parametrize("fixtures", [TOOLS, MEMORY, TOOLS | MEMORY])
def test_a_run_whose_agent_may_ignore_its_fixtures_is_marked(
    open_host: ServedHost, endpoint: Endpoint, fixtures
):
    caller = open_host.caller()
    register(caller, endpoint.url)
    run_id = caller.evaluate(with_fixtures(**fixtures), AGENT, tags=["ci"])
    assert caller.snapshot(run_id)["tags"] == ["ci", MARK]
    started = caller.frames(run_id)[0].data
    assert started["payload"]["tags"] == ["ci", MARK]
    summary = caller.get(f"/v1/runs/{run_id}/eval-summary")
    assert summary.headers["evalwright-marks"] == MARK
    listed = caller.get(f"/v1/runs?tag={MARK}").json()["runs"]
    assert [each["runId"] for each in listed] == [run_id]


def test_a_run_without_fixtures_or_with_an_agent_in_the_host_is_not_marked(
    open_host: ServedHost, endpoint: Endpoint
):
    caller = open_host.caller()
    register(caller, endpoint.url)
    suite = with_fixtures(**TOOLS)
    runs = [caller.evaluate(a_suite(1), AGENT), caller.evaluate(suite, tags=[MARK])]
    for run_id in runs:
        assert MARK not in caller.snapshot(run_id).get("tags", [])
        summary = caller.get(f"/v1/runs/{run_id}/eval-summary")
        assert "evalwright-marks" not in summary.headers


def test_a_branch_of_a_marked_run_is_marked_too(open_host: ServedHost, endpoint: Endpoint):
    caller = open_host.caller()
    register(caller, endpoint.url)
    source = caller.evaluate(with_fixtures(**TOOLS), AGENT)
    overlay = {"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": ["again"]}}
    branch = caller.post(f"/v1/runs/{source}:fork", overlay).json()["runId"]
    caller.finish(branch)
    assert caller.snapshot(branch)["tags"] == ["again", MARK]


def test_the_request_for_a_branch_cannot_set_a_mark(open_host: ServedHost):
    caller = open_host.caller()
    overlay = {"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": [MARK, "again"]}}
    branch = caller.post(f"/v1/runs/{caller.evaluate()}:fork", overlay).json()["runId"]
    caller.finish(branch)
    assert caller.snapshot(branch)["tags"] == ["again"]
