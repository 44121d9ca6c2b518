"""Wide suites on a host: a vendor capability, without code or files of the host's."""

from pathlib import Path
from typing import Any

import pytest

from host.caller import Caller
from host.server import AGENTS, RIGHT, running_host

TASK = {"id": "greets", "input": "Hello", "checks": [{"contains": "yes"}]}


def wide(*tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"evalwright": 1, "name": "desk", "tasks": list(tasks or (TASK,)), **fields}


def test_a_host_says_that_it_takes_them(newcomer: Caller) -> None:
    (offered,) = newcomer.get("/.well-known/openwop").json()["x-evalwright"].values()
    assert offered == {"supported": True, "versions": [1], "refused": ["agent", "file", "python"]}


def test_a_wide_suite_is_published_and_run_like_any_other(newcomer: Caller) -> None:
    checks = [{"contains": "yes"}, {"not": {"contains": "no"}}]
    document = wide(TASK | {"checks": checks, "repeat": 2})
    reply = newcomer.post("/v1/suites", document)
    assert (reply.status, reply.json()["evalSuiteRef"]) == (201, "local.evals.desk@0.0.0")
    body = {"mode": "eval", "evalSuiteRef": "local.evals.desk@0.0.0", "agentId": RIGHT}
    run_id = newcomer.post("/v1/runs", body).json()["runId"]
    assert newcomer.finish(run_id)["status"] == "completed"
    summary = newcomer.get(f"/v1/runs/{run_id}/eval-summary").json()
    assert (summary["taskCount"], summary["passedCount"]) == (1, 1)


@pytest.mark.parametrize(
    "document",
    [
        wide(agent="agent.py:answer"),
        wide(data=[{"file": "/etc/passwd", "checks": [{"contains": "x"}]}]),
        wide(TASK | {"checks": [{"python": "checks.py:is_polite"}]}),
        wide(TASK | {"checks": [{"not": {"python": "checks.py:is_polite"}}]}),
        wide(TASK | {"checks": [{"contans": "yes"}]}),
    ],
    ids=["an agent", "a file", "own code", "own code within a check", "no check"],
)
def test_what_would_use_something_of_the_hosts_is_refused(
    newcomer: Caller, document: dict[str, Any]
) -> None:
    reply = newcomer.post("/v1/suites", document)
    assert (reply.status, reply.json()["error"]) == (400, "validation_error")


def test_checks_that_need_a_judge_are_refused_by_a_host_without_one(newcomer: Caller) -> None:
    judged = wide(TASK | {"checks": [{"judge": ["is polite"]}]}, version="1.0.0")
    assert newcomer.post("/v1/suites", judged).status == 201
    body = {"mode": "eval", "evalSuiteRef": "local.evals.desk@1.0.0", "agentId": RIGHT}
    reply = newcomer.post("/v1/runs", body)
    assert reply.status == 400
    assert "needs a judge" in str(reply.json())


def test_what_an_operator_claims_of_an_agent_counts_as_a_claim(tmp_path: Path) -> None:
    claimed = {**AGENTS[RIGHT], "tools": "none"}
    settings = {"agents": {**AGENTS, "acme.claimed": claimed}}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        caller = served.caller()
        caller.post("/v1/suites", wide(TASK | {"checks": [{"does_not_call": "refund"}]}))
        for agent_id, passed in ((RIGHT, 0), ("acme.claimed", 1)):
            body = {"mode": "eval", "evalSuiteRef": "local.evals.desk@0.0.0", "agentId": agent_id}
            run_id = caller.post("/v1/runs", body).json()["runId"]
            assert caller.finish(run_id)["status"] == "completed"
            summary = caller.get(f"/v1/runs/{run_id}/eval-summary").json()
            assert summary["passedCount"] == passed
