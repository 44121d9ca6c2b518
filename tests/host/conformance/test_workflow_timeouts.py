"""The time that a run of a workflow may take: `runTimeoutMs`, and at most what the host allows."""

from pathlib import Path

import pytest

from evalwright_conformance import EXTENSION
from host.caller import Caller
from host.conformance.fixture_runs import LONG, SHORT, create, pause, start, types
from host.server import running_host


def test_a_run_that_takes_too_long_fails_and_says_so(newcomer: Caller):
    configurable = {"runTimeoutMs": 60, "note": "kept"}
    run_id = start(newcomer, "cancellable", LONG, configurable=configurable)
    snapshot = newcomer.finish(run_id)
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "run_timeout")
    assert snapshot["configurable"] == configurable
    *_, breached, failed = newcomer.frames(run_id)
    assert (breached.name, failed.name) == ("cap.breached", "run.failed")
    breach = breached.data["payload"]
    assert (breach["kind"], breach["limit"]) == ("run-duration", 60)
    assert breach["observed"] >= 60


def test_a_run_that_ends_in_time_is_not_disturbed(newcomer: Caller):
    run_id = start(newcomer, "delay", SHORT, configurable={"runTimeoutMs": 60_000})
    assert newcomer.finish(run_id)["status"] == "completed"
    assert "cap.breached" not in types(newcomer, run_id)


def test_more_than_the_host_allows_is_cut_down_to_that(tmp_path: Path):
    settings = {"agents": {}, "run_timeout_s": 0.05}
    with running_host(tmp_path / "host.db", settings=settings, extension=EXTENSION) as served:
        caller = served.caller()
        for configurable in ({"runTimeoutMs": 3_600_000}, {}):
            run_id = start(caller, "cancellable", LONG, configurable=configurable)
            assert caller.finish(run_id)["error"]["code"] == "run_timeout"
            [breach] = [each for each in caller.frames(run_id) if each.name == "cap.breached"]
            assert breach.data["payload"]["limit"] == 50


def test_time_goes_on_while_a_run_is_paused(newcomer: Caller):
    run_id = start(newcomer, "cancellable", LONG, configurable={"runTimeoutMs": 1_000})
    assert pause(newcomer, run_id, "immediate").status == 202
    assert newcomer.finish(run_id)["error"]["code"] == "run_timeout"


@pytest.mark.parametrize("given", [0, -1, "60", 1.5])
def test_what_is_no_time_is_refused(newcomer: Caller, given: object):
    reply = create(newcomer, "noop", configurable={"runTimeoutMs": given})
    assert reply.refusal == (400, "validation_error")


def test_a_workflow_cannot_be_branched_and_that_is_not_advertised(newcomer: Caller):
    document = newcomer.get("/.well-known/openwop").json()
    assert document["replay"] == {"supported": True, "modes": ["replay"]}
    run_id = start(newcomer, "noop")
    newcomer.finish(run_id)
    body = {"mode": "branch", "fromSeq": 0}
    reply = newcomer.post(f"/v1/runs/{run_id}:fork", body)
    assert reply.refusal == (501, "capability_not_provided")
    assert newcomer.post(f"/v1/runs/{run_id}:fork", {"mode": "replay"}).status == 201
