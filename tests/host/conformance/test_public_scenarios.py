"""Legs of the protocol's public conformance suite that no other test covers, in our own words.

The suite drives a host from outside; so do these, against a host in conformance mode.
"""

import json
import re

import pytest

from host.caller import Caller
from host.conformance.fixture_runs import LONG, create, pause, start, start_node, types, wait_for
from host.interop.wire_schemas import assert_valid

MARK = "CANARY-openwop-CONFORMANCE-NEVER-SECRET"  # a marker of the suite, in no real key
CANARIES = {
    "openai": f"sk-{MARK}-oai9Lt7Nw2QrZ0aB8mYjPpQe",
    "anthropic": f"sk-ant-{MARK}-ant3Ko0LqFqzv9Sb1J7mNcR",
    "google": f"AIza{MARK}Goog12345abcdef9876",
    "token": f"eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOnRydWV9.{MARK}-signature",
    "reference": f"cred_{MARK}-OpaqueRefAlphaNumX9Y8Z7",
}


def ended(caller: Caller, name: str = "noop", **more: object) -> str:
    run_id = start(caller, name, **more)
    caller.finish(run_id)
    return run_id


# Debug bundles.


def test_a_bundle_agrees_with_the_events_of_its_run(newcomer: Caller):
    run_id = ended(newcomer)
    reply = newcomer.get(f"/v1/runs/{run_id}/debug-bundle")
    bundle = reply.json()
    assert_valid(bundle, "debug-bundle")
    assert reply.headers["cache-control"] == "no-store"
    events = newcomer.get(f"/v1/runs/{run_id}/events/poll").json()["events"]
    assert len(bundle["events"]) == len(events) == bundle["metrics"]["eventCount"]
    assert (bundle["redactionApplied"], bundle["redactionMode"]) == (True, "mask")
    cut = newcomer.get(f"/v1/runs/{run_id}/debug-bundle?maxEvents=2").json()
    assert (len(cut["events"]), cut["truncated"]) == (2, True)
    assert cut["metrics"]["eventCount"] == len(events)


@pytest.mark.parametrize("name", CANARIES)
def test_inputs_that_a_workflow_does_not_use_appear_nowhere(newcomer: Caller, name: str):
    canary = CANARIES[name]
    inputs = {"userField": canary, "text": f"some {canary} in between"}
    run_id = ended(newcomer, inputs=inputs)
    for path in ("", "/events/poll", "/debug-bundle"):
        assert MARK not in newcomer.get(f"/v1/runs/{run_id}{path}").body.decode()


@pytest.mark.parametrize("name", CANARIES)
def test_what_is_shaped_like_a_credential_is_masked_in_a_bundle(newcomer: Caller, name: str):
    run_id = ended(newcomer, metadata={"note": CANARIES[name]}, tags=[CANARIES[name]])
    assert MARK not in newcomer.get(f"/v1/runs/{run_id}/debug-bundle").body.decode()


def test_an_unknown_workflow_is_not_repeated_to_the_caller(newcomer: Caller):
    reply = newcomer.post("/v1/runs", {"workflowId": f"none-{CANARIES['token']}", "inputs": {}})
    assert reply.status in (400, 404)
    assert MARK not in reply.body.decode()


@pytest.mark.parametrize("name", CANARIES)
def test_what_is_shaped_like_a_credential_is_masked_in_errors(newcomer: Caller, name: str):
    for more in ({CANARIES[name]: 1}, {"tags": CANARIES[name]}, {"scopeId": {CANARIES[name]: 1}}):
        reply = newcomer.post("/v1/runs", {"workflowId": "conformance-noop", **more})
        assert reply.refusal == (400, "validation_error")
        assert CANARIES[name] not in reply.body.decode()


# Differences.


def test_two_runs_of_different_workflows_differ_from_a_sequence_on(newcomer: Caller):
    a, b = ended(newcomer, "noop"), ended(newcomer, "failure")
    found = newcomer.get(f"/v1/runs/{a}:diff?against={b}").json()
    assert_valid(found, "run-diff-response")
    assert found["eventDiffs"][0]["seq"] == found["divergedAtSeq"]
    assert {each["op"] for each in found["eventDiffs"]} == {"changed"}
    state = json.dumps(found["stateDiff"])
    assert not re.search(r"(?i)sk-|api[_-]?key|secret|bearer\s", state)


def test_replays_of_one_event_are_alike_and_differ_in_nothing_from_the_source(newcomer: Caller):
    source = ended(newcomer)
    at = types(newcomer, source).index("node.completed") + 1
    logs = []
    for _ in range(2):
        reply = newcomer.post(f"/v1/runs/{source}:fork", {"mode": "replay", "fromSeq": at})
        fork = reply.json()["runId"]
        assert newcomer.finish(fork)["status"] == "completed"
        logs.append([(frame.name, frame.data["payload"]) for frame in newcomer.frames(fork)])
        found = newcomer.get(f"/v1/runs/{source}:diff?against={fork}").json()
        assert found["divergedAtSeq"] is None
    assert logs[0] == logs[1]


# Pauses and cancels.


def test_the_policy_of_a_pause_is_recorded(newcomer: Caller):
    advertised = newcomer.get("/.well-known/openwop").json()["runs"]["pauseResume"]
    assert advertised["drainPolicies"] == ["immediate", "drain-current-node"]
    for policy, inputs in (("immediate", LONG), ("drain-current-node", {"delayMs": 300})):
        run_id = start_node(newcomer, inputs)
        assert pause(newcomer, run_id, policy).status == 202
        wait_for(newcomer, run_id, "paused")
        reply = newcomer.get(f"/v1/runs/{run_id}/events/poll?timeout=1")
        [paused] = [each for each in reply.json()["events"] if each["type"] == "run.paused"]
        assert paused["payload"]["drainPolicy"] == policy


def test_a_second_pause_is_told_when_the_first_was(newcomer: Caller):
    run_id = start_node(newcomer)
    first = pause(newcomer, run_id, "immediate")
    second = pause(newcomer, run_id, "immediate")
    assert second.status == 409
    details = second.json()["details"]
    assert (details["runStatus"], details["pausedAt"]) == ("paused", first.json()["pausedAt"])


def test_a_run_that_ended_otherwise_is_not_cancelled_with_others(newcomer: Caller):
    run_id = ended(newcomer)
    [result] = newcomer.post("/v1/runs:bulk-cancel", {"runIds": [run_id]}).json()["results"]
    assert (result["ok"], result["error"]["code"]) == (False, "run_terminal")


# Execution bounds.


def test_every_event_of_a_run_that_ran_out_of_time_is_one_of_the_protocol(newcomer: Caller):
    run_id = start(newcomer, "delay", LONG, configurable={"runTimeoutMs": 30})
    for frame in newcomer.frames(run_id):
        assert_valid(frame.data, "run-event")
    assert_valid(newcomer.snapshot(run_id), "run-snapshot")


def test_the_documents_of_discovery_and_errors_are_those_of_the_protocol(newcomer: Caller):
    assert_valid(newcomer.get("/.well-known/openwop").json(), "capabilities")
    assert_valid(create(newcomer, "nothing").json(), "error-envelope")
