"""Branching off a run: what had its score by then is kept, the rest is done anew."""

import pytest

from builders import a_log, a_suite, a_task
from evalwright.store.protocol import NewEvent
from host.caller import Caller, Reply
from host.server import GATED, TENANT, ServedHost
from subjects.waiting import Journal


def fork(caller: Caller, run_id: str, from_sequence: int, headers=None, **overlay) -> Reply:
    body = {"mode": "branch", "fromSeq": from_sequence}
    if overlay:
        body["runOptionsOverlay"] = overlay
    return caller.post(f"/v1/runs/{run_id}:fork", body, headers)


def branch(caller: Caller, run_id: str, from_sequence: int, **overlay) -> str:
    reply = fork(caller, run_id, from_sequence, **overlay)
    assert reply.status == 201, reply.body
    return str(reply.json()["runId"])


def scores(caller: Caller, run_id: str) -> dict[str, int]:
    """The sequence at which each task got its score."""
    return {
        frame.data["nodeId"]: frame.id
        for frame in caller.frames(run_id)
        if frame.name == "eval.scored"
    }


@pytest.fixture
def source(caller: Caller, gate: Journal) -> str:
    """A completed run of four tasks, whose agent notes what it is asked."""
    return caller.evaluate(a_suite(4), GATED, configurable={"concurrency": 1})


def test_a_branch_asks_the_agent_only_what_had_no_score_yet(
    caller: Caller, gate: Journal, source: str
):
    scored = scores(caller, source)
    gate.clear()
    run_id = branch(caller, source, scored["task-2"] + 1)
    assert caller.finish(run_id)["status"] == "completed"
    assert sorted(gate.lines()) == ["task-3", "task-4"]
    assert scores(caller, run_id).keys() == scored.keys()


def test_the_score_at_the_branching_point_is_given_anew(caller: Caller, gate: Journal, source: str):
    gate_point = scores(caller, source)["task-2"]
    gate.clear()
    caller.finish(branch(caller, source, gate_point))
    assert sorted(gate.lines()) == ["task-2", "task-3", "task-4"]


def test_a_branch_from_the_beginning_does_everything_anew(
    caller: Caller, gate: Journal, source: str
):
    gate.clear()
    caller.finish(branch(caller, source, 0))
    assert len(gate.lines()) == 4


def test_a_branch_says_where_it_came_from_and_is_a_run_like_any_other(caller: Caller, source: str):
    reply = fork(caller, source, 5)
    run_id = reply.json()["runId"]
    assert (reply.json()["status"], reply.json()["fromSeq"]) == ("running", 5)
    caller.finish(run_id)
    frames = caller.frames(run_id)
    assert [frame.id for frame in frames] == list(range(len(frames)))
    planned = next(frame.data for frame in frames if frame.name == "evalwright.planned")
    assert planned["payload"]["origin"]["forkedFrom"] == {
        "runId": source,
        "fromSequence": 5,
        "mode": "branch",
    }
    assert caller.get(f"/v1/runs/{run_id}/eval-summary").json()["passed"] is True


def test_a_branch_takes_options_over_and_adds_those_of_its_overlay(caller: Caller):
    source = caller.evaluate(
        a_suite(1), tags=["ci"], metadata={"commit": "abc"}, configurable={"concurrency": 1, "x": 1}
    )
    overlay = {"configurable": {"concurrency": 3, "y": 2}, "tags": ["debug"], "metadata": {"by": 1}}
    changed = caller.finish(branch(caller, source, 0, **overlay))
    assert changed["configurable"] == {"concurrency": 3, "x": 1, "y": 2}
    assert (changed["tags"], changed["metadata"]) == (["debug"], {"by": 1})
    kept = caller.finish(branch(caller, source, 0))
    assert (kept["tags"], kept["metadata"]) == (["ci"], {"commit": "abc"})


@pytest.mark.parametrize(
    "configurable",
    [
        {"agentVersion": "2.0.0"},
        {"agentChannel": "stable"},
        {"evalModes": ["golden"]},
        {"baselineRunId": "run_x"},
        {"allowMismatch": True},
        {"model": "another"},
        {"concurrency": 0},
    ],
)
def test_what_the_kept_facts_were_found_with_cannot_be_overlaid(
    caller: Caller, source: str, configurable
):
    refusal = fork(caller, source, 0, configurable=configurable).refusal
    assert refusal == (400, "validation_error")
    assert caller.run_ids() == [source]


def test_a_run_in_flight_can_be_branched(caller: Caller, gate: Journal):
    tasks = [a_task("task-1"), a_task("task-2", input="wait")]
    run_id = caller.start(a_suite(tasks), GATED, configurable={"concurrency": 1})
    gate.wait_for(2)
    branched = branch(caller, run_id, 0)
    gate.open_gate()
    assert caller.finish(branched)["status"] == "completed"
    assert caller.finish(run_id)["status"] == "completed"


def test_a_branch_point_behind_the_end_of_the_log_is_refused(caller: Caller, source: str):
    reply = fork(caller, source, 99_999)
    assert reply.refusal == (422, "validation_error")
    last = caller.frames(source)[-1].id
    assert reply.json()["details"]["lastSequence"] == last
    assert fork(caller, source, last).status == 201


def test_only_evaluations_that_a_host_began_can_be_branched(served: ServedHost, caller: Caller):
    log = a_log(a_suite(1))
    view = served.log.for_tenant(TENANT)
    for run_id, events in {"run_flow": [log[0], log[-1]], "run_command_line": log}.items():
        news = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in events]
        view.append(run_id, news)
        view.flush(run_id).result()
    assert fork(caller, "run_flow", 0).refusal == (501, "capability_not_provided")
    assert fork(caller, "run_command_line", 0).refusal == (422, "capability_required")


def test_a_branch_sent_twice_with_one_key_is_made_once(caller: Caller, source: str):
    headers = {"Idempotency-Key": "once"}
    first, second = fork(caller, source, 4, headers), fork(caller, source, 4, headers)
    assert second.json() == first.json()
    assert len(caller.run_ids()) == 2


def test_annotations_are_not_taken_over(caller: Caller, source: str):
    caller.post(f"/v1/runs/{source}/annotations", {"signal": {"kind": "flag"}})
    run_id = branch(caller, source, 0)
    assert caller.get(f"/v1/runs/{run_id}/annotations").json() == {"annotations": []}
