"""Pausing a workflow: at once, or when its node has ended."""

import pytest

from host.caller import Caller
from host.conformance.fixture_runs import (
    cancel,
    pause,
    resume,
    start,
    start_node,
    types,
    wait_for,
)

# Long enough for the pause to come before the end of the node; that end is waited
# for as an event.
WAIT = {"delayMs": 1_500}


def test_an_immediate_pause_breaks_the_node_off_and_it_is_begun_anew(newcomer: Caller):
    run_id = start_node(newcomer, WAIT)
    paused = pause(newcomer, run_id, "immediate")
    assert (paused.status, paused.json()["status"]) == (202, "paused")
    assert paused.json()["pausedAt"]
    assert newcomer.snapshot(run_id)["status"] == "paused"
    resumed = resume(newcomer, run_id)
    assert (resumed.status, resumed.json()["status"]) == (202, "running")
    assert newcomer.finish(run_id)["status"] == "completed"
    assert types(newcomer, run_id) == [
        "run.started",
        "node.started",
        "run.paused",
        "run.resumed",
        "node.started",
        "node.completed",
        "run.completed",
    ]
    attempts = [
        frame.data["payload"].get("attempt", 0)
        for frame in newcomer.frames(run_id)
        if frame.name == "node.started"
    ]
    assert attempts == [0, 1]


def test_draining_lets_the_node_end_before_the_run_is_paused(newcomer: Caller):
    run_id = start_node(newcomer, WAIT)
    assert pause(newcomer, run_id, "drain-current-node").status == 202
    wait_for(newcomer, run_id, "paused")
    drained = types(newcomer, run_id)
    assert drained == ["run.started", "node.started", "node.completed", "run.paused"]
    assert resume(newcomer, run_id).status == 202
    newcomer.finish(run_id)
    assert types(newcomer, run_id) == [*drained, "run.resumed", "run.completed"]


def test_draining_is_what_happens_unless_something_else_is_said(newcomer: Caller):
    run_id = start_node(newcomer, WAIT)
    assert newcomer.post(f"/v1/runs/{run_id}:pause").status == 202
    wait_for(newcomer, run_id, "paused")
    assert types(newcomer, run_id)[-2:] == ["node.completed", "run.paused"]
    cancel(newcomer, run_id)


def test_a_paused_run_cannot_be_paused_again(newcomer: Caller):
    run_id = start_node(newcomer)
    pause(newcomer, run_id, "immediate")
    again = pause(newcomer, run_id, "immediate")
    assert (again.status, again.json()["details"]["runStatus"]) == (409, "paused")
    cancel(newcomer, run_id)


def test_the_same_pause_with_the_same_key_is_answered_as_before(newcomer: Caller):
    run_id = start_node(newcomer)
    key = {"Idempotency-Key": "pause-once"}
    first = pause(newcomer, run_id, "immediate", key)
    again = pause(newcomer, run_id, "immediate", key)
    assert (first.status, again.status) == (202, 202)
    assert again.json() == first.json()
    assert types(newcomer, run_id).count("run.paused") == 1
    cancel(newcomer, run_id)


def test_a_run_that_is_not_paused_cannot_be_resumed(newcomer: Caller):
    run_id = start_node(newcomer)
    reply = resume(newcomer, run_id)
    assert (reply.status, reply.json()["details"]["runStatus"]) == (409, "running")
    cancel(newcomer, run_id)


@pytest.mark.parametrize(("name", "status"), [("noop", "completed"), ("failure", "failed")])
def test_a_run_that_has_ended_cannot_be_paused(newcomer: Caller, name: str, status: str):
    run_id = start(newcomer, name)
    newcomer.finish(run_id)
    reply = pause(newcomer, run_id, "immediate")
    assert (reply.status, reply.json()["details"]["runStatus"]) == (409, status)


@pytest.mark.parametrize("policy", ["immediate", "drain-current-node"])
def test_a_run_can_be_cancelled_while_it_is_paused_or_about_to_be(newcomer: Caller, policy: str):
    run_id = start_node(newcomer)
    pause(newcomer, run_id, policy)
    assert cancel(newcomer, run_id).json()["status"] == "cancelled"
    assert newcomer.finish(run_id)["status"] == "cancelled"
