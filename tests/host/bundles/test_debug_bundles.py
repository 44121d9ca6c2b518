"""The debug bundle: everything about a run, masked and bounded."""

import json

import pytest

from builders import a_log, a_suite, a_task
from evalwright.host.v1 import compare
from evalwright.store.protocol import NewEvent
from host.caller import Caller
from host.server import ECHO, GATED, PRICED, TENANT, ServedHost
from subjects.waiting import Journal

CANARY = "sk-canary-0123456789abcdef"


def bundle(caller: Caller, run_id: str, query: str = "") -> dict:
    reply = caller.get(f"/v1/runs/{run_id}/debug-bundle{query}")
    assert reply.status == 200, reply.body
    assert reply.headers["cache-control"] == "no-store"
    return reply.json()


def test_a_bundle_holds_the_run_its_events_and_what_they_cost(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2), PRICED)
    found = bundle(newcomer, run_id)
    frames = newcomer.frames(run_id)
    assert found["run"] == newcomer.snapshot(run_id)
    assert [event["eventId"] for event in found["events"]] == [f.data["eventId"] for f in frames]
    assert found["metrics"]["eventCount"] == len(frames)
    assert found["metrics"]["nodeCount"] == 2
    assert found["metrics"]["openwopCost"]["usd"] == 0.5
    assert (found["redactionApplied"], found["redactionMode"]) == (True, "mask")
    assert "truncated" not in found


def test_a_bundle_shows_events_as_they_are_where_nothing_is_to_be_masked(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(3))
    events = [frame.data for frame in newcomer.frames(run_id)]
    assert bundle(newcomer, run_id)["events"] == events


def test_secrets_and_personal_data_are_masked_wherever_they_stand(newcomer: Caller):
    personal = "write to jane.doe@example.org"
    suite = a_suite([a_task(input=f"{CANARY} {personal}")])
    run_id = newcomer.evaluate(suite, ECHO, metadata={"key": CANARY}, tags=[CANARY])
    newcomer.post(
        f"/v1/runs/{run_id}/annotations", {"signal": {"kind": "flag"}, "note": f"see {CANARY}"}
    )
    told = json.dumps(bundle(newcomer, run_id))
    assert CANARY not in told
    assert "jane.doe" not in told
    assert told.count("[masked:") >= 4


def test_a_bundle_travels_with_the_annotations_of_the_run(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    kept = newcomer.post(f"/v1/runs/{run_id}/annotations", {"signal": {"kind": "flag"}}).json()
    assert bundle(newcomer, run_id)["annotations"] == [kept]


def test_a_bundle_may_be_asked_to_hold_fewer_events_and_says_so(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    whole, part = bundle(newcomer, run_id), bundle(newcomer, run_id, "?maxEvents=2")
    assert part["events"] == whole["events"][:2]
    assert (part["truncated"], part["truncatedReason"]) == (True, "events_truncated_to_max_events")
    assert part["metrics"]["eventCount"] == len(whole["events"])


def test_a_bundle_holds_no_more_than_it_may(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    run_id = caller.evaluate(a_suite(50))
    whole = bundle(caller, run_id)
    monkeypatch.setattr(compare, "MOST_BUNDLE_BYTES", 40_000)
    reply = caller.get(f"/v1/runs/{run_id}/debug-bundle")
    part = reply.json()
    assert len(reply.body) < 50_000
    assert 0 < len(part["events"]) < len(whole["events"])
    assert part["events"] == whole["events"][: len(part["events"])]
    assert part["truncatedReason"] == "events_truncated_to_size_cap"


def test_annotations_leave_room_for_events(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    run_id = caller.evaluate(a_suite(1))
    for _ in range(3):
        note = {"signal": {"kind": "flag"}, "note": "x" * 2000}
        assert caller.post(f"/v1/runs/{run_id}/annotations", note).status == 201
    monkeypatch.setattr(compare, "MOST_BUNDLE_BYTES", 10_000)
    found = bundle(caller, run_id)
    assert len(found["annotations"]) == 2
    assert found["events"][-1]["type"] == "run.completed"
    assert found["truncatedReason"] == "annotations_truncated_to_size_cap"


def test_a_paused_run_counts_as_running_in_a_bundle(caller: Caller, gate: Journal):
    run_id = caller.start(a_suite([a_task(input="wait")]), GATED)
    gate.wait_for(1)
    assert caller.post(f"/v1/runs/{run_id}:pause").status == 202
    assert bundle(caller, run_id)["run"]["status"] == "running"


def test_a_run_that_failed_says_why_without_secrets(served: ServedHost, caller: Caller):
    log = a_log(a_suite(1), ending="failed")
    view = served.log.for_tenant(TENANT)
    news = [
        NewEvent(each.type, each.task_id, each.at_us, each.body.replace(b"nobody", CANARY.encode()))
        for each in log
    ]
    view.append("run_failed", news)
    view.flush("run_failed").result()
    found = bundle(caller, "run_failed")
    assert found["run"]["error"]["code"] == "agent_unavailable"
    assert CANARY not in json.dumps(found)


@pytest.mark.parametrize("count", ["0", "-1", "x", "100001"])
def test_a_count_of_events_that_cannot_be_is_refused(newcomer: Caller, count: str):
    reply = newcomer.get(f"/v1/runs/run_x/debug-bundle?maxEvents={count}")
    assert reply.refusal == (400, "validation_error")


def test_bundles_are_for_the_runs_own_tenant(newcomer: Caller, lasting: ServedHost):
    run_id = newcomer.evaluate(a_suite(1))
    stranger = lasting.caller("rival")
    for path in (run_id, "run_nowhere"):
        assert stranger.get(f"/v1/runs/{path}/debug-bundle").refusal == (404, "not_found")
