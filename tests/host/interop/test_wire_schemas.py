"""Everything that the host says keeps to the published schemas of the protocol."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wire_schemas import assert_valid, assert_valid_event

from builders import a_rubric_task, a_suite, a_task
from evalwright_conformance import EXTENSION
from host.caller import Caller
from host.server import BROKEN, GATED, PRICED, RIGHT, WRONG, ServedHost, running_host
from subjects.waiting import Journal

FIXTURES = {
    "toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}],
    "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
}


@pytest.fixture
def judged(tmp_path: Path, gate: Journal) -> Iterator[ServedHost]:
    """A host with a judge."""
    verdict = json.dumps({"c1": {"reason": "it is kind", "met": True}})
    (tmp_path / "judge.json").write_text(json.dumps([{"reply": verdict}]))
    settings = {"judges": (f"scripted:{tmp_path / 'judge.json'}",)}
    with running_host(tmp_path / "judged.db", settings=settings) as served:
        yield served


def events_of(caller: Caller, run_id: str) -> list[dict[str, Any]]:
    return [frame.data for frame in caller.frames(run_id)]


def assert_valid_run(caller: Caller, run_id: str) -> None:
    for event in events_of(caller, run_id):
        assert_valid_event(event)
    assert_valid(caller.snapshot(run_id), "run-snapshot")


@pytest.mark.parametrize("options", [{}, {"extension": EXTENSION}])
def test_the_capabilities_are_valid(tmp_path: Path, options: dict[str, Any]):
    with running_host(tmp_path / "host.db", **options) as served:
        assert_valid(served.nobody().get("/.well-known/openwop").json(), "capabilities")


def test_a_completed_run_is_valid_in_all_its_forms(newcomer: Caller):
    options = {"tags": ["ci"], "metadata": {"a": [1]}, "configurable": {"evalModes": ["golden"]}}
    suite = a_suite([a_task("one", fixtures=FIXTURES), a_task("two", value="no")])
    run_id = newcomer.evaluate(suite, PRICED, **options)
    assert_valid_run(newcomer, run_id)
    assert_valid(newcomer.get(f"/v1/runs/{run_id}/eval-summary").json(), "eval-summary")
    assert_valid(newcomer.get(f"/v1/runs/{run_id}/debug-bundle").json(), "debug-bundle")
    assert_valid(options, "run-options")


def test_a_judged_run_is_valid(judged: ServedHost):
    caller = judged.caller()
    suite = a_suite([a_rubric_task(), a_task("two")], modes=["golden", "rubric"])
    run_id = caller.evaluate(suite)
    assert_valid_run(caller, run_id)
    assert_valid(caller.get(f"/v1/runs/{run_id}/eval-summary").json(), "eval-summary")


def test_a_run_with_a_baseline_is_valid(newcomer: Caller):
    suite = a_suite(2, modes=["golden", "regression"])
    baseline = newcomer.evaluate(suite)
    run_id = newcomer.evaluate(suite, WRONG, configurable={"baselineRunId": baseline})
    assert_valid_run(newcomer, run_id)
    summary = newcomer.get(f"/v1/runs/{run_id}/eval-summary").json()
    assert_valid(summary, "eval-summary")
    diff = newcomer.get(summary["regression"]["diffRef"])
    assert_valid(diff.json(), "run-diff-response")


def test_a_failed_run_is_valid(newcomer: Caller):
    run_id = newcomer.start(a_suite(2), BROKEN)
    assert newcomer.finish(run_id)["status"] == "failed"
    assert_valid_run(newcomer, run_id)
    assert_valid(newcomer.get(f"/v1/runs/{run_id}/debug-bundle").json(), "debug-bundle")


def test_a_run_that_was_paused_resumed_and_cancelled_is_valid(judged: ServedHost, gate: Journal):
    caller = judged.caller()
    run_id = caller.start(a_suite([a_task(input="wait")]), GATED)
    gate.wait_for(1)
    assert caller.post(f"/v1/runs/{run_id}:pause", {"reason": "lunch"}).status == 202
    assert_valid(caller.snapshot(run_id), "run-snapshot")
    assert caller.post(f"/v1/runs/{run_id}:resume", {"reason": "back"}).status == 202
    assert_valid(caller.snapshot(run_id), "run-snapshot")
    assert caller.post(f"/v1/runs/{run_id}/cancel", {"reason": "enough"}).status == 200
    assert_valid_run(caller, run_id)


@pytest.mark.parametrize("body", [{"mode": "replay"}, {"mode": "branch", "fromSeq": 4}])
def test_a_fork_is_valid(newcomer: Caller, body: dict[str, Any]):
    source = newcomer.evaluate(a_suite(2), PRICED)
    reply = newcomer.post(f"/v1/runs/{source}:fork", body)
    run_id = reply.json()["runId"]
    newcomer.finish(run_id)
    assert_valid_run(newcomer, run_id)
    diff = newcomer.get(f"/v1/runs/{source}:diff?against={run_id}").json()
    assert_valid(diff, "run-diff-response")


def test_states_of_a_stream_are_valid(newcomer: Caller):
    run_id = newcomer.start(a_suite(3))
    for frame in newcomer.frames(run_id, "streamMode=values"):
        assert_valid(frame.data, "run-snapshot")


@pytest.mark.parametrize(
    "signal",
    [
        {"kind": "rating", "rating": 5},
        {"kind": "label", "label": "good"},
        {"kind": "correction", "correction": "it is right"},
        {"kind": "flag"},
    ],
)
def test_an_annotation_is_valid(newcomer: Caller, signal: dict[str, Any]):
    run_id = newcomer.evaluate(a_suite(1))
    event = events_of(newcomer, run_id)[-1]["eventId"]
    body = {"signal": signal, "target": {"eventId": event}, "note": "seen"}
    assert_valid(body, "annotation-create")
    made = newcomer.post(f"/v1/runs/{run_id}/annotations", body)
    assert made.status == 201
    assert_valid(made.json(), "annotation")
    for annotation in newcomer.get(f"/v1/runs/{run_id}/annotations").json()["annotations"]:
        assert_valid(annotation, "annotation")


def test_the_inventory_is_valid(newcomer: Caller):
    manifest = {
        "agentId": "local.acme.helper",
        "persona": "Helper",
        "modelClass": "general",
        "systemPrompt": "Help.",
        "memoryShape": {"scratchpad": True},
        "confidence": {"defaultThreshold": 0.5},
    }
    assert_valid(manifest, "agent-manifest")
    body = {"version": "1.0.0", "manifest": manifest}
    assert newcomer.post("/v1/agents", body).status == 201
    assert_valid(newcomer.get("/v1/agents").json(), "agent-inventory-response")


def test_a_deployment_and_its_events_are_valid(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    for state in ("test", "staged", "active"):
        body = {"version": "1.0.0", "transition": "promote", "toState": state, "evalRunId": run_id}
        assert_valid(body, "agent-deployment-transition")
        reply = newcomer.post(f"/v1/agents/{RIGHT}/deployments", body)
        assert reply.status == 200, reply.body
        assert_valid(reply.json(), "agent-deployment")
    for record in newcomer.get(f"/v1/agents/{RIGHT}/deployments").json():
        assert_valid(record, "agent-deployment")
    for run in newcomer.run_ids():
        assert_valid_run(newcomer, run)


def test_a_suite_comes_back_as_it_was_published_and_is_valid(newcomer: Caller):
    ref = newcomer.publish(a_suite(2))
    assert_valid(newcomer.get(f"/v1/suites/{ref}").json(), "agent-eval-suite")


REFUSED = [
    ("GET", "/v1/runs/run_nowhere", None),
    ("GET", "/v1/nothing", None),
    ("GET", "/nothing", None),
    ("PATCH", "/v1/runs", None),
    ("POST", "/v1/runs", {}),
    ("POST", "/v1/runs", b"{"),
    ("GET", "/v1/runs?limit=0", None),
    ("GET", "/v1/runs/x/events?streamMode=surprise", None),
    ("POST", "/v1/agents/acme.nobody/deployments", {"version": "1.0.0", "transition": "promote"}),
]


@pytest.mark.parametrize(("method", "path", "body"), REFUSED)
def test_a_refusal_is_valid(newcomer: Caller, method: str, path: str, body: Any):
    for caller in (newcomer, newcomer.with_key("nothing")):
        reply = caller.send(method, path, body)
        assert 400 <= reply.status < 500
        assert_valid(reply.json(), "error-envelope")
