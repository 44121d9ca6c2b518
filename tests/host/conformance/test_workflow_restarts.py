"""Runs of workflows that outlive the process that began them."""

import pytest

from host.conformance.fixture_runs import pause, resume, start_node, types, wait_for
from host.server import HostProcess

WAIT = {"delayMs": 1_500}


@pytest.mark.parametrize("arguments", [("--conformance",), ()])
def test_a_run_that_was_interrupted_goes_on_at_the_next_start(
    process: HostProcess, arguments: tuple[str, ...]
):
    process.start("--conformance")
    run_id = start_node(process.caller(), WAIT)
    process.kill()
    process.start(*arguments)
    caller = process.caller()
    assert caller.finish(run_id)["status"] == "completed"
    assert types(caller, run_id) == [
        "run.started",
        "node.started",
        "node.started",
        "node.completed",
        "run.completed",
    ]
    process.stop()


def test_a_paused_run_stays_paused_until_somebody_resumes_it(process: HostProcess):
    process.start("--conformance")
    caller = process.caller()
    run_id = start_node(caller, WAIT)
    assert pause(caller, run_id, "drain-current-node").status == 202
    wait_for(caller, run_id, "paused")
    assert process.stop() == 0
    process.start("--conformance")
    caller = process.caller()
    assert caller.snapshot(run_id)["status"] == "paused"
    assert resume(caller, run_id).status == 202
    assert caller.finish(run_id)["status"] == "completed"
    assert types(caller, run_id)[-3:] == ["run.paused", "run.resumed", "run.completed"]
    process.stop()
