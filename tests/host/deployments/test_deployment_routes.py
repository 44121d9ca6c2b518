"""Deployments over HTTP: a real host, plain requests, and the client that others wrote."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from openwop_client import OpenwopClient
from openwop_client.types import AgentDeploymentTransition, ResolveInterruptRequest

from builders import AGENT_ID, a_suite
from host.caller import Caller, Reply
from host.server import WRONG, ServedHost, running_host

PATH = f"/v1/agents/{AGENT_ID}/deployments"
PROMOTE = {"version": "1.0.0", "transition": "promote"}


@pytest.fixture
def strict(tmp_path: Any) -> Iterator[ServedHost]:
    """A host whose promotions to active need an evaluation and the approval of one other key."""
    settings = {"deployments": {"approval": {"quorum": 1}}}
    with running_host(tmp_path / "strict.db", settings=settings) as served:
        yield served


def promote(caller: Caller, path: str = PATH, **fields: Any) -> Reply:
    return caller.post(path, {**PROMOTE, **fields})


def staged(caller: Caller) -> None:
    assert [promote(caller).json()["state"] for _ in range(2)] == ["test", "staged"]


def managing_run(reply: Reply) -> str:
    found = re.fullmatch(r'</v1/runs/(\S+)>; rel="monitor"', reply.headers["link"])
    assert found is not None
    return found[1]


def test_an_agent_that_passed_its_evaluation_is_promoted_and_listed(caller):
    staged(caller)
    eval_run_id = caller.evaluate(a_suite(2))
    reply = promote(caller, toState="active", channel="stable", evalRunId=eval_run_id)
    record = {
        "agentId": AGENT_ID,
        "version": "1.0.0",
        "state": "active",
        "channels": ["stable", "latest"],
        "evalRunId": eval_run_id,
    }
    assert (reply.status, reply.json()) == (200, record)
    assert caller.get(PATH).json() == [record]
    snapshot = caller.snapshot(managing_run(reply))
    assert (snapshot["workflowId"], snapshot["status"]) == ("evalwright.deployment", "completed")


def test_an_agent_that_did_not_pass_stays_where_it_is(caller):
    path = f"/v1/agents/{WRONG}/deployments"
    for _ in range(2):
        promote(caller, path)
    eval_run_id = caller.evaluate(a_suite(2), agent_id=WRONG)
    reply = promote(caller, path, evalRunId=eval_run_id)
    assert reply.refusal == (403, "eval_gate_unmet")
    assert caller.get(path).json()[0]["state"] == "staged"


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"version": "1.0.0"}, (400, "validation_error")),
        ({**PROMOTE, "transition": "launch"}, (400, "validation_error")),
        ({**PROMOTE, "note": "hello"}, (400, "validation_error")),
        ({**PROMOTE, "canaryPercent": 101}, (400, "validation_error")),
        ({**PROMOTE, "toState": "active"}, (400, "validation_error")),
        ({**PROMOTE, "version": "9.0.0"}, (400, "validation_error")),
        ({"version": "1.0.0", "transition": "pause"}, (400, "validation_error")),
    ],
)
def test_a_request_that_cannot_be_is_answered_with_400(caller, body, refusal):
    assert caller.post(PATH, body).refusal == refusal


def test_a_whole_number_may_be_written_with_a_point(caller):
    assert "not to test" in promote(caller, canaryPercent=10.0).json()["message"]


def test_an_agent_that_is_not_there_is_answered_with_404(caller):
    path = "/v1/agents/vendor.nobody.home/deployments"
    assert caller.get(path).refusal == (404, "not_found")
    assert promote(caller, path).refusal == (404, "not_found")


def test_keys_without_the_scope_are_refused_and_those_of_nobody_too(served):
    plain = served.caller(scopes=["runs:read", "approvals:respond"])
    assert plain.get(PATH).refusal == (403, "forbidden")
    reply = promote(plain)
    assert reply.refusal == (403, "forbidden")
    assert plain.snapshot(reply.json()["details"]["runId"])["status"] == "failed"
    assert served.nobody().get(PATH).refusal == (401, "unauthenticated")


def test_one_deploy_scope_is_enough_to_list_but_not_to_do_everything(served):
    key = served.caller(scopes=["deploy:pause"])
    assert key.get(PATH).status == 200
    assert promote(key).refusal == (403, "forbidden")


def test_a_promotion_waits_for_another_key_and_then_happens(strict):
    asking, answering = strict.caller(), strict.caller()
    staged(asking)
    reply = promote(asking, evalRunId=asking.evaluate(a_suite(2)))
    assert (reply.status, reply.json()["state"]) == (200, "staged")
    assert reply.json()["approvalGateId"].startswith("gate_")
    run_id = managing_run(reply)
    path = f"/v1/runs/{run_id}/interrupts/approval"
    accept = {"resumeValue": {"action": "accept"}}
    assert asking.post(path, accept).refusal == (403, "forbidden")
    answer = answering.post(path, accept)
    assert answer.json() == {"runId": run_id, "nodeId": "approval", "status": "completed"}
    assert asking.get(PATH).json()[0]["state"] == "active"
    assert answering.post(path, accept).refusal == (409, "interrupt_already_resolved")


def test_a_promotion_that_waits_is_a_run_that_waits(strict):
    caller = strict.caller()
    staged(caller)
    reply = promote(caller, evalRunId=caller.evaluate(a_suite(2)))
    assert caller.snapshot(managing_run(reply))["status"] == "waiting-approval"


def test_what_nobody_waits_for_cannot_be_answered(caller):
    path = "/v1/runs/run_nowhere/interrupts/approval"
    accept = {"resumeValue": {"action": "accept"}}
    assert caller.post(path, accept).refusal == (404, "interrupt_not_found")
    assert caller.post(path, {"resumeValue": {"action": "ask"}}).refusal == (
        400,
        "validation_error",
    )


def test_the_client_that_others_wrote_promotes_and_approves(strict):
    caller, other = strict.caller(), strict.caller()
    staged(caller)
    eval_run_id = caller.evaluate(a_suite(2))
    asking = OpenwopClient(base_url=strict.url, api_key=caller.key)
    transition = AgentDeploymentTransition(
        version="1.0.0", transition="promote", toState="active", evalRunId=eval_run_id
    )
    waiting = asking.agents_transition_deployment(AGENT_ID, transition)
    assert waiting.approvalGateId is not None
    run_id = waiting.approvalGateId.replace("gate_", "run_")
    answered = OpenwopClient(base_url=strict.url, api_key=other.key).interrupts_resolve_by_run(
        run_id, "approval", ResolveInterruptRequest({"action": "accept"})
    )
    assert answered.status == "completed"
    (record,) = asking.agents_list_deployments(AGENT_ID) or []
    assert (record.state, record.evalRunId) == ("active", eval_run_id)
