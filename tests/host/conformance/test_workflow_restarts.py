"""Runs of workflows that outlive the process that began them."""

from host.conformance.fixture_runs import pause, resume, start_node, types, wait_for
from host.server import HostProcess

WAIT = {"delayMs": 1_500}


def test_a_run_that_was_interrupted_goes_on_at_the_next_start(process: HostProcess):
    process.start("--conformance")
    run_id = start_node(process.caller(), WAIT)
    process.kill()
    process.start("--conformance")
    assert_it_goes_on(process, run_id)
    process.stop()


def test_a_host_without_the_workflow_leaves_its_run_to_one_that_has_it(process: HostProcess):
    process.start("--conformance")
    run_id = start_node(process.caller(), WAIT)
    process.kill()
    process.start()
    caller = process.caller()
    assert caller.snapshot(run_id)["status"] == "running"
    assert types(caller, run_id) == ["run.started", "node.started"]
    assert process.stop() == 0
    process.start("--conformance")
    assert_it_goes_on(process, run_id)
    process.stop()


def test_a_host_without_the_workflow_can_cancel_its_run(process: HostProcess):
    process.start("--conformance")
    run_id = start_node(process.caller(), WAIT)
    process.kill()
    process.start()
    caller = process.caller()
    assert caller.post(f"/v1/runs/{run_id}/cancel", {}).json()["status"] == "cancelled"
    assert types(caller, run_id)[-1] == "run.cancelled"
    process.stop()


def assert_it_goes_on(process: HostProcess, run_id: str) -> None:
    caller = process.caller()
    assert caller.finish(run_id)["status"] == "completed"
    assert types(caller, run_id) == [
        "run.started",
        "node.started",
        "node.started",
        "node.completed",
        "run.completed",
    ]


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
