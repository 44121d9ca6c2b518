"""Idempotency keys: what is sent twice is done once, whatever happens in between."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.responses import Response

from builders import a_suite, a_task
from evalwright.host.access import idempotency
from evalwright.host.access.keys import Principal, authenticate
from evalwright.host.access.vault import Vault
from evalwright.host.http.errors import ApiError
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller, Reply
from host.server import HostProcess, ServedHost, running_host
from subjects.waiting import Journal

REPLAYED = "openwop-idempotent-replay"
KEY = {"Idempotency-Key": "order-4711"}


@pytest.fixture
def shop(newcomer: Caller) -> Caller:
    newcomer.publish(a_suite(1))
    return newcomer


def create(caller: Caller, headers: dict[str, str] | None = None, **fields: object) -> Reply:
    return caller.create("acme.shop.evals.refunds@1.0.0", headers=headers or KEY, **fields)


def test_a_request_that_is_sent_again_is_answered_again_and_done_once(shop: Caller):
    replies = [create(shop) for _ in range(6)]
    assert {(reply.status, reply.body) for reply in replies} == {(201, replies[0].body)}
    assert [reply.headers[REPLAYED] for reply in replies] == ["false", *["true"] * 5]
    assert {reply.headers["location"] for reply in replies} == {replies[0].headers["location"]}
    assert shop.run_ids() == [replies[0].json()["runId"]]


def test_duplicates_that_come_at_the_same_time_make_one_run(shop: Caller):
    together = threading.Barrier(8)

    def send(_: int) -> Reply:
        together.wait()
        return create(shop)

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(send, range(8)))
    assert {(reply.status, reply.body) for reply in replies} == {(201, replies[0].body)}
    assert sorted(reply.headers[REPLAYED] for reply in replies) == ["false", *["true"] * 7]
    assert len(shop.run_ids()) == 1


def test_another_request_with_the_same_key_is_a_mismatch_and_names_no_run(shop: Caller):
    first = create(shop)
    reply = create(shop, tags=["another"])
    assert reply.refusal == (409, "idempotency_key_mismatch")
    assert first.json()["runId"] not in reply.body.decode()
    assert len(shop.run_ids()) == 1


def test_other_runs_of_the_same_request_take_other_keys(shop: Caller):
    create(shop)
    create(shop, {"Idempotency-Key": "order-4712"})
    shop.create("acme.shop.evals.refunds@1.0.0")
    assert len(shop.run_ids()) == 3


def test_a_key_means_nothing_to_other_tenants(lasting: ServedHost, shop: Caller):
    other = lasting.caller("other")
    other.publish(a_suite(1))
    assert create(shop).json()["runId"] != create(other).json()["runId"]
    assert create(other).headers[REPLAYED] == "true"


def test_a_key_means_nothing_to_other_workspaces(lasting: ServedHost):
    lab, office = (lasting.caller("spaces", workspace=name) for name in ("lab", "office"))
    for caller in (lab, office):
        caller.publish(a_suite(1))
    assert create(lab).json()["runId"] != create(office).json()["runId"]


def test_all_keys_of_a_tenant_share_what_was_done(lasting: ServedHost):
    first, second = lasting.caller("shared"), lasting.caller("shared")
    first.publish(a_suite(1))
    assert create(first).json() == create(second).json()


def test_a_key_means_nothing_at_other_endpoints(shop: Caller):
    first, second = create(shop).json(), create(shop, {"Idempotency-Key": "b"}).json()
    replies = [shop.post(f"/v1/runs/{run['runId']}/cancel", {}, KEY) for run in (first, second)]
    assert {reply.headers[REPLAYED] for reply in replies} == {"false"}


def test_reading_ignores_keys(shop: Caller):
    replies = [shop.get("/v1/runs", KEY) for _ in range(2)]
    assert all(reply.status == 200 and REPLAYED not in reply.headers for reply in replies)


def test_a_run_that_cannot_be_cancelled_stays_so_for_the_key(shop: Caller):
    run_id = shop.evaluate("acme.shop.evals.refunds@1.0.0")
    replies = [shop.post(f"/v1/runs/{run_id}/cancel", {}, KEY) for _ in range(2)]
    assert [reply.status for reply in replies] == [409, 409]
    assert replies[1].headers[REPLAYED] == "true"


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_has_1_to_255_characters(shop: Caller, key: str):
    assert create(shop, {"Idempotency-Key": key}).refusal == (400, "validation_error")
    assert create(shop, {"Idempotency-Key": "x" * 255}).status == 201


# What must not be kept.


def test_a_refused_request_can_be_corrected_under_the_same_key(shop: Caller):
    assert create(shop, agent_id="acme.nobody").status == 400
    reply = create(shop)
    assert (reply.status, reply.headers[REPLAYED]) == (201, "false")


def test_a_request_without_a_valid_key_leaves_nothing_behind(shop: Caller):
    assert create(shop.with_key(None)).status == 401
    assert create(shop).headers[REPLAYED] == "false"


def test_a_request_that_lacked_a_scope_leaves_nothing_behind(lasting: ServedHost):
    may = lasting.caller("scoped")
    may.publish(a_suite(1))
    assert create(lasting.caller("scoped", scopes=["runs:read"])).status == 403
    assert create(may).headers[REPLAYED] == "false"


def test_a_tenant_with_too_many_runs_can_send_the_request_again(tmp_path: Path, gate: Journal):
    settings = {"max_runs_per_tenant": 1}
    with running_host(tmp_path / "full.db", settings=settings) as served:
        caller = served.caller()
        suite = a_suite([a_task(input="wait")])
        first = caller.start(suite, "acme.gated")
        refused = caller.create(suite, "acme.gated", headers=KEY)
        assert refused.refusal == (429, "rate_limited")
        gate.open_gate()
        caller.finish(first)
        reply = caller.create(suite, "acme.gated", headers=KEY)
        assert (reply.status, reply.headers[REPLAYED]) == (201, "false")


KEPT = [200, 201, 202, 204, 404, 405, 409, 422, 499]
NOT_KEPT = [400, 401, 403, 408, 413, 415, 429, 500, 501, 502, 503, 599]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[idempotency.Idempotency]:
    log = SqliteLog(tmp_path / "log.db")
    yield idempotency.Idempotency(log.records, Vault.for_database(log.place))
    log.close()


def enter(store: idempotency.Idempotency, body: bytes = b"{}") -> idempotency.Ticket | Response:
    principal = Principal("k", "acme", None, frozenset(), "key:k")
    return asyncio.run(store.enter(principal, "POST /v1/runs", "order-4711", body))


@pytest.mark.parametrize("status", KEPT)
def test_what_was_done_or_cannot_be_done_is_the_answer_for_good(
    store: idempotency.Idempotency, status: int
):
    ticket = enter(store)
    assert isinstance(ticket, idempotency.Ticket)
    asyncio.run(ticket.finish(Response(b"done", status, {"Location": "/there", "X-Other": "1"})))
    again = enter(store)
    assert isinstance(again, Response)
    assert (again.status_code, again.body) == (status, b"done")
    assert (again.headers["location"], again.headers[REPLAYED]) == ("/there", "true")
    assert "x-other" not in again.headers


@pytest.mark.parametrize("status", NOT_KEPT)
def test_a_failure_or_a_correctable_refusal_is_not_the_answer_for_good(
    store: idempotency.Idempotency, status: int
):
    ticket = enter(store)
    assert isinstance(ticket, idempotency.Ticket)
    asyncio.run(ticket.finish(Response(b"not done", status)))
    assert isinstance(enter(store), idempotency.Ticket)
    with pytest.raises(ApiError) as caught:  # now it is pending, under the body of the second
        enter(store, b"[]")
    assert caught.value.code == "idempotency_key_mismatch"


def test_what_is_written_with_the_deed_is_not_written_twice(store: idempotency.Idempotency):
    ticket = enter(store)
    assert isinstance(ticket, idempotency.Ticket)
    response = Response(b"done", 201)
    change = ticket.completion(response)
    asyncio.run(ticket.finish(response))
    with pytest.raises(TimeoutError):  # nothing is kept yet: the deed would have written it
        asyncio.run(asyncio.wait_for(_second(store), 0.2))
    store._records.write([change]).result()
    assert isinstance(enter(store), Response)


async def _second(store: idempotency.Idempotency) -> object:
    principal = Principal("k", "acme", None, frozenset(), "key:k")
    return await store.enter(principal, "POST /v1/runs", "order-4711", b"{}")


def test_a_deed_that_failed_after_its_answer_was_made_keeps_the_failure(
    store: idempotency.Idempotency,
):
    ticket = enter(store)
    assert isinstance(ticket, idempotency.Ticket)
    ticket.completion(Response(b"done", 201))
    asyncio.run(ticket.finish(Response(b"another run is active", 409)))
    again = enter(store)
    assert isinstance(again, Response)
    assert again.status_code == 409


@pytest.mark.parametrize(
    "failure", [ZeroDivisionError(), ApiError(500, "internal_error", "it failed")]
)
def test_a_request_that_failed_is_done_when_it_is_sent_again(
    lasting: ServedHost, shop: Caller, monkeypatch: pytest.MonkeyPatch, failure: Exception
):
    async def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(lasting.host.runs, "start", fail)
        assert create(shop).refusal == (500, "internal_error")
    reply = create(shop)
    assert (reply.status, reply.headers[REPLAYED]) == (201, "false")
    assert create(shop).headers[REPLAYED] == "true"
    assert len(shop.run_ids()) == 1


def test_a_pending_request_is_taken_over_when_its_lease_has_run_out(
    store: idempotency.Idempotency, monkeypatch: pytest.MonkeyPatch
):
    now = time.time()
    monkeypatch.setattr(store, "_now", lambda: now)
    assert isinstance(enter(store), idempotency.Ticket)
    now += 60
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(_second(store), 0.2))
    now += 0.001
    assert isinstance(enter(store), idempotency.Ticket)


def test_an_answer_is_forgotten_after_25_hours(
    store: idempotency.Idempotency, monkeypatch: pytest.MonkeyPatch
):
    ticket = enter(store)
    assert isinstance(ticket, idempotency.Ticket)
    asyncio.run(ticket.finish(Response(b"done", 201)))
    written = time.time()
    for hours, is_kept in ((24.9, True), (25.1, False)):
        monkeypatch.setattr(store, "_now", lambda hours=hours: written + hours * 3600)
        asyncio.run(store.forget_old())
        assert isinstance(enter(store), Response) is is_kept


def test_keys_are_not_kept_in_clear(lasting: ServedHost, shop: Caller):
    create(shop, {"Idempotency-Key": "a-key-that-tells-a-secret"})
    place = Path(lasting.log.place)
    files = [file for file in place.parent.iterdir() if file.name.startswith(place.name)]
    assert files
    for file in files:
        assert b"a-key-that-tells-a-secret" not in file.read_bytes()


# Restarts and crashes.


def test_an_answer_survives_a_restart(tmp_path: Path):
    replies = []
    for _ in range(2):
        with running_host(tmp_path / "host.db") as served:
            caller = served.caller()
            caller.publish(a_suite(1))
            replies.append(create(caller))
            assert len(caller.run_ids()) == 1
    assert replies[0].body == replies[1].body
    assert replies[1].headers[REPLAYED] == "true"


def test_a_duplicate_of_a_request_that_takes_too_long_is_told_to_come_again(
    lasting: ServedHost, shop: Caller, monkeypatch: pytest.MonkeyPatch
):
    raw = _body()
    principal = authenticate(lasting.log.records, f"Bearer {shop.key}", datetime.now(UTC))
    ticket = asyncio.run(
        lasting.host.idempotency.enter(principal, "POST /v1/runs", "order-4711", raw)
    )
    assert isinstance(ticket, idempotency.Ticket)
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0)
    reply = shop.post("/v1/runs", raw, KEY)
    assert reply.refusal == (409, "idempotency_in_flight")
    assert reply.headers["retry-after"] == str(reply.json()["details"]["retryAfter"])
    assert shop.run_ids() == []

    monkeypatch.setattr(lasting.host.idempotency, "_now", lambda: time.time() + 61)
    assert shop.post("/v1/runs", raw, KEY).headers[REPLAYED] == "false"
    assert len(shop.run_ids()) == 1


def test_a_crash_leaves_a_run_and_its_answer_or_neither(process: HostProcess):
    process.start()
    process.caller().publish(a_suite(1))
    for number in range(2):  # before the answer has come, and after it
        caller = process.caller()
        runs = set(caller.run_ids())
        headers = {"Idempotency-Key": f"crash-{number}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(*caller.address)
        connection.request("POST", "/v1/runs", _body(), headers | _bearer(caller))
        if number:
            assert connection.getresponse().status == 201
        process.kill()
        connection.close()
        process.start()
        again = Caller(process.url, caller.key)
        reply = again.post("/v1/runs", _body(), headers)
        made = set(again.run_ids()) - runs
        if number:
            assert (reply.status, reply.headers[REPLAYED]) == (201, "true")
        if reply.status == 201:
            assert made == {reply.json()["runId"]}
        else:
            assert reply.refusal == (409, "idempotency_in_flight")
            assert made == set()


def _body() -> bytes:
    body = {
        "mode": "eval",
        "evalSuiteRef": "acme.shop.evals.refunds@1.0.0",
        "agentId": "acme.clerk",
    }
    return json.dumps(body).encode()


def _bearer(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.key}"}
