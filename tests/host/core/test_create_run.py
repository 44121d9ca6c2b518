"""Creating a run: what is refused, with which answer, before any run exists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from host.caller import Caller
from host.server import PRICED, RIGHT, ServedHost, running_host

SUITE = "acme.shop.evals.refunds@1.0.0"
EVAL = {"mode": "eval", "evalSuiteRef": SUITE, "agentId": RIGHT}
INVALID = (400, "validation_error")


def nested(depth: int) -> Any:
    return {"deeper": nested(depth - 1)} if depth else "end"


@pytest.fixture
def shop(newcomer: Caller) -> Caller:
    """A caller whose tenant has a suite."""
    newcomer.publish(a_suite(2, modes=["golden", "rubric", "adversarial", "regression"]))
    return newcomer


def test_a_created_run_says_where_it_can_be_read(shop: Caller):
    reply = shop.post("/v1/runs", EVAL)
    run_id = reply.json()["runId"]
    assert reply.status == 201
    assert reply.json() == {
        "runId": run_id,
        "status": "running",
        "eventsUrl": f"/v1/runs/{run_id}/events",
        "statusUrl": f"/v1/runs/{run_id}",
    }
    assert reply.headers["location"] == f"/v1/runs/{run_id}"


REFUSED = {
    "no body": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "two values": b"{}{}",
    "not UTF-8": b'{"mode":"\xff"}',
    "a key twice": b'{"mode":"eval","mode":"eval","evalSuiteRef":"a","agentId":"b"}',
    "a lone surrogate": rb'{"mode":"eval","evalSuiteRef":"\ud800","agentId":"b"}',
    "nothing at all": {},
    "an unknown field": EVAL | {"surprise": 1},
    "an unknown mode": EVAL | {"mode": "test"},
    "no suite": {"mode": "eval", "agentId": RIGHT},
    "no agent": {"mode": "eval", "evalSuiteRef": SUITE},
    "a suite that is no text": EVAL | {"evalSuiteRef": 7},
    "an agent that is no text": EVAL | {"agentId": None},
    "an unknown suite": EVAL | {"evalSuiteRef": "acme.shop.evals.nothing@1.0.0"},
    "a suite without its version": EVAL | {"evalSuiteRef": "acme.shop.evals.refunds"},
    "an unknown version of a suite": EVAL | {"evalSuiteRef": "acme.shop.evals.refunds@9.9.9"},
    "an unknown agent": EVAL | {"agentId": "acme.nobody"},
    "a Python reference for an agent": EVAL | {"agentId": "os:system"},
    "an address for an agent": EVAL | {"agentId": "http://127.0.0.1/agent"},
    "an unknown version of an agent": EVAL | {"configurable": {"agentVersion": "9.9.9"}},
    "a version and a channel": EVAL
    | {"configurable": {"agentVersion": "1.0.0", "agentChannel": "stable"}},
    "an unknown eval mode": EVAL | {"configurable": {"evalModes": ["surprise"]}},
    "an eval mode twice": EVAL | {"configurable": {"evalModes": ["golden", "golden"]}},
    "a mode that the suite does not have": EVAL | {"configurable": {"evalModes": ["live-shadow"]}},
    "a mode that needs a judge": EVAL | {"configurable": {"evalModes": ["rubric"]}},
    "regression without a baseline": EVAL | {"configurable": {"evalModes": ["regression"]}},
    "a baseline that is not there": EVAL | {"configurable": {"baselineRunId": "run_nowhere"}},
    "more than 100 tags": EVAL | {"tags": [f"tag-{n}" for n in range(101)]},
    "a tag of more than 256 characters": EVAL | {"tags": ["x" * 257]},
    "metadata of more than 8192 bytes": EVAL | {"metadata": {"text": "x" * 8192}},
    "metadata of more than 4 levels": EVAL | {"metadata": nested(5)},
    "a budget of nothing": EVAL | {"configurable": {"maxCostUsd": 0}},
    "a time of nothing": EVAL | {"configurable": {"runTimeoutMs": 0}},
    "configurable that is no object": EVAL | {"configurable": []},
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_breaks_a_rule_is_refused_and_creates_nothing(shop: Caller, body: Any):
    assert shop.post("/v1/runs", body).refusal == INVALID
    assert shop.run_ids() == []


def test_a_refusal_names_the_place_and_every_problem(shop: Caller):
    reply = shop.post("/v1/runs", {"mode": "eval", "agentId": 7})
    details = reply.json()["details"]
    assert {problem["path"] for problem in details["problems"]} >= {"$.agentId"}
    assert any("evalSuiteRef" in problem["message"] for problem in details["problems"])


ALLOWED = {
    "100 tags of 256 characters": {"tags": [f"{n:0256}" for n in range(100)]},
    "metadata of 4 levels": {"metadata": nested(4)},
    "fields of configurable that mean nothing here": {
        "configurable": {"recursionLimit": 1, "x": []}
    },
    "a mode that the suite has": {"configurable": {"evalModes": ["golden"]}},
}


@pytest.mark.parametrize("fields", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_keeps_to_the_limits_is_taken_and_shown_unchanged(
    shop: Caller, fields: dict[str, Any]
):
    run_id = shop.evaluate(SUITE, **fields)
    snapshot = shop.snapshot(run_id)
    for name in ("tags", "metadata", "configurable"):
        assert snapshot.get(name) == fields.get(name)


def test_a_tenant_other_than_the_keys_is_refused(shop: Caller):
    reply = shop.post("/v1/runs", EVAL | {"tenantId": "other"})
    assert reply.refusal == (403, "tenant_membership_required")
    assert shop.run_ids() == []


def test_a_workflow_is_not_found_where_there_are_none(shop: Caller):
    assert shop.post("/v1/runs", {"workflowId": "conformance-noop"}).refusal == (404, "not_found")


def test_the_callers_own_tenant_may_be_named(lasting: ServedHost):
    assert lasting.caller("acme").create(tenantId="acme").status == 201


def test_the_owner_comes_from_the_key(lasting: ServedHost):
    caller = lasting.caller("acme", workspace="lab")
    snapshot = caller.snapshot(caller.evaluate())
    assert (snapshot["owner"]["tenant"], snapshot["owner"]["workspace"]) == ("acme", "lab")
    assert snapshot["owner"]["principal"].startswith("key:")


def test_a_suite_for_another_agent_is_refused_unless_that_is_wanted(newcomer: Caller):
    suite = a_suite(1, target_agent_id="acme.other")
    assert newcomer.create(suite).refusal == INVALID
    assert newcomer.create(suite, configurable={"allowMismatch": True}).status == 201


def test_a_suite_with_rubrics_is_refused_where_no_judge_is(newcomer: Caller):
    suite = a_suite([a_rubric_task()], modes=["rubric"])
    assert newcomer.create(suite).refusal == INVALID
    assert newcomer.run_ids() == []


def test_every_reason_against_a_baseline_has_the_same_words(lasting: ServedHost, shop: Caller):
    other = lasting.caller("other")
    other.publish(a_suite(2, modes=["golden", "regression"]))
    foreign = other.evaluate(SUITE)
    shop.publish(a_suite(1, version="2.0.0"))
    unlike = shop.evaluate("acme.shop.evals.refunds@2.0.0")
    replies = [
        shop.create(SUITE, configurable={"baselineRunId": baseline}).json()
        for baseline in (foreign, unlike, "run_nowhere", "../../etc/passwd")
    ]
    assert len({reply["message"] for reply in replies}) == 1


def test_a_baseline_of_the_same_suite_is_compared_with(shop: Caller):
    baseline = shop.evaluate(SUITE)
    run_id = shop.evaluate(SUITE, "acme.wrong", configurable={"baselineRunId": baseline})
    regression = shop.get(f"/v1/runs/{run_id}/eval-summary").json()["regression"]
    assert (regression["baselineRunId"], regression["scoreDelta"]) == (baseline, -1)


# What the operator limits.


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Caller]:
    """A caller of a host that takes three tasks, and spends 40 cents on a run."""
    settings = {"max_tasks_per_suite": 3, "max_cost_usd_per_suite": 0.4, "concurrency": 1}
    with running_host(tmp_path / "small.db", settings=settings) as served:
        yield served.caller()


def test_a_suite_with_too_many_tasks_is_refused(small: Caller):
    assert small.create(a_suite(4)).refusal == INVALID
    assert small.run_ids() == []
    assert small.create(a_suite(3, version="2.0.0")).status == 201


def test_a_run_that_costs_too_much_fails_with_its_budget_exhausted(small: Caller):
    run_id = small.start(a_suite(3), PRICED)
    snapshot = small.finish(run_id)
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "budget_exhausted")
    assert small.get(f"/v1/runs/{run_id}/eval-summary").refusal == (404, "not_found")


def test_a_request_can_lower_the_budget_but_not_raise_it(small: Caller):
    raised = small.start(a_suite(3), PRICED, configurable={"maxCostUsd": 100})
    lowered = small.start(a_suite(2, version="2.0.0"), PRICED, configurable={"maxCostUsd": 0.1})
    enough = small.start(a_suite(1, version="3.0.0"), PRICED)
    statuses = [small.finish(run_id)["status"] for run_id in (raised, lowered, enough)]
    assert statuses == ["failed", "failed", "completed"]


# A manifest agent.

MANIFEST = {
    "agentId": "vendor.acme.desk",
    "persona": "Desk",
    "modelClass": "general",
    "systemPrompt": "You work at a desk.",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Caller]:
    """A caller of a host with a manifest agent that takes numbers, and a model that says yes."""
    handoff = {"taskSchemaRef": "number.json"}
    (tmp_path / "number.json").write_text('{"type": "number"}')
    (tmp_path / "desk.json").write_text(json.dumps(MANIFEST | {"handoff": handoff}))
    (tmp_path / "yes.json").write_text('[{"reply": "yes"}]')
    model = f"scripted:{tmp_path / 'yes.json'}"
    agent = {"ref": str(tmp_path / "desk.json"), "model": model}
    settings = {"agents": {"vendor.acme.desk": agent}, "model": model}
    with running_host(tmp_path / "desk.db", settings=settings) as served:
        yield served.caller()


def test_inputs_that_break_the_agents_task_schema_are_refused(desk: Caller):
    suite = a_suite([a_task("number", input=7), a_task("text", input="seven")])
    reply = desk.create(suite, "vendor.acme.desk")
    assert reply.refusal == INVALID
    assert [problem["path"] for problem in reply.json()["details"]["problems"]] == [
        "$.tasks[1].input"
    ]
    assert desk.run_ids() == []


def test_inputs_that_keep_to_the_agents_task_schema_are_evaluated(desk: Caller):
    run_id = desk.evaluate(a_suite([a_task(input=7)]), "vendor.acme.desk")
    assert desk.get(f"/v1/runs/{run_id}/eval-summary").json()["passed"] is True


def test_why_an_agent_of_the_operator_cannot_be_loaded_is_not_told_to_tenants(tmp_path: Path):
    gone = {"local.acme.gone": {"ref": str(tmp_path / "gone.py") + ":answer"}}
    with running_host(tmp_path / "host.db", settings={"agents": gone}) as served:
        reply = served.caller().create(a_suite(1), "local.acme.gone")
    assert reply.refusal == INVALID
    assert "ask the operator" in reply.json()["message"]
    assert b"gone.py" not in reply.body
    assert b"--agent" not in reply.body


def test_a_manifest_that_a_tenant_sent_runs_on_the_operators_model(desk: Caller):
    manifest = MANIFEST | {"agentId": "local.acme.helper"}
    reply = desk.post("/v1/agents", {"version": "1.0.0", "manifest": manifest})
    assert reply.status == 201
    run_id = desk.evaluate(a_suite([a_task()]), "local.acme.helper")
    assert desk.snapshot(run_id)["agent"] == {"agentId": "local.acme.helper", "version": "1.0.0"}


def test_memory_that_the_agent_does_not_read_is_warned_of_and_marked(desk: Caller):
    remembering = MANIFEST | {"agentId": "local.acme.elephant", "memoryShape": {"longTerm": True}}
    forgetful = MANIFEST | {"agentId": "local.acme.goldfish"}
    for manifest in (remembering, forgetful):
        assert desk.post("/v1/agents", {"version": "1.0.0", "manifest": manifest}).status == 201
    seed = {"memorySeed": [{"id": "contact", "content": "by e-mail"}]}
    suite = a_suite([a_task("plain"), a_task("seeded", fixtures=seed)], version="3.0.0")
    warned = desk.create(suite, "local.acme.goldfish").json()
    [warning] = warned["warnings"]
    assert warning["path"] == "$.tasks[1].fixtures.memorySeed"
    assert "reads no memory" in warning["message"]
    assert desk.finish(warned["runId"])["tags"] == ["memory-unused"]
    fine = desk.create(suite, "local.acme.elephant").json()
    assert "warnings" not in fine
    assert "tags" not in desk.finish(fine["runId"])
