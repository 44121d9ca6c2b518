"""Answers as the protocol's own conformance scenarios want them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite, a_suite_document, a_task, as_document
from evalwright.host.library.catalogue import AGENT, SUITE, RegisteredAgent
from evalwright.models.config import Config, OwnPrice
from evalwright.store.records import RecordChange
from host.caller import Caller
from host.server import BROKEN, GATED, ServedHost, running_host
from subjects.waiting import Journal

GOLDEN = {"strategy": "exact", "value": "yes"}
RUBRIC = [{"criterion": "is kind", "weight": 1}]


def message_of(caller: Caller, run_id: str) -> tuple[int, str, str]:
    reply = caller.get(f"/v1/runs/{run_id}/eval-summary")
    document = reply.json()
    return *reply.refusal, document["message"]


# Summaries that there are not.


def test_the_summary_of_a_failed_run_is_said_to_be_that(newcomer: Caller):
    run_id = newcomer.start(a_suite(1), BROKEN)
    newcomer.finish(run_id)
    reply = newcomer.get(f"/v1/runs/{run_id}/eval-summary")
    assert reply.refusal == (404, "not_found")
    assert reply.json()["message"] == "the run failed (agent_unavailable), so it has no summary"
    assert reply.json()["details"]["runStatus"] == "failed"
    assert reply.json()["details"]["runError"] == "agent_unavailable"


def test_the_summary_of_a_cancelled_run_is_said_to_be_that(caller: Caller, gate: Journal):
    run_id = caller.start(a_suite([a_task(input="wait")]), GATED)
    gate.wait_for(1)
    caller.post(f"/v1/runs/{run_id}/cancel")
    said = (404, "not_found", "the run was cancelled, so it has no summary")
    assert message_of(caller, run_id) == said


def test_the_summary_of_what_is_no_evaluation_is_said_to_be_that(caller: Caller):
    version = {"version": "1.0.0", "transition": "promote"}
    reply = caller.post("/v1/agents/acme.clerk/deployments", version)
    deployment = caller.run_ids()[0]
    assert reply.status == 200, reply.body
    said = (404, "not_found", "the run is not an evaluation, so it has no summary")
    assert message_of(caller, deployment) == said


def test_and_only_what_is_not_there_is_said_not_to_be_there(newcomer: Caller, lasting: ServedHost):
    foreign = lasting.caller("somebody").start(a_suite(1), BROKEN)
    for run_id in ("run_nowhere", foreign):
        assert message_of(newcomer, run_id) == (404, "not_found", "no such run")


# Discovery.


def test_what_is_served_is_advertised(newcomer: Caller):
    document = newcomer.get("/.well-known/openwop").json()
    assert document["debugBundle"] == {"supported": True}
    assert document["runs"] == {
        "pauseResume": {"supported": True, "drainPolicies": ["drain-current-node"]},
        "bulkCancel": {"supported": True, "maxRunIds": 100},
    }
    assert document["replay"] == {"supported": True, "modes": ["replay", "branch"]}
    run_id = newcomer.evaluate(a_suite(1))
    assert newcomer.get(f"/v1/runs/{run_id}/debug-bundle").status == 200
    fork = {"mode": "branch", "fromSeq": 0}
    assert newcomer.post(f"/v1/runs/{run_id}:fork", fork).status == 201


# Requests and suites that mean nothing.


def test_no_modes_at_all_are_refused(newcomer: Caller):
    reply = newcomer.create(a_suite(1), configurable={"evalModes": []})
    assert reply.refusal == (400, "validation_error")
    assert reply.json()["details"]["problems"][0]["path"] == "$.configurable.evalModes"
    assert newcomer.run_ids() == []


@pytest.mark.parametrize(
    ("expected", "place"),
    [
        ({"kind": "golden", "match": GOLDEN, "rubric": RUBRIC}, "rubric"),
        ({"kind": "rubric", "match": GOLDEN, "rubric": RUBRIC}, "match"),
        ({"kind": "golden", "rubric": RUBRIC}, None),
        ({"kind": "rubric", "match": GOLDEN}, None),
    ],
)
def test_a_task_with_the_expectation_of_the_other_kind_is_refused(
    newcomer: Caller, expected: dict[str, Any], place: str | None
):
    task = {"taskId": "one", "input": 1, "expected": expected}
    reply = newcomer.post("/v1/suites", a_suite_document(tasks=[task]))
    assert reply.refusal == (400, "validation_error")
    path = "$.tasks[0].expected" + (f".{place}" if place else "")
    assert reply.json()["details"]["problems"][0]["path"] == path


def test_weights_that_do_not_sum_to_one_are_accepted_with_a_warning(newcomer: Caller):
    tasks = [a_rubric_task("odd", [0.5, 0.4]), a_rubric_task("even", [0.7, 0.2, 0.1])]
    reply = newcomer.post("/v1/suites", as_document(a_suite(tasks, modes=["rubric"])))
    assert reply.status == 201
    [warning] = reply.json()["warnings"]
    assert warning["path"] == "$.tasks[0].expected.rubric"
    assert "sum to 0.9, not 1" in warning["message"]
    fine = newcomer.post("/v1/suites", as_document(a_suite(1, version="2.0.0")))
    assert "warnings" not in fine.json()


# Suites are scoped as runs are.


def test_a_suite_is_there_for_those_who_published_it(lasting: ServedHost):
    lab = lasting.caller("house", workspace="lab")
    ref = lab.publish(a_suite(1))
    assert lab.get(f"/v1/suites/{ref}").status == 200
    others = [lasting.caller("house", workspace="office"), lasting.caller("house")]
    for other in others:
        assert other.get(f"/v1/suites/{ref}").refusal == (404, "not_found")
        assert ref not in str(other.get("/v1/suites").json())
        assert other.create(ref).refusal == (400, "validation_error")
    changed = a_suite(2)
    assert others[0].post("/v1/suites", as_document(changed)).status == 201
    assert lab.post("/v1/suites", as_document(changed)).refusal == (409, "conflict")


def test_the_suites_of_packs_are_there_wherever_their_agents_are(served: ServedHost):
    suite = a_suite(1)
    ref = f"{suite.suite_id}@{suite.version}"
    agent = RegisteredAgent(
        agent_id="acme.packed",
        version="1.0.0",
        persona="Clerk",
        model_class="general",
        pack="acme.pack@1.0.0",
        eval_suite_ref=ref,
    )
    source = msgspec.json.encode(suite)
    changes = [
        RecordChange(SUITE, "acme", ref, source),
        RecordChange(SUITE, "acme", "acme.shop.evals.plain@1.0.0", source),
        RecordChange(AGENT, "acme", agent.key, msgspec.json.encode(agent)),
    ]
    served.log.records.write(changes).result()
    lab = served.caller(workspace="lab")
    assert lab.get(f"/v1/suites/{ref}").body == source
    listed = [each["evalSuiteRef"] for each in lab.get("/v1/suites").json()["suites"]]
    assert ref in listed
    assert "acme.shop.evals.plain@1.0.0" not in listed
    assert lab.get("/v1/suites/acme.shop.evals.plain@1.0.0").refusal == (404, "not_found")


# Prices.


def test_the_price_of_a_scripted_model_counts(tmp_path: Path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("- { reply: yes, tokens: { input: 1000, output: 1000 } }")
    (tmp_path / "agent.json").write_text(
        '{"agentId": "local.acme.clerk", "persona": "Clerk", "modelClass": "general", '
        '"systemPrompt": "Say yes."}'
    )
    name = f"scripted:{rules}"
    agent = {"ref": str(tmp_path / "agent.json"), "model": name}
    config = Config(
        prices={name: OwnPrice(1000, 2000)},
        host={"agents": {"local.acme.clerk": agent}, "max_cost_usd_per_suite": 5.0},
    )
    with running_host(tmp_path / "host.db", config=config) as served:
        caller = served.caller()
        run_id = caller.start(a_suite(1), "local.acme.clerk")
        snapshot = caller.finish(run_id)
        assert snapshot["status"] == "completed"
        assert snapshot["metrics"]["openwopCost"]["usd"] == pytest.approx(3.0)
