"""Every page, and all that the API lets one read, of a host with its log in PostgreSQL."""

import re
from collections.abc import Iterator

import pytest

from builders import a_suite
from evalwright.host.access.egress import Egress
from evalwright.host.v1.api import v1_routes
from evalwright.host.web.site import PAGES
from host.caller import Caller
from host.postgres.test_shared_webhooks import HOOK, public
from host.server import RIGHT, WRONG, ServedHost, running_host
from host.web.visitor import signed_in
from postgres_server import PostgresServer

QUERIES = {  # what is asked, beside the path
    "/compare": "?run={runId}&run={otherId}",
    "/matrix": "?run={runId}&run={otherId}",
    "/compare/task": "?run={runId}&run={otherId}&task=task-1",
    "/prompts/file": "?path=none.md",
    "/v1/runs/{runId}/compare-report": "?baseline={otherId}",
    "/v1/runs/{runId}:diff": "?against={otherId}",
}
PAGES_OF_NOTHING = {
    "/prompts/file",
    "/runs/{runId}/tasks/{taskId}/steps/{step}",
    "/runs/{runId}/tasks/{taskId}/attachments/{digest}",
}  # nothing is there


@pytest.fixture(scope="module")
def served(postgres: PostgresServer) -> Iterator[ServedHost]:
    address = postgres.new_database()
    with running_host(address, egress=Egress(lookup=public)) as host:
        yield host
    postgres.drop_database(address)


@pytest.fixture(scope="module")
def known(served: ServedHost) -> dict[str, str]:
    """What the parameters of paths may be: two runs of one suite, by agents of the host."""
    caller = Caller(served.url, served.key())
    suite_id, _, version = caller.publish(a_suite(1)).partition("@")
    runs = [caller.evaluate(f"{suite_id}@{version}", agent_id=each) for each in (RIGHT, WRONG)]
    hook = caller.post("/v1/webhooks", HOOK).json()["webhookId"]
    names = ("runId", "otherId", "taskId", "step", "suiteId", "suite", "version", "agentId")
    names += ("webhookId",)
    values = (*runs, "task-1", "99", suite_id, suite_id, version, RIGHT, hook)
    return dict(zip(names, values, strict=True))


def filled(path: str, known: dict[str, str]) -> str:
    wanted = path + QUERIES.get(path, "")
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "none"), wanted)


def test_whatever_can_be_read_is_answered(served: ServedHost, known: dict[str, str]):
    caller = Caller(served.url, served.key())
    asked = [
        route.path
        for route in v1_routes()
        if route.method == "GET" and not route.path.endswith("/events")
    ]
    found = {path: caller.get(filled(path, known)).status for path in asked}
    assert found == dict.fromkeys(asked, 200)


def test_every_page_is_shown(served: ServedHost, known: dict[str, str]):
    """After the test above: the page leaves a comparison going on, and a tenant has only one."""
    visitor = signed_in(served.url, served.key())
    asked = [
        page.path
        for page in PAGES
        if page.method == "GET" and not page.path.endswith(("/live", ".zip"))  # no pages
    ]
    found = {path: visitor.get(filled(path, known)).status for path in asked}
    assert found == {path: 404 if path in PAGES_OF_NOTHING else 200 for path in asked}
