"""Tenants: of what belongs to another one, a caller learns no more than of what is not there."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from requests_of_routes import MANIFEST, SAMPLES, WEBHOOK, Ids, request_for

from builders import a_suite
from evalwright.host.access.egress import Egress
from evalwright.host.access.keys import SCOPES, create_key, list_keys, revoke_key
from evalwright.host.http.routing import Route
from evalwright.host.v1.api import v1_routes
from host.caller import Caller, Reply
from host.server import AGENTS, GATED, ServedHost, running_host

ROUTES: list[Route] = v1_routes()
LOCKED = [route for route in ROUTES if not route.is_open]
WITH_ID = [route for route in ROUTES if "{" in route.path]
WITH_RUN = [route for route in ROUTES if "{runId}" in route.path]
# To the others any key is let in: what it may do there is decided, and recorded, within.
SCOPED = [route for route in LOCKED if len(route.scopes) < len(SCOPES)]
NOTHING = Ids("run_01nothing", "acme.shop.evals.nothing", "local.acme.nothing", "wh_nothing")


async def public_names(host: str, port: int) -> list[str]:
    """A lookup in which every name leads to one public address."""
    return ["93.184.215.14"]


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host that lets everybody ask as often as they like."""
    settings = {"rates": {"per_address": 1_000_000.0}}
    db = tmp_path_factory.mktemp("town") / "host.db"
    with running_host(db, settings=settings, egress=Egress(lookup=public_names)) as served:
        yield served


@pytest.fixture(scope="module")
def neighbour(town: ServedHost) -> Caller:
    return town.caller("neighbour")


@pytest.fixture(scope="module")
def theirs(neighbour: Caller) -> Ids:
    """What a neighbour has: a run that has ended, a suite, an agent, a webhook."""
    suite = a_suite(1, suite_id="acme.shop.evals.theirs")
    run_id = neighbour.evaluate(suite)
    agent = {"version": "1.0.0", "manifest": MANIFEST | {"agentId": "local.acme.theirs"}}
    assert neighbour.post("/v1/agents", agent).status == 201
    webhook = neighbour.post("/v1/webhooks", WEBHOOK | {"events": ["run.paused"]}).json()
    event = neighbour.frames(run_id)[-1].data["eventId"]
    return Ids(run_id, suite.suite_id, "local.acme.theirs", webhook["webhookId"], event=event)


@pytest.fixture(scope="module")
def stranger(town: ServedHost) -> Caller:
    return town.caller("stranger")


def anonymous(reply: Reply, ids: Ids) -> tuple[int, dict[str, str], Any]:
    """A reply without what must differ: the ids that were asked for, and those of the request."""
    text = reply.body.decode()
    for own in ids:
        text = text.replace(own or "\0", "ID")
    text = re.sub(r'"correlationId":"[^"]*"', "", text)
    hidden = ("x-correlation-id", "traceparent", "content-length")
    headers = {name: value for name, value in reply.headers.items() if name not in hidden}
    return reply.status, headers, text


def test_there_is_a_sample_request_for_every_route():
    assert {(route.method, route.path) for route in ROUTES} == SAMPLES.keys()


@pytest.mark.parametrize("route", WITH_ID, ids=name_of)
def test_what_is_not_yours_is_answered_as_what_is_not_there(
    route: Route, theirs: Ids, stranger: Caller
):
    foreign = stranger.send(*request_for(route, theirs))
    missing = stranger.send(*request_for(route, NOTHING))
    assert anonymous(foreign, theirs) == anonymous(missing, NOTHING)
    assert foreign.status == 404


@pytest.mark.parametrize("route", WITH_RUN, ids=name_of)
def test_what_another_workspace_has_is_answered_as_what_is_not_there(
    route: Route, town: ServedHost, labs: Ids
):
    office = town.caller("spaces", workspace="office")
    foreign = office.send(*request_for(route, labs))
    missing = office.send(*request_for(route, NOTHING))
    assert anonymous(foreign, labs) == anonymous(missing, NOTHING)
    assert foreign.status == 404


@pytest.fixture(scope="module")
def labs(town: ServedHost) -> Ids:
    lab = town.caller("spaces", workspace="lab")
    return Ids(lab.evaluate(a_suite(1)))


def test_a_key_without_a_workspace_does_not_see_into_those(town: ServedHost, labs: Ids):
    tenant = town.caller("spaces")
    assert tenant.get(f"/v1/runs/{labs.run}").status == 404
    assert tenant.run_ids() == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/{mine}:diff?against={other}",
        "/v1/runs/{other}:diff?against={mine}",
        "/v1/runs/{mine}/compare-report?baseline={other}",
        "/v1/runs/{other}/compare-report?baseline={mine}",
    ],
)
def test_a_run_of_ones_own_cannot_be_compared_with_anothers(
    stranger: Caller, theirs: Ids, path: str
):
    mine = stranger.evaluate(a_suite(1))
    foreign = stranger.get(path.format(mine=mine, other=theirs.run))
    missing = stranger.get(path.format(mine=mine, other=NOTHING.run))
    assert anonymous(foreign, theirs) == anonymous(missing, NOTHING)
    assert foreign.status == 404


def test_an_annotation_cannot_be_about_anothers_event(stranger: Caller, theirs: Ids):
    mine = stranger.evaluate(a_suite(1))
    replies = [
        stranger.post(
            f"/v1/runs/{mine}/annotations",
            {"target": {"eventId": event}, "signal": {"kind": "flag"}},
        )
        for event in (theirs.event, "no-event")
    ]
    assert replies[0].status == replies[1].status
    assert replies[0].json()["message"] == replies[1].json()["message"]
    assert 400 <= replies[0].status < 500


def test_cancelling_many_tells_nothing_of_anothers_runs(stranger: Caller, theirs: Ids):
    body = {"runIds": [theirs.run, NOTHING.run]}
    first, second = stranger.post("/v1/runs:bulk-cancel", body).json()["results"]
    assert first | {"runId": ""} == second | {"runId": ""}
    assert first["ok"] is False


def test_lists_hold_only_what_is_ones_own(town: ServedHost, theirs: Ids):
    newcomer = town.caller("newcomer")
    assert newcomer.get("/v1/runs").json() == {"runs": []}
    refs = [suite["suiteId"] for suite in newcomer.get("/v1/suites").json()["suites"]]
    agents = [agent["agentId"] for agent in newcomer.get("/v1/agents").json()["agents"]]
    assert theirs.suite not in refs
    assert theirs.agent not in agents
    assert newcomer.get("/v1/webhooks").json() == {"webhooks": []}
    pages = [newcomer.get(f"/v1/runs?before={ids.run}") for ids in (theirs, NOTHING)]
    assert anonymous(pages[0], theirs) == anonymous(pages[1], NOTHING)


def test_two_tenants_publish_the_same_name_without_knowing(town: ServedHost):
    one, other = town.caller("one"), town.caller("two")
    replies = [
        one.post("/v1/suites", b'{"suiteId":"a.evals.b",%s}' % REST),
        other.post("/v1/suites", b'{"suiteId":"a.evals.b", %s}' % REST),
    ]
    assert [reply.status for reply in replies] == [201, 201]


REST = (
    b'"version":"1.0.0","modes":["golden"],"tasks":[{"taskId":"a","input":"x","expected":'
    b'{"kind":"golden","match":{"strategy":"exact","value":"yes"}}}]'
)


def test_an_agent_that_is_offered_to_some_is_not_there_for_others(tmp_path):
    agents = {GATED: AGENTS[GATED] | {"tenants": ("chosen",)}}
    with running_host(tmp_path / "host.db", settings={"agents": agents}) as served:
        assert served.caller("chosen").get(f"/v1/agents/{GATED}").status == 200
        other = served.caller("other")
        foreign, missing = other.get(f"/v1/agents/{GATED}"), other.get("/v1/agents/acme.nobody")
        assert anonymous(foreign, NOTHING) == anonymous(missing, NOTHING)
        assert other.create(agent_id=GATED).refusal == (400, "validation_error")


# Keys and scopes.


@pytest.mark.parametrize("route", LOCKED, ids=name_of)
def test_without_a_key_nobody_learns_what_exists(route: Route, town: ServedHost, theirs: Ids):
    replies = [town.nobody().send(*request_for(route, ids)) for ids in (theirs, NOTHING)]
    assert anonymous(replies[0], theirs) == anonymous(replies[1], NOTHING)
    assert replies[0].refusal == (401, "unauthenticated")
    assert replies[0].headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", LOCKED, ids=name_of)
def test_a_key_that_lacks_the_scope_is_refused_whatever_exists(
    route: Route, town: ServedHost, theirs: Ids
):
    for lacking in [{scope} for scope in route.scopes] if route.all_scopes else [route.scopes]:
        caller = town.caller("neighbour", scopes=[each for each in SCOPES if each not in lacking])
        replies = [caller.send(*request_for(route, ids)) for ids in (theirs, NOTHING)]
        assert {reply.refusal for reply in replies} == {(403, "forbidden")}
        assert anonymous(replies[0], theirs) == anonymous(replies[1], NOTHING)


@pytest.mark.parametrize("route", SCOPED, ids=name_of)
def test_a_key_with_just_the_scope_is_let_in(route: Route, town: ServedHost):
    enough = [route.scopes] if route.all_scopes else [[scope] for scope in route.scopes]
    for scopes in enough:
        reply = town.caller("scoped", scopes=scopes).send(*request_for(route, NOTHING))
        assert reply.status not in (401, 403)


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer x", "Bearer {key}x", "{key}", "Token {key}"],
)
def test_a_header_that_holds_no_valid_key_is_not_let_in(town: ServedHost, header: str):
    given = {"Authorization": header.format(key=town.key())}
    reply = town.nobody().get("/v1/runs", given)
    assert reply.refusal == (401, "unauthenticated")


def test_a_revoked_key_opens_nothing_from_then_on(town: ServedHost):
    caller = town.caller("leaving")
    assert caller.get("/v1/runs").status == 200
    key_id = list_keys(town.log.records, "leaving")[0].key_id
    revoke_key(town.log.records, key_id, datetime.now(UTC))
    assert caller.get("/v1/runs").refusal == (401, "key_revoked")


def test_an_expired_key_opens_nothing(town: ServedHost):
    yesterday = datetime.now(UTC) - timedelta(days=1)
    end = yesterday + timedelta(hours=1)
    key, _ = create_key(town.log.records, yesterday, "acme", expires_at=end)
    assert Caller(town.url, key).get("/v1/runs").refusal == (401, "key_expired")


def test_a_key_without_scopes_named_does_nothing_with_deployments_and_webhooks(town: ServedHost):
    key, _ = create_key(town.log.records, datetime.now(UTC), "plain")
    caller = Caller(town.url, key)
    assert caller.evaluate(a_suite(1))
    assert caller.get("/v1/webhooks").status == 403
    assert caller.get("/v1/agents/acme.clerk/deployments").status == 403
