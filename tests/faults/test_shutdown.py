"""A host that is told to stop: calls in flight end, and what did not goes on at the next start."""

import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from builders import a_suite, a_task
from evalwright.contracts.suite import Suite
from faults.soaking import scaled
from faults.store_faults import locked
from host.caller import Caller
from host.server import GATED, HostProcess
from subjects.command import Evalwright
from subjects.waiting import Journal, eventually

READYZ = "/v1/host/readyz"
SIGNALS = [signal.SIGTERM, signal.SIGINT][: scaled(1, 2)]


def waiting_suite(tasks: int) -> Suite:
    """The first task does not wait: a host lets one run alone until it knows what a task costs."""
    inputs = ["go", *["wait"] * (tasks - 1)]
    return a_suite([a_task(f"task-{n}", input=each) for n, each in enumerate(inputs, 1)])


@pytest.fixture
def process(evalwright: Evalwright, journal: Journal) -> Iterator[HostProcess]:
    process = HostProcess(evalwright, journal.environment)
    yield process
    process.kill()


def started(process: HostProcess, shutdown_s: float) -> Caller:
    process.configure([f"shutdown_s = {shutdown_s}"])
    process.start()
    return process.caller()


def restarted(process: HostProcess, caller: Caller) -> Caller:
    process.start()
    return Caller(process.url, caller.key)


@pytest.mark.parametrize("number", SIGNALS)
def test_calls_in_flight_end_and_are_not_made_again(
    process: HostProcess, journal: Journal, number: int
) -> None:
    caller = started(process, shutdown_s=200)
    run_id = caller.start(waiting_suite(6), GATED, configurable={"concurrency": 2})
    journal.wait_for(3)
    with caller.stream(f"/v1/runs/{run_id}/events?streamMode=debug") as stream:
        stream.until("eval.scored")
        process.signal(number)
        eventually(lambda: caller.get(READYZ).status == 503, "a host that stops")
        assert caller.create(waiting_suite(6), GATED).status == 503
        journal.open_gate()
        names = [frame.name for frame in stream]  # to its end, which is clean
    assert names.count("eval.scored") == 2
    assert "run.completed" not in names
    assert process.wait() == 0
    assert len(journal.lines()) == 3  # nothing new was begun

    caller = restarted(process, caller)
    assert caller.finish(run_id)["status"] == "completed"
    assert Counter(journal.lines()) == {f"task-{n}": 1 for n in range(1, 7)}
    events = [frame.data for frame in caller.frames(run_id)]
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert process.stop() == 0


def test_calls_that_do_not_end_in_time_are_made_again_and_the_log_says_so(
    process: HostProcess, journal: Journal
) -> None:
    caller = started(process, shutdown_s=0.2)
    run_id = caller.start(waiting_suite(3), GATED)
    journal.wait_for(3)
    assert process.stop() == 0
    journal.open_gate()
    caller = restarted(process, caller)
    assert caller.finish(run_id)["status"] == "completed"
    assert Counter(journal.lines()) == {"task-1": 1, "task-2": 2, "task-3": 2}
    frames = [
        frame for frame in caller.frames(run_id) if frame.name == "agent.invocation.completed"
    ]
    outcomes = Counter(frame.data["payload"]["outcome"] for frame in frames)
    assert outcomes == {"failed": 2, "completed": 3}
    assert process.stop() == 0


def test_a_run_that_ends_meanwhile_is_complete(process: HostProcess, journal: Journal) -> None:
    caller = started(process, shutdown_s=200)
    run_id = caller.start(waiting_suite(3), GATED)
    journal.wait_for(3)
    process.signal(signal.SIGTERM)
    eventually(lambda: caller.get(READYZ).status == 503, "a host that stops")
    journal.open_gate()
    assert process.wait() == 0
    caller = restarted(process, caller)
    assert caller.snapshot(run_id)["status"] == "completed"


def test_a_host_stops_while_its_store_fails(process: HostProcess, journal: Journal) -> None:
    caller = started(process, shutdown_s=0.2)
    run_id = caller.start(waiting_suite(3), GATED)
    journal.wait_for(3)
    with locked(process.db):
        journal.open_gate()
        eventually(lambda: caller.get(READYZ).status == 503, "a store that fails")
        assert process.stop() == 0
    caller = restarted(process, caller)
    assert caller.finish(run_id)["status"] == "completed"
    events = [frame.data for frame in caller.frames(run_id)]
    assert [event["sequence"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_signal_stops_at_once(process: HostProcess, journal: Journal, second: int) -> None:
    caller = started(process, shutdown_s=600)
    run_id = caller.start(waiting_suite(3), GATED)
    journal.wait_for(3)
    process.signal(signal.SIGTERM)
    eventually(lambda: caller.get(READYZ).status == 503, "a host that stops")
    process.signal(second)
    assert process.wait() == 0
    journal.open_gate()
    caller = restarted(process, caller)
    assert caller.finish(run_id)["status"] == "completed"
