"""The suite's workflows on the run surface: started, followed, cancelled, and told apart."""

import pytest

from host.caller import Caller
from host.conformance.fixture_runs import (
    LONG,
    SHORT,
    cancel,
    create,
    start,
    start_node,
    types,
    wait_for,
)
from host.server import ServedHost

QUIET = ["run.started", "node.started", "node.completed", "run.completed"]


def test_a_created_run_says_where_it_can_be_read(newcomer: Caller):
    reply = create(newcomer, "noop")
    run_id = reply.json()["runId"]
    assert reply.status == 201
    assert reply.json()["status"] == "running"
    assert reply.json()["eventsUrl"] == f"/v1/runs/{run_id}/events"


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("noop", None), ("delay", SHORT), ("cancellable", SHORT), ("idempotent", {"nonce": "n"})],
)
def test_a_workflow_runs_its_node_and_completes(
    newcomer: Caller, name: str, inputs: dict[str, object] | None
):
    run_id = start(newcomer, name, inputs, tags=["ci"], metadata={"build": 7})
    snapshot = newcomer.finish(run_id)
    assert (snapshot["runId"], snapshot["workflowId"]) == (run_id, f"conformance-{name}")
    assert (snapshot["status"], snapshot["tags"]) == ("completed", ["ci"])
    assert snapshot["metadata"] == {"build": 7}
    assert snapshot["owner"]["tenant"]
    assert types(newcomer, run_id) == QUIET


def test_events_are_numbered_from_zero_and_name_their_node(newcomer: Caller):
    frames = newcomer.frames(start(newcomer, "noop"))
    assert [frame.id for frame in frames] == [0, 1, 2, 3]
    assert [frame.data.get("nodeId") for frame in frames] == [None, "noop", "noop", None]
    assert frames[1].data["payload"]["typeId"] == "core.noop"


def test_a_workflow_that_fails_says_so_in_its_log_and_in_its_snapshot(newcomer: Caller):
    run_id = start(newcomer, "failure")
    snapshot = newcomer.finish(run_id)
    assert snapshot["status"] == "failed"
    assert set(snapshot["error"]) == {"code", "message"}
    assert types(newcomer, run_id) == ["run.started", "node.started", "node.failed", "run.failed"]


def test_a_run_is_running_while_its_node_waits(newcomer: Caller):
    run_id = start_node(newcomer)
    assert newcomer.snapshot(run_id)["status"] == "running"
    cancel(newcomer, run_id)


def test_a_cancelled_run_ends_at_once(newcomer: Caller):
    run_id = start_node(newcomer)
    reply = cancel(newcomer, run_id)
    assert (reply.status, reply.json()["status"]) == (200, "cancelled")
    assert wait_for(newcomer, run_id, "cancelled")["completedAt"]
    last = newcomer.frames(run_id)[-1]
    assert last.name == "run.cancelled"
    assert last.data["payload"]["reason"] == "done with it"


def test_several_runs_are_cancelled_together(newcomer: Caller):
    runs = [start_node(newcomer), start_node(newcomer)]
    reply = newcomer.post("/v1/runs:bulk-cancel", {"runIds": [*runs, "run_nothing"]})
    results = reply.json()["results"]
    assert [result["ok"] for result in results] == [True, True, False]
    assert results[2]["error"]["code"] == "not_found"


def test_a_run_that_is_not_there_cannot_be_cancelled(newcomer: Caller):
    assert cancel(newcomer, "run_nothing").refusal == (404, "not_found")


# Once and no more.


def test_the_same_request_with_the_same_key_is_answered_with_the_same_run(newcomer: Caller):
    key = {"Idempotency-Key": "once"}
    first, again = (create(newcomer, "idempotent", {"nonce": "a"}, key) for _ in range(2))
    assert again.json() == first.json()
    assert again.headers["openwop-idempotent-replay"] == "true"
    assert newcomer.run_ids() == [first.json()["runId"]]


def test_another_request_with_the_same_key_is_refused(newcomer: Caller):
    key = {"Idempotency-Key": "once"}
    assert create(newcomer, "idempotent", {"nonce": "a"}, key).status == 201
    other = create(newcomer, "idempotent", {"nonce": "b"}, key)
    assert other.refusal == (409, "idempotency_key_mismatch")
    assert "runId" not in other.json()


# What is refused.


@pytest.mark.parametrize("delay_ms", [-1, 30_001, 1.5, "100", None, True])
def test_a_delay_that_cannot_be_is_refused_and_starts_nothing(newcomer: Caller, delay_ms: object):
    reply = create(newcomer, "delay", {"delayMs": delay_ms})
    assert reply.refusal == (400, "validation_error")
    assert reply.json()["details"]["problems"][0]["path"] == "$.inputs.delayMs"
    assert newcomer.run_ids() == []


def test_a_workflow_that_is_not_there_can_be_neither_started_nor_read(newcomer: Caller):
    assert create(newcomer, "nothing").refusal == (404, "not_found")
    assert newcomer.get("/v1/workflows/conformance-nothing").refusal == (404, "not_found")


def test_a_run_belongs_to_the_tenant_that_started_it(lasting: ServedHost, newcomer: Caller):
    run_id = start(newcomer, "delay", LONG)
    stranger = lasting.caller("a-stranger")
    assert stranger.get(f"/v1/runs/{run_id}").status == 404
    assert cancel(stranger, run_id).status == 404
    assert cancel(newcomer, run_id).status == 200


# Definitions.


def test_every_advertised_workflow_has_a_definition(lasting: ServedHost, newcomer: Caller):
    advertised = lasting.nobody().get("/.well-known/openwop").json()["fixtures"]
    assert advertised
    for workflow_id in advertised:
        reply = newcomer.get(f"/v1/workflows/{workflow_id}")
        assert (reply.status, reply.json()["id"]) == (200, workflow_id)
        assert len(reply.json()["nodes"]) == 1


def test_a_definition_is_for_those_who_have_a_key(lasting: ServedHost):
    assert lasting.nobody().get("/v1/workflows/conformance-noop").status == 401


# Streams.


def test_updates_begin_with_the_start_and_close_with_the_end(newcomer: Caller):
    frames = newcomer.frames(start(newcomer, "delay", SHORT), "streamMode=updates")
    assert [frame.name for frame in frames] == ["run.started", "node.completed", "run.completed"]


def test_updates_and_messages_together_are_their_union(newcomer: Caller):
    run_id = start(newcomer, "delay", SHORT)
    mixed = newcomer.frames(run_id, "streamMode=updates,messages")
    assert mixed == newcomer.frames(run_id, "streamMode=updates")


def test_values_are_snapshots_up_to_the_last_one(newcomer: Caller):
    frames = newcomer.frames(start(newcomer, "delay", SHORT), "streamMode=values")
    assert {frame.name for frame in frames} == {"state.snapshot"}
    assert frames[-1].data["status"] == "completed"


def test_gathered_events_come_in_batches_and_none_is_lost(newcomer: Caller):
    run_id = start(newcomer, "delay", SHORT)
    batches = newcomer.frames(run_id, "streamMode=debug&bufferMs=200")
    gathered = [event["type"] for batch in batches for event in batch.data]
    assert {batch.name for batch in batches} == {"batch"}
    assert gathered == types(newcomer, run_id)


@pytest.mark.parametrize("modes", ["bogus", "values,updates", "updates,bogus"])
def test_a_mode_that_there_is_not_is_refused_with_those_that_there_are(
    newcomer: Caller, modes: str
):
    run_id = start(newcomer, "noop")
    reply = newcomer.get(f"/v1/runs/{run_id}/events?streamMode={modes}")
    assert reply.refusal == (400, "unsupported_stream_mode")
    assert "updates" in reply.json()["details"]["supported"]


def test_a_client_that_comes_back_gets_only_what_it_has_not_seen(newcomer: Caller):
    run_id = start(newcomer, "delay", SHORT)
    newcomer.finish(run_id)
    assert [frame.id for frame in newcomer.frames(run_id, last=1)] == [2, 3]
    assert newcomer.frames(run_id, last=3) == []
