"""Calls about versions of agents that go live, and the people who let them."""

from typing import Literal

from evalwright.client.answers import Deployment, RunStatus
from evalwright.client.exchange import Flow, get, post, quoted

Transition = Literal["promote", "pause", "deprecate", "rollback", "adjust-canary"]


def deployments(agent_id: str) -> Flow[list[Deployment]]:
    """The versions of an agent, and where each stands."""
    answer = yield get(f"/v1/agents/{quoted(agent_id)}/deployments")
    return answer.read(list[Deployment])


def transition(
    agent_id: str,
    version: str,
    transition: Transition,
    *,
    to_state: str | None = None,
    channel: str | None = None,
    canary_percent: int | None = None,
    eval_run_id: str | None = None,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Flow[Deployment]:
    """Promote, pause, deprecate or roll back a version, or change its share."""
    body = {
        "version": version,
        "transition": transition,
        "toState": to_state,
        "channel": channel,
        "canaryPercent": canary_percent,
        "evalRunId": eval_run_id,
        "reason": reason,
    }
    path = f"/v1/agents/{quoted(agent_id)}/deployments"
    answer = yield post(path, body, idempotency_key)
    return answer.read(Deployment)


def respond(
    run_id: str,
    node_id: str,
    action: Literal["accept", "reject", "override"],
    *,
    reason: str | None = None,
) -> Flow[RunStatus]:
    """Answer what a run waits for, such as the approval of a promotion."""
    value = {"action": action, **({"reason": reason} if reason is not None else {})}
    path = f"/v1/runs/{quoted(run_id)}/interrupts/{quoted(node_id)}"
    answer = yield post(path, {"resumeValue": value})
    return answer.read(RunStatus)
