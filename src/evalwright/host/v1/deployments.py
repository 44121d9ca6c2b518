"""Deployments: listed, changed by transitions, and approved."""

import msgspec
from starlette.responses import Response

from evalwright.host.access.keys import SCOPES
from evalwright.host.access.quotas import BYTES, Stores
from evalwright.host.deployments.approvals import Ballot
from evalwright.host.deployments.model import SCOPES as TRANSITION_SCOPES
from evalwright.host.deployments.model import STATES, TransitionRequest
from evalwright.host.deployments.service import Transitioned
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.v1.schemas import ID, STATUSES, Routes, Schema, closed, listed

ROUTES = Routes("deployments")
WITHDRAWALS = ("pause", "deprecate", "rollback")

# Any key passes: the service checks the scope and records the decision.
_ANY_KEY = tuple(SCOPES)

_VERSION = _CHANNEL = {"type": "string", "minLength": 1, "maxLength": 64}
_PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}
_REASON: Schema = {"type": "string", "minLength": 1, "maxLength": 512}

RECORD: Schema = closed(
    {
        "agentId": {"type": "string", "minLength": 3, "maxLength": 256},
        "version": _VERSION,
        "state": {"enum": list(STATES)},
        "canaryPercent": _PERCENT,
        "rollbackPointer": _VERSION,
        "channels": listed(_CHANNEL, uniqueItems=True),
        "evalRunId": ID,
        "approvalGateId": ID,
    },
    ("agentId", "version", "state"),
)
TRANSITION: Schema = closed(
    {
        "version": _VERSION,
        "transition": {"enum": list(TRANSITION_SCOPES)},
        "toState": {"enum": list(STATES)},
        "channel": _CHANNEL,
        "canaryPercent": _PERCENT,
        "evalRunId": ID,
        "reason": _REASON,
    },
    ("version", "transition"),
)
ANSWER: Schema = closed(
    {
        "resumeValue": closed(
            {"action": {"enum": ["accept", "reject", "override"]}, "reason": _REASON}, ("action",)
        )
    },
    ("resumeValue",),
)
ANSWERED: Schema = closed(
    {"runId": ID, "nodeId": ID, "status": {"enum": list(STATUSES)}}, ("runId", "nodeId", "status")
)


@ROUTES.add(
    "GET",
    "/v1/agents/{agentId}/deployments",
    "listAgentDeployments",
    "deploy:promote",
    "deploy:rollback",
    "deploy:pause",
    answers={200: ResponseDoc("The records.", listed(RECORD))},
    refuses=(404,),
)
async def list_deployments(call: ApiCall) -> Response:
    """The deployments of an agent, lowest version first."""
    found = await call.host.deployments.list(call.principal.tenant, call.path["agentId"])
    return json_response(found)


@ROUTES.add(
    "POST",
    "/v1/agents/{agentId}/deployments",
    "transitionAgentDeployment",
    *_ANY_KEY,
    body=TRANSITION,
    answers={
        200: ResponseDoc("The record; with an approvalGateId while it waits for approval.", RECORD)
    },
    refuses=(404, 409),
    stores=Stores("runs", asks=True),
)
async def transition_deployment(call: ApiCall) -> Response:
    """Promote, pause, deprecate or roll back a version, or change its share."""
    # Not strictly: in JSON Schema 10.0 is an integer.
    request = msgspec.convert(call.body, TransitionRequest, strict=False)
    done = await transitioned(call, call.path["agentId"], request)
    return json_response(done.record, headers={"Link": f'</v1/runs/{done.run_id}>; rel="monitor"'})


async def transitioned(call: ApiCall, agent_id: str, request: TransitionRequest) -> Transitioned:
    """Request a transition; each is a run, and so is a refusal. Raises a `DeploymentRefusal`.

    No quota keeps a version in service that somebody who may do so takes out of it.
    """
    if request.transition not in WITHDRAWALS or not call.principal.may(request.scope):
        await call.room.need(len(call.raw), "runs")
    return await call.host.deployments.request(call.principal, agent_id, request)


@ROUTES.add(
    "POST",
    "/v1/runs/{runId}/interrupts/{nodeId}",
    "resolveInterruptByRun",
    *_ANY_KEY,
    body=ANSWER,
    answers={200: ResponseDoc("The status of the run.", ANSWERED)},
    refuses=(404, 409),
    stores=BYTES,
)
async def resolve_interrupt(call: ApiCall) -> Response:
    """Accept, reject or override the approval that a run waits for."""
    ballot = msgspec.convert(call.body["resumeValue"], Ballot)
    run_id, node_id = call.path["runId"], call.path["nodeId"]
    status = await call.host.deployments.vote(call.principal, run_id, node_id, ballot)
    return json_response({"runId": run_id, "nodeId": node_id, "status": status})
