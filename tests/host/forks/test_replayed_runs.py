"""Replaying a run: the same facts as the record of a new run, and nobody is asked again."""

import msgspec
import pytest

from builders import a_log, a_suite, a_task
from evalwright.contracts.events import Event
from evalwright.engine.replay import replay_run
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller, Reply
from host.server import GATED, PRICED, TENANT, ServedHost
from subjects.waiting import Journal


def fork(caller: Caller, run_id: str, headers=None, **body) -> Reply:
    return caller.post(f"/v1/runs/{run_id}:fork", {"mode": "replay", **body}, headers)


def replay(caller: Caller, run_id: str) -> str:
    reply = fork(caller, run_id)
    assert reply.status == 201, reply.body
    return str(reply.json()["runId"])


def enter(log: SqliteLog, events: list[Event], run_id: str) -> str:
    """Write a log that was made elsewhere as a run of the tenant."""
    view = log.for_tenant(TENANT)
    view.append(
        run_id, [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in events]
    )
    view.flush(run_id).result()
    return run_id


def facts(caller: Caller, run_id: str) -> list[tuple[str, str | None]]:
    return [(frame.name, frame.data.get("nodeId")) for frame in caller.frames(run_id)]


def test_a_replay_is_a_new_run_that_names_its_source_and_has_ended_as_it_did(caller: Caller):
    source = caller.evaluate(a_suite(3))
    reply = fork(caller, source)
    run_id = reply.json()["runId"]
    assert reply.json() == {
        "runId": run_id,
        "sourceRunId": source,
        "fromSeq": 0,
        "mode": "replay",
        "status": "completed",
        "eventsUrl": f"/v1/runs/{run_id}/events",
    }
    assert run_id != source
    assert reply.headers["location"] == f"/v1/runs/{run_id}"
    assert facts(caller, run_id) == facts(caller, source)


def test_a_replay_has_the_summary_of_its_source_byte_for_byte(caller: Caller):
    source = caller.evaluate(a_suite(3), agent_id=PRICED)
    summaries = [
        caller.get(f"/v1/runs/{run_id}/eval-summary").body
        for run_id in (source, replay(caller, source))
    ]
    assert summaries[0] == summaries[1]


def test_a_replay_differs_from_its_source_in_nothing(caller: Caller):
    source = caller.evaluate(a_suite(3), tags=["ci"], metadata={"commit": "abc"})
    found = caller.get(f"/v1/runs/{source}:diff?against={replay(caller, source)}").json()
    assert (found["divergedAtSeq"], found["eventDiffs"], found["stateDiff"]) == (None, [], {})


def test_a_replay_asks_no_agent(caller: Caller, gate: Journal):
    source = caller.evaluate(a_suite(3), agent_id=GATED)
    replay(caller, source)
    assert len(gate.lines()) == 3


def test_a_replay_keeps_owner_tags_metadata_and_options_of_its_source(served: ServedHost):
    source = served.caller().evaluate(
        a_suite(1), tags=["ci"], metadata={"commit": "abc"}, configurable={"concurrency": 2}
    )
    other_key = served.caller()
    before, after = (other_key.snapshot(run_id) for run_id in (source, replay(other_key, source)))
    kept = ("owner", "tags", "metadata", "configurable", "agent", "workflowId")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_only_the_plan_of_a_replay_says_what_it_was_forked_from(caller: Caller):
    source = caller.evaluate(a_suite(1))
    frames = caller.frames(replay(caller, source))
    telling = [frame for frame in frames if source in str(frame.data)]
    assert [frame.name for frame in telling] == ["evalwright.planned"]
    forked_from = telling[0].data["payload"]["origin"]["forkedFrom"]
    assert forked_from == {"runId": source, "fromSequence": 0, "mode": "replay"}


def test_the_summary_of_a_replay_links_to_its_own_difference_from_the_baseline(
    served: ServedHost, caller: Caller
):
    suite = a_suite(2, modes=["golden", "regression"])
    baseline = caller.evaluate(suite)
    options = {"evalModes": ["golden", "regression"], "baselineRunId": baseline}
    source = caller.evaluate(suite, configurable=options)
    run_id = replay(caller, source)
    summary = caller.get(f"/v1/runs/{run_id}/eval-summary").json()
    assert summary["regression"]["diffRef"] == f"/v1/runs/{run_id}:diff?against={baseline}"
    assert replay_run(served.log.for_tenant(TENANT), run_id).summary.passed
    assert caller.get(f"/v1/runs/{source}:diff?against={run_id}").json()["eventDiffs"] == []


def test_a_replay_can_be_replayed(caller: Caller):
    source = caller.evaluate(a_suite(2))
    second = replay(caller, replay(caller, source))
    assert caller.get(f"/v1/runs/{source}:diff?against={second}").json()["eventDiffs"] == []


def test_facts_that_do_not_lead_to_the_recorded_summary_are_replayed_and_said_to_diverge(
    served: ServedHost, caller: Caller
):
    log = a_log(a_suite(2))
    wrong = log[-1].body.replace(b'"aggregateScore":1.0', b'"aggregateScore":0.5')
    assert wrong != log[-1].body
    source = enter(served.log, [*log[:-1], msgspec.structs.replace(log[-1], body=wrong)], "run_x")
    frames = caller.frames(replay(caller, source))
    assert [frame.name for frame in frames[-2:]] == ["replay.diverged", "run.completed"]
    assert frames[-2].data["payload"] == {
        "sourceRunId": source,
        "atSequence": log[-1].sequence,
        "originalEventId": f"{source}:{log[-1].sequence}",
        "divergenceKind": "output",
        "divergencePoint": "run.completed",
    }


def test_a_failed_run_is_replayed_to_its_failure(served: ServedHost, caller: Caller):
    source = enter(served.log, a_log(a_suite(2), ending="failed"), "run_failed")
    reply = fork(caller, source)
    assert reply.json()["status"] == "failed"
    assert caller.snapshot(reply.json()["runId"])["error"]["code"] == "agent_unavailable"


def test_a_run_that_is_no_evaluation_is_replayed_by_its_record(served: ServedHost, caller: Caller):
    log = a_log(a_suite(1))
    source = enter(served.log, [log[0], log[-1]], "run_flow")
    assert facts(caller, replay(caller, source)) == facts(caller, source)


def test_a_run_in_flight_cannot_be_replayed(caller: Caller, gate: Journal):
    run_id = caller.start(a_suite([a_task(input="wait")]), GATED)
    gate.wait_for(1)
    assert fork(caller, run_id).refusal == (409, "conflict")


def test_a_replay_sent_twice_with_one_key_is_made_once(caller: Caller):
    source = caller.evaluate(a_suite(1))
    headers = {"Idempotency-Key": "once"}
    first, second = fork(caller, source, headers), fork(caller, source, headers)
    assert second.json() == first.json()
    assert second.headers["openwop-idempotent-replay"] == "true"
    assert len(caller.run_ids()) == 2


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"fromSeq": -1}, (400, "validation_error")),
        ({"fromSeq": 99_999}, (422, "validation_error")),
        ({"fromSeq": "0"}, (400, "validation_error")),
        ({"mode": "rewind"}, (400, "validation_error")),
        ({"mode": "branch"}, (400, "validation_error")),
        ({"surprise": 1}, (400, "validation_error")),
        ({"runOptionsOverlay": {"tags": ["x"]}}, (400, "validation_error")),
        ({"runOptionsOverlay": {"surprise": 1}}, (400, "validation_error")),
    ],
)
def test_what_cannot_be_forked_is_refused(caller: Caller, body, refusal):
    source = caller.evaluate(a_suite(1))
    assert fork(caller, source, **body).refusal == refusal
    assert caller.run_ids() == [source]


def test_an_empty_overlay_is_none(caller: Caller):
    assert fork(caller, caller.evaluate(a_suite(1)), runOptionsOverlay={}).status == 201


def test_a_run_of_another_tenant_or_workspace_cannot_be_forked(served: ServedHost, caller: Caller):
    source = caller.evaluate(a_suite(1))
    for stranger in (served.caller("rival"), served.caller(TENANT, workspace="labs")):
        assert fork(stranger, source).refusal == (404, "not_found")
        assert fork(stranger, source).refusal == fork(stranger, "run_nowhere").refusal


@pytest.mark.parametrize("scopes", [["runs:create"], ["runs:read"]])
def test_a_fork_needs_the_right_to_read_and_to_create(served: ServedHost, caller: Caller, scopes):
    source = caller.evaluate(a_suite(1))
    assert fork(served.caller(scopes=scopes), source).refusal == (403, "forbidden")


def test_what_was_deployed_is_not_told_again_by_a_fork(served: ServedHost, caller: Caller):
    deployer = served.caller(scopes=["deploy:*", "runs:*", "suites:*"])
    path = f"/v1/agents/{GATED}/deployments"
    promoted = deployer.post(path, {"version": "1.0.0", "transition": "promote"})
    assert promoted.status == 200, promoted.body
    run_id = next(iter(deployer.run_ids()))
    assert fork(caller, run_id).refusal == (501, "capability_not_provided")
    assert deployer.run_ids() == [run_id]
