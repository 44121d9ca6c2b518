"""A host from its first start: what it says, and what it serves without any settings."""

from builders import a_suite
from host.caller import Caller
from host.server import HostProcess


def test_a_run_goes_from_its_creation_to_its_summary(caller: Caller):
    run_id = caller.evaluate(a_suite(3))
    summary = caller.get(f"/v1/runs/{run_id}/eval-summary").json()
    assert (summary["passedCount"], summary["taskCount"], summary["passed"]) == (3, 3, True)


def test_the_command_serves_until_it_is_told_to_stop(process: HostProcess):
    process.start()
    caller = process.caller()
    run_id = caller.evaluate(a_suite(2))
    assert caller.snapshot(run_id)["status"] == "completed"
    assert process.stop() == 0
