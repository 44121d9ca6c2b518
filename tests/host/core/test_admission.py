"""What a request for a run must not ask for, and one run at a time for a scope."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import a_suite, a_task
from host.caller import Caller
from host.server import GATED, RIGHT, ServedHost, running_host
from subjects.waiting import Journal

SUITE = "acme.shop.evals.refunds@1.0.0"
EVAL = {"mode": "eval", "evalSuiteRef": SUITE, "agentId": RIGHT}
WAITING = a_suite([a_task(input="wait")])
ENFORCED = {"X-Dedup": "enforce"}


@pytest.fixture
def shop(newcomer: Caller) -> Caller:
    newcomer.publish(a_suite(1))
    return newcomer


@pytest.mark.parametrize("name", ["model", "temperature", "maxTokens", "promptOverrides", "ai.key"])
def test_what_would_change_the_agent_is_refused_instead_of_ignored(shop: Caller, name: str):
    reply = shop.post("/v1/runs", {**EVAL, "configurable": {name: 1}})
    assert reply.refusal == (400, "validation_error")
    assert reply.json()["details"]["problems"][0]["path"] == f"$.configurable.{name}"
    assert shop.run_ids() == []


def test_an_address_to_call_back_is_refused_in_favour_of_webhooks(shop: Caller):
    reply = shop.post("/v1/runs", {**EVAL, "callbackUrl": "https://example.com/"})
    assert reply.refusal == (400, "validation_error")
    assert "webhook" in reply.json()["message"]


def test_only_test_keys_may_mock_a_provider_and_this_host_mocks_none(lasting: ServedHost):
    body = {**EVAL, "configurable": {"mockProvider": {"id": "stream-text"}}}
    live, test = lasting.caller("mock"), lasting.caller("mock", is_test=True)
    assert live.post("/v1/runs", body).refusal == (403, "mock_provider_forbidden")
    assert test.post("/v1/runs", body).refusal == (400, "unsupported_mock_provider")


def test_only_test_keys_may_choose_the_version_of_the_engine(shop: Caller):
    reply = shop.post("/v1/runs", EVAL, {"X-Force-Engine-Version": "1"})
    assert reply.refusal == (403, "force_engine_version_forbidden")


def test_a_test_key_sees_nothing_of_the_live_runs_of_its_tenant(lasting: ServedHost):
    live, test = lasting.caller("segregated"), lasting.caller("segregated", is_test=True)
    live.publish(a_suite(1))
    live_run, test_run = live.evaluate(SUITE, RIGHT), test.evaluate(SUITE, RIGHT)
    assert (live.run_ids(), test.run_ids()) == ([live_run], [test_run])
    assert test.get(f"/v1/runs/{live_run}").status == 404


# One run at a time.


@pytest.fixture
def waiting(served: ServedHost) -> Caller:
    caller = served.caller()
    caller.publish(WAITING)
    return caller


def gated(scope: str) -> dict[str, str]:
    return {**EVAL, "agentId": GATED, "scopeId": scope}


def test_a_scope_that_is_taken_is_refused_until_its_run_has_ended(waiting: Caller, gate: Journal):
    first = waiting.post("/v1/runs", gated("nightly"), ENFORCED).json()["runId"]
    second = waiting.post("/v1/runs", gated("nightly"), ENFORCED)
    assert second.refusal == (409, "run_already_active")
    assert second.headers["retry-after"] == "5"
    details = second.json()["details"]
    assert (details["activeRunId"], details["activeHost"]) == (first, "cloud")
    gate.open_gate()
    waiting.finish(first)
    assert waiting.post("/v1/runs", gated("nightly"), ENFORCED).status == 201


def test_another_scope_and_a_request_that_does_not_ask_are_free(waiting: Caller):
    assert waiting.post("/v1/runs", gated("nightly"), ENFORCED).status == 201
    assert waiting.post("/v1/runs", gated("weekly"), ENFORCED).status == 201
    assert waiting.post("/v1/runs", gated("nightly")).status == 201


def test_a_scope_is_taken_within_its_tenant_only(served: ServedHost, waiting: Caller):
    other = served.caller("other")
    other.publish(WAITING)
    assert waiting.post("/v1/runs", gated("nightly"), ENFORCED).status == 201
    assert other.post("/v1/runs", gated("nightly"), ENFORCED).status == 201


def test_a_scope_stays_taken_over_a_restart(tmp_path: Path, gate: Journal):
    place = tmp_path / "again.db"

    def started() -> Iterator[Caller]:
        with running_host(place) as served:
            yield served.caller()

    before = started()
    caller = next(before)
    caller.publish(WAITING)
    assert caller.post("/v1/runs", gated("nightly"), ENFORCED).status == 201
    assert next(before, None) is None
    after = started()
    assert next(after).post("/v1/runs", gated("nightly"), ENFORCED).refusal[0] == 409
    gate.open_gate()
    assert next(after, None) is None


def test_one_run_at_a_time_needs_to_know_of_what(shop: Caller):
    reply = shop.post("/v1/runs", EVAL, ENFORCED)
    assert reply.refusal == (400, "validation_error")
    assert shop.post("/v1/runs", EVAL, {"X-Dedup": "please"}).status == 400


def test_of_many_requests_for_a_scope_at_once_one_is_taken(waiting: Caller):
    with ThreadPoolExecutor(8) as pool:
        replies = list(
            pool.map(lambda _: waiting.post("/v1/runs", gated("nightly"), ENFORCED), range(8))
        )
    (taken,) = [reply.json()["runId"] for reply in replies if reply.status == 201]
    refused = [reply for reply in replies if reply.status != 201]
    assert {reply.refusal for reply in refused} == {(409, "run_already_active")}
    assert {reply.json()["details"]["activeRunId"] for reply in refused} == {taken}
    assert waiting.run_ids() == [taken]
