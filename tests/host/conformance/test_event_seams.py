"""The suite's view of the log: recorded and emitted events, each only of the caller."""

import pytest

from host.caller import Caller
from host.conformance.fixture_runs import start
from host.conformance.seams import call, drive, events
from host.server import ServedHost

USAGE = {"provider": "acme", "model": "large", "inputTokens": 200, "outputTokens": 80}


def test_a_run_that_is_not_there_has_no_events(newcomer: Caller):
    assert events(newcomer, "__probe__") == []


def test_the_events_of_a_run_are_those_of_its_log(newcomer: Caller):
    run_id = start(newcomer, "noop")
    newcomer.finish(run_id)
    polled = newcomer.get(f"/v1/runs/{run_id}/events/poll").json()["events"]
    assert events(newcomer, run_id) == polled


def test_events_can_be_chosen_by_type_and_by_node(newcomer: Caller):
    run_id = start(newcomer, "noop")
    newcomer.finish(run_id)
    assert [event["sequence"] for event in events(newcomer, run_id, "?nodeId=noop")] == [1, 2]
    chosen = events(newcomer, run_id, "?nodeId=noop&type=node.completed")
    assert [event["sequence"] for event in chosen] == [2]
    assert events(newcomer, run_id, "?causationId=nothing") == []


def test_nobody_else_reads_the_events_of_a_run(lasting: ServedHost, newcomer: Caller):
    run_id = start(newcomer, "noop")
    newcomer.finish(run_id)
    assert events(lasting.caller("a-stranger"), run_id) == []


def test_an_emitted_usage_is_read_exactly_once(newcomer: Caller):
    drive(
        newcomer,
        "test/emit-provider-usage",
        runId="r-usage",
        payload=USAGE,
        correlationId="r-usage:node-1:turn-0",
        nodeId="node-1",
    )
    [event] = events(newcomer, "r-usage", "?type=provider.usage")
    assert event["payload"] == USAGE
    assert (event["causationId"], event["nodeId"]) == ("r-usage:node-1:turn-0", "node-1")
    assert events(newcomer, "r-usage", "?correlationId=r-usage:node-1:turn-0") == [event]


def test_what_is_emitted_is_nobody_elses_and_no_run(lasting: ServedHost, newcomer: Caller):
    drive(newcomer, "test/emit-provider-usage", runId="r-mine", payload=USAGE)
    assert events(lasting.caller("a-stranger"), "r-mine") == []
    assert newcomer.run_ids() == []


def test_emitting_to_a_run_leaves_its_log_as_it_was(newcomer: Caller):
    run_id = start(newcomer, "noop")
    newcomer.finish(run_id)
    before = newcomer.frames(run_id)
    drive(newcomer, "test/emit-provider-usage", runId=run_id, payload=USAGE)
    assert newcomer.frames(run_id) == before
    assert len(events(newcomer, run_id)) == len(before) + 1


def test_a_reset_forgets_what_the_caller_emitted_and_nothing_else(
    lasting: ServedHost, newcomer: Caller
):
    other = lasting.caller("another-emitter")
    for caller in (newcomer, other):
        drive(caller, "test/emit-provider-usage", runId="r-1", payload=USAGE)
    drive(newcomer, "test/reset")
    assert events(newcomer, "r-1") == []
    assert len(events(other, "r-1")) == 1


@pytest.mark.parametrize(
    "leak", [{"nodeId": "secret:tenant:byok:v1"}, {"model": "AKIA" + "Q3ZX7WPLMN5RT2VB"}]
)
def test_a_usage_that_holds_a_credential_is_refused(newcomer: Caller, leak: dict[str, str]):
    reply = call(newcomer, "test/emit-provider-usage", runId="r-1", payload=USAGE | leak)
    assert reply.refusal == (400, "provider_usage_credential_leak")
    assert events(newcomer, "r-1") == []


@pytest.mark.parametrize(
    "payload",
    [
        {"provider": "acme", "model": "large", "inputTokens": 1},
        USAGE | {"inputTokens": 1.5},
        USAGE | {"credentialRef": "reference"},
    ],
)
def test_a_usage_that_breaks_its_schema_is_refused(newcomer: Caller, payload: dict[str, object]):
    reply = call(newcomer, "test/emit-provider-usage", runId="r-1", payload=payload)
    assert reply.refusal == (400, "validation_error")
