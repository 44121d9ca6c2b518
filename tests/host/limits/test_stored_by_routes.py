"""What the requests of each route store counts towards the quotas of their tenant."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from builders import a_suite, a_suite_document
from evalwright.host.http.routing import Route
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.v1.api import v1_routes
from evalwright.host.web import sessions
from evalwright.host.web.page import WebPage
from evalwright.host.web.site import KEY_PAGES, PAGES
from evalwright.prompts.evaluate import lint_files
from evalwright_conformance import EXTENSION
from host.caller import Caller
from host.core.requests_of_routes import Asked, Ids, request_for
from host.server import RIGHT, TENANT, WRONG, ServedHost, running_host
from host.web.visitor import signed_in
from postgres_server import PostgresServer, execute

# Those that delete come last, and before them webhooks, to which runs would be sent meanwhile.
ROUTES = sorted(v1_routes(), key=lambda route: ("webhooks" in route.path, route.method == "DELETE"))
WRITING = [route for route in ROUTES if route.stores]
SEAMS = [route for route in EXTENSION.routes if route.stores]
FORMS = [each for each in (*PAGES, *KEY_PAGES) if each.method == "POST"]
SEAM_BODIES = {
    "emitProviderUsage": {
        "runId": "run_1",
        "payload": {"provider": "acme", "model": "m", "inputTokens": 1, "outputTokens": 1},
    },
    "driveDeploymentTransition": {"scenario": "promote"},
}
REFUSED = (403, "quota_exceeded")

# The tables that requests may add to, and what of it the quotas count.
TABLES = {
    "events": "the bytes of runs",
    "contents": "the bytes of runs: each run that has the part counts it in full",
    "records": "the bytes of documents, and the number of some",
    "tombstones": "bytes for each",
    "webhook_outbox": "bytes for each",
    "webhook_followers": "a few rows for each webhook, whose document is counted",
    "runs": "their number",
    **dict.fromkeys(("run_facts", "run_tags", "run_contents"), "a few rows for each run"),
}
# A few rows for each tenant and process, and what the fleet keeps of runs in progress.
OTHERS = re.compile("(partition|tenant|record)_sizes|evalwright_schema|writers|attempts|fleet_.*")
OF_THE_HOST = "tenant = '' AND kind IN ('key', 'trial', 'host', 'leader', 'session')"
_BYTES = "coalesce(sum(length(body)), 0)"


class Town(NamedTuple):
    """A host, a tenant who has something of everything, and their database."""

    served: ServedHost
    caller: Caller
    ids: Ids
    kept: str  # a run that no request deletes
    ask: Callable[[str], list[Any]]

    def stored(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes by table, as they are: the sums that the quotas read are not asked."""
        sized = {
            "events": "SELECT 'events', count(*), {bytes} FROM events",
            "contents": "SELECT 'contents', count(*), {bytes} FROM contents",
            "records": "SELECT 'records', count(*), {bytes} + coalesce(sum(length(key)), 0)"
            f" FROM records WHERE NOT ({OF_THE_HOST})",
        }
        plain = "SELECT '{name}', count(*), 0 FROM {name}"
        asked = [sized.get(name, plain).format(name=name, bytes=_BYTES) for name in self.tables()]
        return {name: (rows, size) for name, rows, size in self.ask(" UNION ALL ".join(asked))}

    def tables(self) -> list[str]:
        """The tables of the log that requests may add to."""
        found = (
            self.ask("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if self.served.host.records.is_local
            else self.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        )
        internal = re.compile(f"sqlite_.*|{OTHERS.pattern}")
        return [name for (name,) in found if not internal.fullmatch(name)]

    def counted(self) -> int:
        """The bytes that the quotas know of."""
        return self.served.host.quotas._usage(TENANT)[0]["bytes"]


@pytest.fixture(scope="module")
def town(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Town]:
    address = str(tmp_path_factory.mktemp("town") / "host.db")
    server: PostgresServer | None = None
    if getattr(request, "param", "") == "postgres":
        server = request.getfixturevalue("postgres")
        address = server.new_database()

    def ask(statement: str) -> list[Any]:
        if server is not None:
            return execute(address, statement)
        with closing(sqlite3.connect(f"file:{address}?mode=ro", uri=True)) as raw:
            return raw.execute(statement).fetchall()

    db = address if server is not None else Path(address)
    with running_host(db, extension=EXTENSION) as served:
        caller = served.caller()
        run_id, kept = (caller.evaluate(a_suite(1), agent_id=WRONG) for _ in range(2))
        yield Town(served, caller, Ids(run_id), kept, ask)
    if server is not None:
        server.drop_database(address)


@pytest.fixture
def full(town: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    """The tenant has more of everything than it may have."""
    limits = town.served.host.quotas._limits
    for quota in limits:
        monkeypatch.setitem(limits, quota, 0)
    return town


def name_of(route: Any) -> str:
    return f"{route.method} {route.path}"


def a_request(route: Route, ids: Ids, version: str, folder: Path) -> Asked:
    """A request that stores something new, where its route may store anything."""
    if route in SEAMS:
        path = route.path.replace("{agentId}", BUNDLED_AGENT)
        return Asked(route.method, path, SEAM_BODIES.get(route.operation.id, {}))
    asked = request_for(route, ids)
    match route.operation.id:
        case "publishSuite":
            return asked._replace(body=a_suite_document(1, version=version))
        case "pushPromptResults":
            prompt = folder / "prompt.md"
            prompt.write_text("Summarise the text.")
            (result,) = lint_files([prompt])
            return asked._replace(body={"results": [msgspec.to_builtins(result)]})
    return asked


@pytest.mark.parametrize("town", ["sqlite", "postgres"], indirect=True, scope="module")
def test_all_that_requests_may_add_to_is_known_to_the_quotas(town: Town):
    assert set(town.tables()) <= TABLES.keys()


@pytest.mark.parametrize("town", ["sqlite", "postgres"], indirect=True, scope="module")
@pytest.mark.parametrize("route", [*SEAMS, *ROUTES], ids=name_of)
def test_what_a_request_stores_is_counted(town: Town, route: Route, tmp_path: Path):
    before, counted = town.stored(), town.counted()
    method, path, body = a_request(route, town.ids, "2.0.0", tmp_path)
    reply = town.caller.send(method, path, body, {"Idempotency-Key": f"{method} {path}"})
    if reply.status == 201 and "runId" in reply.json():
        town.caller.finish(reply.json()["runId"])
    after = town.stored()
    added = sum(size for _, size in after.values()) - sum(size for _, size in before.values())
    assert added <= town.counted() - counted, "something is stored that the quotas do not see"
    if route.stores is None:
        assert after == before, "the route does not say that it stores something"


@pytest.mark.parametrize("route", [*WRITING, *SEAMS], ids=name_of)
def test_a_tenant_without_room_stores_nothing(full: Town, route: Route, tmp_path: Path):
    assert route.stores is not None
    before = full.stored()
    method, path, body = a_request(route, full.ids, "3.0.0", tmp_path)
    if method != "GET":
        reply = full.caller.send(method, path, body, {"Idempotency-Key": "beyond the quota"})
        assert reply.refusal == REFUSED, "what is kept for the key is stored, too"
        assert full.stored() == before
    reply = full.caller.send(method, path, body)
    if route.stores.is_free:  # it ends or deletes something
        assert reply.status < 400 or reply.refusal != REFUSED
    else:
        assert reply.refusal == REFUSED
        assert full.stored() == before


# What is in the forms that cannot be sent empty.
FIELDS = {
    "/start": {"suite": "acme.shop.evals.refunds@1.0.0", "agent": RIGHT},
    "/agents/{agentId}": {"version": "1.0.0", "transition": "promote"},
    "/review/{runId}/{taskId}": {"verdict": "pass"},
}


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_a_form_says_what_it_stores_and_is_refused_without_room(full: Town, form: WebPage):
    assert form.stores is not None, "a page with a form must say in the table what it stores"
    key = full.served.key()
    visitor = signed_in(full.served.url, key)
    before = full.stored()
    path = form.path.format(runId=full.kept, taskId="task-1", agentId=RIGHT)
    answer = visitor.post(path, FIELDS.get(form.path, {"key": key}))
    is_refused = answer.status == 403 and "quota" in answer.text
    assert is_refused == (not form.stores.is_free), answer.text
    if is_refused:
        assert full.stored() == before


def test_a_key_has_a_limited_number_of_sessions(town: Town, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    records, key = town.served.host.records, town.served.key("guests")
    first, *others = [signed_in(town.served.url, key) for _ in range(5)]
    assert first.get("/").status == 401, "the oldest session has ended"
    assert others[-1].get("/").status == 200
    key_id = key.split("_")[1]
    assert len(records.keys(sessions.KIND, "", f"{key_id}/")) == 3


def test_the_table_in_the_documentation_has_every_request_that_stores_something():
    page = (Path(__file__).parents[3] / "docs" / "host.md").read_text(encoding="utf-8")
    table = page.partition("\n### [host.quotas]\n")[2].partition("\n### ")[0]
    missing = [name_of(route) for route in WRITING if f"`{name_of(route)}`" not in table]
    assert not missing
