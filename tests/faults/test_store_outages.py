"""A store that fails for a while: runs go on afterwards, and meanwhile the host says the truth."""

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import StoreUnavailable
from evalwright.contracts.suite import Suite
from evalwright.store.location import HOST_PATIENCE
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from faults.soaking import IS_SOAK, scaled, seeds
from faults.store_faults import full, locked, moved, moved_alone, small_disk
from host.caller import Caller, Reply
from host.server import GATED, RIGHT, HostProcess
from subjects.command import Evalwright, subject
from subjects.waiting import Journal, eventually

READYZ = "/v1/host/readyz"
ANSWER_SECONDS = 25  # a bound for hangs, on a slow machine: a locked file once took 30 s per answer

Fault = Callable[[Path], AbstractContextManager[None]]
FAULTS: dict[str, tuple[Fault, str]] = {
    "locked": (locked, "database is locked"),
    "full": (full, "full"),
    "moved": (moved, "its file is moved away or deleted; put it back"),
}
if IS_SOAK:
    FAULTS["moved alone"] = (moved_alone, "its file is moved away or deleted; put it back")


def waiting_suite(tasks: int = 6) -> Suite:
    """The first task does not wait: a host lets one run alone until it knows what a task costs."""
    inputs = ["go", *["wait"] * (tasks - 1)]
    return a_suite([a_task(f"task-{n}", input=each) for n, each in enumerate(inputs, 1)])


def assert_sound(events: list[dict[str, Any]], tasks: int) -> None:
    """No gap, one end, every task scored once."""
    assert [event["sequence"] for event in events] == list(range(len(events)))
    scored = [event["payload"]["taskId"] for event in events if event["type"] == "eval.scored"]
    assert sorted(scored) == sorted(f"task-{n}" for n in range(1, tasks + 1))
    types = Counter(event["type"] for event in events)
    assert (types["run.started"], types["run.completed"]) == (1, 1)


@pytest.fixture
def process(
    request: pytest.FixtureRequest, evalwright: Evalwright, journal: Journal, tmp_path: Path
) -> Iterator[HostProcess]:
    """A host; for the test with a full disk its log is on a small one."""
    on_small_disk = "full" in request.node.callspec.params.values()
    place = small_disk(tmp_path / "disk") if on_small_disk else nullcontext(tmp_path)
    with place as folder:
        process = HostProcess(evalwright, journal.environment)
        process.db = folder / "host.db"
        process.start()
        yield process
        process.kill()


def timely(caller: Caller, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    """A reply that did not take long."""
    began = time.monotonic()
    reply = caller.send(method, path, body, headers)
    assert time.monotonic() - began < ANSWER_SECONDS
    return reply


def assert_unavailable(reply: Reply, reason: str) -> None:
    assert reply.refusal == (503, "service_unavailable"), reply.body
    assert int(reply.headers["retry-after"]) > 0
    assert reason in reply.json()["message"]


def is_ready(caller: Caller) -> bool:
    return caller.get(READYZ).status == 200


@pytest.mark.parametrize("name", FAULTS)
def test_runs_go_on_in_the_same_process_when_the_fault_has_passed(
    process: HostProcess, journal: Journal, name: str
) -> None:
    fault, reason = FAULTS[name]
    caller = process.caller()
    run_id, paused = (
        caller.start(waiting_suite(), GATED, configurable={"concurrency": 3}) for _ in range(2)
    )
    journal.wait_for(8)
    assert caller.post(f"/v1/runs/{paused}:pause").status == 202
    suite = caller.publish(a_suite(suite_id="acme.shop.evals.others"))
    wanted = {"mode": "eval", "evalSuiteRef": suite, "agentId": RIGHT}
    ended = caller.evaluate(suite)
    assert is_ready(caller)

    with fault(process.db):
        until = time.monotonic() + scaled(0, 33 if name == "locked" else 5)
        journal.open_gate()  # answers that were paid for arrive, and cannot be written
        eventually(lambda: not is_ready(caller), "a check that fails")
        assert_unavailable(timely(caller, "GET", READYZ), reason)
        key = {"Idempotency-Key": "once"}
        assert_unavailable(timely(caller, "POST", "/v1/runs", wanted, **key), reason)
        for path in (f"{run_id}/cancel", f"{run_id}:pause", f"{paused}:resume"):
            assert_unavailable(timely(caller, "POST", f"/v1/runs/{path}", {}), reason)
        assert_unavailable(timely(caller, "DELETE", f"/v1/runs/{ended}"), reason)
        assert caller.snapshot(run_id)["status"] == "running"  # what is there can be read
        assert len(journal.lines()) == 8  # nothing is begun that could not be recorded
        while time.monotonic() < until:
            assert_unavailable(timely(caller, "GET", READYZ), reason)
            time.sleep(1)

    eventually(lambda: is_ready(caller), "readiness")
    created = [caller.post("/v1/runs", wanted, key) for _ in range(2)]
    assert [reply.status for reply in created] == [201, 201]
    assert len({reply.json()["runId"] for reply in created}) == 1
    assert len(caller.run_ids()) == 4  # those that were refused were not created later
    assert caller.snapshot(paused)["status"] == "paused"  # nor was it resumed
    assert caller.post(f"/v1/runs/{paused}:resume").status == 202
    for each in (run_id, paused):
        assert caller.finish(each)["status"] == "completed"
        assert_sound([frame.data for frame in caller.frames(each)], 6)
    assert set(Counter(journal.lines()).values()) == {2}  # once in each run, none again
    assert process.stop() == 0


@pytest.mark.parametrize("seed", seeds(short=1, long=8))
def test_runs_survive_any_sequence_of_faults(
    process: HostProcess, journal: Journal, seed: int
) -> None:
    dice = random.Random(seed)
    process.kill()
    slow = f'[host.agents."acme.slow"]\nref = "{subject("journal.py:answer_after_a_while")}"'
    process.configure(["shutdown_s = 0.3", slow])
    process.start()
    caller = process.caller()
    tasks = scaled(100, 400)
    suite = caller.publish(a_suite(tasks))
    run_ids = [caller.start(suite, "acme.slow", configurable={"concurrency": 2}) for _ in range(3)]
    for _ in range(scaled(3, 5)):
        time.sleep(dice.uniform(0, 0.3))
        with dice.choice([locked, moved, moved_alone])(process.db):
            time.sleep(dice.uniform(0, scaled(1, 6)))
    for run_id in run_ids:
        assert caller.finish(run_id)["status"] == "completed"
        assert_sound([frame.data for frame in caller.frames(run_id)], tasks)
    assert set(Counter(journal.lines()).values()) == {3}  # once in each run
    assert process.stop() == 0


# Where a run stopped nonetheless.


@pytest.mark.parametrize("name", ["moved"])
def test_a_run_that_stopped_is_taken_up_again(
    process: HostProcess, journal: Journal, name: str
) -> None:
    """Somebody else writes to the run: what the host knows of it is no longer true."""
    caller = process.caller()
    run_id = caller.start(waiting_suite(2), GATED)
    journal.wait_for(2)
    with closing(sqlite3.connect(process.db, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO events (run, seq, type, task_id, at_us, body)"
            " SELECT run, max(seq) + 1, 'evalwright.noted', NULL, 1, '{}' FROM events"
            " JOIN runs USING (run) WHERE run_id = ?",
            (run_id,),
        )
    journal.open_gate()
    assert caller.finish(run_id)["status"] == "completed"
    assert_sound([frame.data for frame in caller.frames(run_id)], 2)
    assert process.stop() == 0


@pytest.mark.parametrize("name", ["somebody else"])
def test_a_run_is_cancelled_only_if_that_is_recorded(
    process: HostProcess, journal: Journal, name: str
) -> None:
    """What another program wrote into a run keeps the host from it only for a moment."""
    caller = process.caller()
    run_id = caller.start(a_suite([a_task("task-1", input="wait"), a_task("task-2")]), GATED)
    journal.wait_for(1)
    assert caller.post(f"/v1/runs/{run_id}:pause").status == 202
    journal.open_gate()
    with closing(SqliteLog(process.db)) as log:
        eventually(lambda: list(log.read(run_id, ("eval.scored",))), "all that the host writes")
        log.append(run_id, [NewEvent(name, None, 1, b"{}")])
        log.flush(run_id).result()

    refused = caller.post(f"/v1/runs/{run_id}/cancel", {})

    assert refused.refusal == (503, "service_unavailable")
    assert caller.snapshot(run_id)["status"] == "paused"
    eventually(lambda: caller.post(f"/v1/runs/{run_id}/cancel", {}).status == 200, "the end")
    assert caller.snapshot(run_id)["status"] == "cancelled"


# The command line.


def test_a_command_rides_out_a_short_fault(evalwright: Evalwright, journal: Journal) -> None:
    suite = evalwright.suite(waiting_suite(3))
    agent = subject("journal.py:wait_at_the_gate")
    process = evalwright.start("run", suite, "--agent", agent, env=journal.environment)
    journal.wait_for(3)
    assert evalwright.db is not None
    with locked(evalwright.db):
        journal.open_gate()
        assert process.stderr is not None
        told = b""
        while b"trying again" not in told:
            told += process.stderr.readline()
    done = evalwright.finish(process)
    assert done.code == 0, done.err
    assert b"database is locked" in told
    assert_sound(evalwright.events(), 3)
    assert Counter(journal.lines()) == {f"task-{n}": 1 for n in range(1, 4)}


@pytest.mark.skipif(not IS_SOAK, reason="a command tries for a minute: only in `make soak`")
def test_a_command_gives_up_after_a_minute_and_can_be_resumed(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(waiting_suite(3))
    agent = subject("journal.py:wait_at_the_gate")
    process = evalwright.start("run", suite, "--agent", agent, env=journal.environment)
    journal.wait_for(3)
    assert evalwright.db is not None
    with locked(evalwright.db):
        journal.open_gate()
        _, told = process.communicate(timeout=120)
    assert process.returncode == 3
    assert b"database is locked" in told
    assert b"given up after 6" in told
    assert b"evalwright run --resume" in told
    assert evalwright("run", "--resume", "latest", env=journal.environment).code == 0
    assert_sound(evalwright.events(), 3)


# The log itself.


def an_event(number: int, kind: str = "agent.decided") -> NewEvent:
    return NewEvent(kind, None, 1, b"%d" % number)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db", patience=HOST_PATIENCE._replace(requests=0.2))
    yield log
    log.close()


def test_what_is_appended_meanwhile_is_written_in_order_and_told_once(
    log: SqliteLog, tmp_path: Path
) -> None:
    heard: list[NewEvent] = []
    log.append("run", [an_event(0)])
    log.watch("run", heard.extend)
    log.flush("run").result(120)
    with locked(tmp_path / "log.db"):
        for number in range(1, 200):
            log.append("run", [an_event(number)])
        flushed = log.flush("run")
        eventually(lambda: log.fault, "the fault")
        assert not flushed.done()
        assert log.backlog >= 1
    flushed.result(120)
    assert not log.fault
    assert [int(event.body) for event in log.read("run")] == list(range(200))
    assert [int(event.body) for event in heard] == list(range(200))[-len(heard) :]


def test_a_request_that_was_refused_is_not_written_later(log: SqliteLog, tmp_path: Path) -> None:
    log.append("run", [an_event(0)])
    log.flush("run").result(120)
    note = RecordChange("note", "a", "key", b"text")
    with locked(tmp_path / "log.db"):
        waiting = [log.request("run", [an_event(1)]), log.records.write([note]), log.try_out()]
        for each in waiting:
            with pytest.raises(StoreUnavailable, match="database is locked"):
                each.result(120)
        with pytest.raises(StoreUnavailable):  # at once, now that it has lasted
            log.request("run", [an_event(1)])
        kept = log.records.write([note._replace(key="kept")], is_request=False)
    kept.result(120)
    eventually(lambda: not log.fault, "the end of the fault")
    log.request("run", [an_event(1)]).result(120)
    assert len(list(log.read("run"))) == 2
    assert log.records.keys("note", "a") == ["kept"]


def test_a_log_is_never_split_over_two_files(log: SqliteLog, tmp_path: Path) -> None:
    log.append("run", [an_event(0)])
    log.flush("run").result(120)
    db = tmp_path / "log.db"
    with moved(db):
        other = SqliteLog(db)
        other.append("run", [an_event(7)])
        other.flush("run").result(120)
        with pytest.raises(StoreUnavailable, match=r"another file is in the place of its file"):
            log.request("run", [an_event(1)]).result(120)
        with pytest.raises(StoreUnavailable), log.claim("run"):
            pass
        log.append("run", [an_event(1)])
        assert len(list(other.read("run"))) == 1
        other.close()
    log.flush("run").result(120)
    assert [int(event.body) for event in log.read("run")] == [0, 1]
