"""Transitions that the suite drives; each leaves a run that tells what happened."""

import pytest

from evalwright.contracts.schema import ValueSchema
from evalwright.host.v1.deployments import RECORD
from host.caller import Caller
from host.conformance.seams import BUNDLED, call, drive, events, payloads
from host.server import ServedHost

STATES = {"draft", "test", "staged", "active", "paused", "deprecated", "rolled-back"}
NO_CONTENT = {
    *("manifestBody", "manifest", "prompt", "systemPrompt", "body"),
    *("secret", "credentials", "token", "apiKey"),
}
SEAM = "agents/deployment-transition"


def test_a_promotion_rests_on_an_evaluation_that_passed(newcomer: Caller):
    answer = drive(newcomer, SEAM, scenario="promote")
    record = answer["record"]
    assert answer["allowed"] is True
    assert ValueSchema(RECORD, "record").problems(record) == []
    assert record["state"] == "active"
    summary = newcomer.get(f"/v1/runs/{record['evalRunId']}/eval-summary").json()
    assert summary["passed"] is True


def test_its_event_says_what_was_promoted_and_nothing_of_the_agent(newcomer: Caller):
    run_id = drive(newcomer, SEAM, scenario="promote")["runId"]
    [promoted] = payloads(newcomer, run_id, "deployment.promoted")
    assert promoted["toState"] in STATES
    assert promoted["toVersion"] == "1.0.0"
    assert not NO_CONTENT & promoted.keys()


def test_a_promotion_can_be_driven_again_and_again(newcomer: Caller):
    for _ in range(3):
        assert drive(newcomer, SEAM, scenario="promote")["record"]["state"] == "active"


def test_what_was_promoted_is_listed(newcomer: Caller):
    record = drive(newcomer, SEAM, scenario="promote")["record"]
    assert newcomer.get(f"/v1/agents/{BUNDLED}/deployments").json() == [record]


def test_somebody_without_the_scope_is_denied_and_promotes_nothing(newcomer: Caller):
    answer = drive(newcomer, SEAM, scenario="unauthorized")
    assert (answer["allowed"], answer["error"]) == (False, "forbidden")
    assert payloads(newcomer, answer["runId"], "deployment.promoted") == []
    [decided] = payloads(newcomer, answer["runId"], "authorization.decided")
    assert decided["allowed"] is False
    assert newcomer.get(f"/v1/agents/{BUNDLED}/deployments").json() == []


def test_an_evaluation_that_did_not_pass_promotes_nothing(newcomer: Caller):
    answer = drive(newcomer, SEAM, scenario="eval-gate-unmet")
    assert (answer["allowed"], answer["error"]) == (False, "eval_gate_unmet")
    assert payloads(newcomer, answer["runId"], "deployment.promoted") == []
    assert newcomer.get(f"/v1/agents/{BUNDLED}/deployments").json() == []


def test_a_run_on_a_channel_records_the_version_it_was_led_to(newcomer: Caller):
    answer = drive(newcomer, SEAM, scenario="channel-pin", channel="stable")
    started = payloads(newcomer, answer["runId"], "agent.invocation.started")[0]
    assert started["resolvedAgentVersion"] == answer["resolvedAgentVersion"] == "1.0.0"
    assert started["resolvedChannel"] == "stable"


@pytest.mark.parametrize("scenario", ["promote", "unauthorized", "eval-gate-unmet", "channel-pin"])
def test_every_scenario_leaves_a_run_that_has_ended(newcomer: Caller, scenario: str):
    run_id = drive(newcomer, SEAM, scenario=scenario)["runId"]
    last = events(newcomer, run_id)[-1]
    assert last["type"] in ("run.completed", "run.failed")


def test_the_seam_gives_no_key_more_than_it_has(lasting: ServedHost):
    strong = lasting.caller("sparing")
    weak = lasting.caller("sparing", scopes=["runs:create", "runs:read"])
    before = drive(strong, SEAM, scenario="promote")["record"]
    answer = drive(weak, SEAM, scenario="promote")
    assert (answer["allowed"], answer["error"]) == (False, "forbidden")
    assert strong.get(f"/v1/agents/{BUNDLED}/deployments").json() == [before]


def test_a_scenario_that_there_is_not_is_refused(newcomer: Caller):
    assert call(newcomer, SEAM, scenario="bogus").refusal == (400, "validation_error")
    assert call(newcomer, SEAM).refusal == (400, "validation_error")


def test_an_agent_that_is_not_there_is_told_to_be_so(newcomer: Caller):
    reply = call(newcomer, SEAM, scenario="promote", agentId="acme.nobody")
    assert reply.refusal == (404, "not_found")
