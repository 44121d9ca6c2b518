"""Runs from their beginning to their end, also where the host ends in between."""

import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.contracts.suite import Suite
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller
from host.server import BROKEN, GATED, HostProcess, ServedHost, running_host
from subjects.waiting import Journal, eventually

ENDS = {"run.completed", "run.failed", "run.cancelled"}


def waiting_suite(tasks: int = 4, waiting: int = 2) -> Suite:
    """So many tasks, of which the last ones wait at the gate."""
    return a_suite(
        [
            a_task(f"task-{n}", input="wait" if n > tasks - waiting else "go")
            for n in range(1, tasks + 1)
        ]
    )


def assert_sound(events: list[dict[str, Any]], tasks: int) -> None:
    """No gap, one end, every task scored once."""
    assert [event["sequence"] for event in events] == list(range(len(events)))
    types = Counter(event["type"] for event in events)
    assert sum(types[end] for end in ENDS) == 1
    assert events[-1]["type"] == "run.completed"
    scored = [event["payload"]["taskId"] for event in events if event["type"] == "eval.scored"]
    assert sorted(scored) == sorted(f"task-{n}" for n in range(1, tasks + 1))
    assert types["eval.started"] == types["eval.completed"] == types["run.started"] == 1


def events_of(caller: Caller, run_id: str) -> list[dict[str, Any]]:
    return [frame.data for frame in caller.frames(run_id)]


@pytest.fixture
def running(caller: Caller, gate: Journal) -> str:
    """A run with two tasks done, or nearly so, and two at the gate."""
    run_id = caller.start(waiting_suite(), GATED)
    gate.wait_for(4)
    return run_id


# Cancelling.


def test_a_run_that_is_cancelled_ends_at_once(caller: Caller, running: str):
    reply = caller.post(f"/v1/runs/{running}/cancel", {"reason": "a mistake"})
    assert (reply.status, reply.json()) == (200, {"runId": running, "status": "cancelled"})
    events = events_of(caller, running)
    assert events[-1]["type"] == "run.cancelled"
    assert events[-1]["payload"]["reason"] == "a mistake"
    assert events[-1]["payload"]["cancelledBy"].startswith("key:")
    assert caller.snapshot(running)["status"] == "cancelled"
    assert caller.get(f"/v1/runs/{running}/eval-summary").refusal == (404, "not_found")


def test_a_run_that_many_cancel_at_once_ends_once(caller: Caller, running: str):
    with ThreadPoolExecutor(8) as crowd:
        replies = list(crowd.map(lambda _: caller.post(f"/v1/runs/{running}/cancel"), range(8)))
    assert {reply.status for reply in replies} <= {200, 409}
    types = [event["type"] for event in events_of(caller, running)]
    assert types.count("run.cancelled") == 1
    assert types[-1] == "run.cancelled"


def test_a_key_that_somebody_gives_as_a_reason_is_not_recorded(caller: Caller, running: str):
    caller.post(f"/v1/runs/{running}/cancel", {"reason": f"my key is {caller.key}"})
    (ending,) = [event for event in events_of(caller, running) if event["type"] == "run.cancelled"]
    assert ending["payload"]["reason"] == "my key is [masked:credential]"


def test_a_run_can_be_cancelled_without_a_body(caller: Caller, running: str):
    assert caller.post(f"/v1/runs/{running}/cancel").status == 200


def test_nothing_is_recorded_after_the_end_of_a_cancelled_run(
    caller: Caller, running: str, gate: Journal
):
    caller.post(f"/v1/runs/{running}/cancel")
    events = events_of(caller, running)
    gate.open_gate()
    other = caller.evaluate(a_suite(1, version="2.0.0"))
    assert caller.snapshot(other)["status"] == "completed"
    assert events_of(caller, running) == events


def test_a_run_that_has_ended_cannot_be_cancelled_paused_or_resumed(newcomer: Caller):
    run_id = newcomer.evaluate()
    for action in ("/cancel", ":pause", ":resume"):
        reply = newcomer.post(f"/v1/runs/{run_id}{action}")
        assert reply.status == 409
        assert reply.json()["details"]["runStatus"] == "completed"
    assert newcomer.snapshot(run_id)["status"] == "completed"


def test_cancelling_many_gives_a_result_for_each_in_order(caller: Caller, running: str):
    ended = caller.evaluate(a_suite(1, version="2.0.0"))
    body = {"runIds": ["run_nowhere", running, ended, running], "reason": "enough"}
    reply = caller.post("/v1/runs:bulk-cancel", body)
    results = reply.json()["results"]
    assert reply.status == 200
    assert [result["runId"] for result in results] == body["runIds"]
    assert [result["ok"] for result in results] == [False, True, False, True]
    assert results[1] == results[3] == {"runId": running, "ok": True, "status": "cancelled"}
    errors = [result["error"] for result in results if not result["ok"]]
    assert [error["code"] for error in errors] == ["not_found", "run_terminal"]
    assert all(error.keys() == {"code", "message"} for error in errors)


def test_cancelling_again_changes_nothing_and_succeeds(caller: Caller, running: str):
    for _ in range(2):
        reply = caller.post("/v1/runs:bulk-cancel", {"runIds": [running]})
        assert reply.json()["results"] == [{"runId": running, "ok": True, "status": "cancelled"}]
    types = [event["type"] for event in events_of(caller, running)]
    assert types.count("run.cancelled") == 1


def test_cancelling_takes_at_most_100_at_once(newcomer: Caller):
    for ids in ([], [f"run_{n}" for n in range(101)]):
        reply = newcomer.post("/v1/runs:bulk-cancel", {"runIds": ids})
        assert reply.refusal == (400, "validation_error")
    reply = newcomer.post("/v1/runs:bulk-cancel", {"runIds": [f"run_{n}" for n in range(100)]})
    assert reply.status == 200


def test_too_many_to_cancel_are_told_how_many_may_be(newcomer: Caller):
    reply = newcomer.post("/v1/runs:bulk-cancel", {"runIds": [f"run_{n}" for n in range(101)]})
    assert reply.json()["details"]["maxRunIds"] == 100


# Failing.


def test_a_run_whose_agent_is_not_there_fails_and_says_why(newcomer: Caller):
    run_id = newcomer.start(a_suite(2), BROKEN)
    snapshot = newcomer.finish(run_id)
    assert snapshot["status"] == "failed"
    assert snapshot["error"]["code"] == "agent_unavailable"
    assert newcomer.get(f"/v1/runs/{run_id}/eval-summary").refusal == (404, "not_found")


def test_a_run_that_takes_too_long_fails(caller: Caller, gate: Journal):
    run_id = caller.start(waiting_suite(), GATED, configurable={"runTimeoutMs": 50})
    snapshot = caller.finish(run_id)
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "run_timeout")


def test_a_summary_is_not_there_before_the_end(caller: Caller, running: str, gate: Journal):
    assert caller.get(f"/v1/runs/{running}/eval-summary").status == 409
    gate.open_gate()
    caller.finish(running)
    assert caller.get(f"/v1/runs/{running}/eval-summary").status == 200


# Pausing.


def test_a_paused_run_begins_no_task_until_it_is_resumed(served: ServedHost, gate: Journal):
    caller = served.caller()
    suite = waiting_suite(3, waiting=3)
    run_id = caller.start(suite, GATED, configurable={"concurrency": 1})
    gate.wait_for(1)
    reply = caller.post(f"/v1/runs/{run_id}:pause", {"reason": "lunch"})
    assert (reply.status, reply.json()["status"]) == (202, "paused")
    gate.open_gate()
    with caller.stream(f"/v1/runs/{run_id}/events") as stream:
        stream.until("eval.scored")
    assert caller.snapshot(run_id)["status"] == "paused"
    assert gate.lines() == ["task-1"]

    assert caller.post(f"/v1/runs/{run_id}:pause").refusal == (409, "conflict")
    reply = caller.post(f"/v1/runs/{run_id}:resume")
    assert (reply.status, reply.json()["status"]) == (202, "running")
    assert_sound(events_of(caller, run_id), 3)
    assert caller.post(f"/v1/runs/{run_id}:resume").status == 409


def test_a_running_run_cannot_be_resumed(caller: Caller, running: str):
    reply = caller.post(f"/v1/runs/{running}:resume")
    assert (reply.status, reply.json()["details"]["runStatus"]) == (409, "running")


def resumed_by_many(caller: Caller, run_id: str) -> list[int]:
    """The statuses of several requests that come at once."""
    with ThreadPoolExecutor(8) as crowd:
        replies = crowd.map(lambda _: caller.post(f"/v1/runs/{run_id}:resume"), range(8))
        return sorted(reply.status for reply in replies)


def test_a_run_that_many_resume_at_once_is_resumed_once(
    caller: Caller, running: str, gate: Journal
):
    caller.post(f"/v1/runs/{running}:pause")
    assert resumed_by_many(caller, running) == [202, *[409] * 7]
    gate.open_gate()
    events = events_of(caller, running)
    assert_sound(events, 4)
    assert [event["type"] for event in events].count("run.resumed") == 1


def test_a_paused_run_can_be_cancelled(caller: Caller, running: str):
    caller.post(f"/v1/runs/{running}:pause")
    assert caller.post(f"/v1/runs/{running}/cancel").json()["status"] == "cancelled"


# The host ends, and begins again.


@pytest.fixture
def host(process: HostProcess) -> Iterator[HostProcess]:
    process.start()
    yield process
    process.kill()


def restarted(host: HostProcess, caller: Caller) -> Caller:
    host.start()
    return Caller(host.url, caller.key)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_go_on_after_the_host_was_stopped_in_good_order(
    host: HostProcess, journal: Journal, number: int
):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    with caller.stream(f"/v1/runs/{run_id}/events") as stream:
        stream.until("eval.scored")
        journal.wait_for(4)
        host.signal(number)
        assert not {frame.name for frame in stream} & ENDS
    assert host.wait() == 0
    journal.open_gate()
    caller = restarted(host, caller)
    assert caller.finish(run_id)["status"] == "completed"
    assert_sound(events_of(caller, run_id), 4)
    assert Counter(journal.lines())["task-3"] == 2


def test_runs_go_on_after_the_host_was_killed(host: HostProcess, journal: Journal):
    caller = host.caller()
    run_ids = [caller.start(waiting_suite(), GATED) for _ in range(3)]
    journal.wait_for(12)
    for run_id in run_ids:
        with caller.stream(f"/v1/runs/{run_id}/events") as stream:
            stream.until("eval.scored")
    host.kill()
    caller = restarted(host, caller)
    journal.wait_for(18)
    host.kill()
    journal.open_gate()
    caller = restarted(host, caller)
    for run_id in run_ids:
        assert caller.finish(run_id)["status"] == "completed"
        assert_sound(events_of(caller, run_id), 4)


def test_a_task_that_is_scored_is_not_invoked_again_after_a_crash(
    host: HostProcess, journal: Journal
):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    with caller.stream(f"/v1/runs/{run_id}/events") as stream:
        scored = [frame for frame in stream.until("eval.scored") if frame.name == "eval.scored"]
    journal.wait_for(4)
    host.kill()
    journal.open_gate()
    caller = restarted(host, caller)
    caller.finish(run_id)
    assert Counter(journal.lines())[scored[0].data["payload"]["taskId"]] == 1


def test_a_paused_run_stays_paused_over_a_restart(host: HostProcess, journal: Journal):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    assert caller.post(f"/v1/runs/{run_id}:pause").status == 202
    assert host.stop() == 0
    journal.open_gate()
    caller = restarted(host, caller)
    assert caller.snapshot(run_id)["status"] == "paused"
    assert caller.post(f"/v1/runs/{run_id}:resume").status == 202
    assert_sound(events_of(caller, run_id), 4)


def test_a_paused_run_that_many_resume_after_a_restart_is_resumed_once(
    host: HostProcess, journal: Journal
):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    caller.post(f"/v1/runs/{run_id}:pause")
    host.stop()
    journal.open_gate()
    caller = restarted(host, caller)
    assert resumed_by_many(caller, run_id) == [202, *[409] * 7]
    events = events_of(caller, run_id)
    assert_sound(events, 4)
    assert [event["type"] for event in events].count("run.resumed") == 1


def test_a_paused_run_can_be_cancelled_after_a_restart(host: HostProcess, journal: Journal):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    caller.post(f"/v1/runs/{run_id}:pause")
    host.kill()
    caller = restarted(host, caller)
    assert caller.post(f"/v1/runs/{run_id}/cancel").json()["status"] == "cancelled"
    assert events_of(caller, run_id)[-1]["type"] == "run.cancelled"


def test_a_stream_goes_on_after_a_restart_where_it_was(host: HostProcess, journal: Journal):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    path = f"/v1/runs/{run_id}/events?streamMode=debug"
    with caller.stream(path) as stream:
        seen = stream.until("eval.scored")
    journal.wait_for(4)
    host.kill()
    journal.open_gate()
    caller = restarted(host, caller)
    rest = caller.frames(run_id, last=seen[-1].id)
    assert [*seen, *rest] == caller.frames(run_id)


def test_a_run_whose_agent_is_gone_after_a_restart_fails_and_says_so(
    host: HostProcess, journal: Journal
):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    host.kill()
    host.configure(without=(GATED,))
    caller = restarted(host, caller)
    snapshot = caller.finish(run_id)
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "cannot_resume")


def test_a_run_that_cannot_be_read_keeps_no_other_from_going_on(tmp_path: Path, gate: Journal):
    db = tmp_path / "host.db"
    with running_host(db) as served:
        caller = served.caller()
        damaged, sound = (caller.start(waiting_suite(), GATED) for _ in range(2))
        gate.wait_for(8)
        key = caller.key
    _damage_plan(db, damaged)
    gate.open_gate()
    with running_host(db) as served:
        caller = Caller(served.url, key)
        assert caller.finish(sound)["status"] == "completed"
        assert_sound(events_of(caller, sound), 4)


def _damage_plan(db: Path, run_id: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        changed = connection.execute(
            "UPDATE events SET body = '{}' WHERE type = 'evalwright.planned'"
            " AND run = (SELECT run FROM runs WHERE run_id = ?)",
            (run_id,),
        )
        assert changed.rowcount == 1


def test_two_hosts_on_one_log_execute_a_run_once(
    host: HostProcess, process_two: HostProcess, journal: Journal
):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    process_two.start()
    other = Caller(process_two.url, caller.key)
    assert other.snapshot(run_id)["status"] == "running"
    assert other.post(f"/v1/runs/{run_id}/cancel").refusal == (409, "conflict")
    journal.open_gate()
    caller.finish(run_id)
    assert_sound(events_of(other, run_id), 4)
    assert len(journal.lines()) == 4


@pytest.fixture
def process_two(process: HostProcess) -> Iterator[HostProcess]:
    """A second host with the log of the first."""
    second = process.twin()
    yield second
    second.kill()


def test_the_log_can_be_read_by_commands_while_the_host_runs(host: HostProcess, journal: Journal):
    caller = host.caller()
    run_id = caller.start(waiting_suite(), GATED)
    journal.wait_for(4)
    log = SqliteLog(host.db)
    try:
        eventually(lambda: list(log.read(run_id, ("eval.scored",))), "a score")
        assert log.is_claimed(run_id)
    finally:
        log.close()
