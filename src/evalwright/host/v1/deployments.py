"""Deployments: listed, changed by transitions, and approved."""

import msgspec
from starlette.responses import Response

from evalwright.host.access.quotas import BYTES, Stores
from evalwright.host.access.scopes import SCOPES
from evalwright.host.deployments.approvals import Ballot
from evalwright.host.deployments.model import SCOPES as TRANSITION_SCOPES
from evalwright.host.deployments.model import (
    STATES,
    Conflict,
    DeploymentRefusal,
    EvalGateUnmet,
    IllegalTransition,
    NoActiveDeployment,
    NoSuchAgent,
    NoSuchGate,
    NotAllowed,
    TransitionRequest,
)
from evalwright.host.deployments.service import Transitioned
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.v1.schemas import (
    AGENT_ID,
    ID,
    IDEMPOTENCY_KEY,
    RUN_ID,
    STATUSES,
    Schema,
    closed,
    listed,
    refusals,
)

WITHDRAWALS = ("pause", "deprecate", "rollback")

# Any key passes: the service checks the scope and records the decision.
_ANY_KEY = tuple(SCOPES)

_STATUS: dict[type[DeploymentRefusal], int] = {
    NoSuchAgent: 404,
    IllegalTransition: 400,
    NotAllowed: 403,
    EvalGateUnmet: 403,
    NoActiveDeployment: 400,
    NoSuchGate: 404,
    Conflict: 409,
}

_VERSION: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_CHANNEL: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}
_REASON: Schema = {"type": "string", "minLength": 1, "maxLength": 512}
_NODE_ID: Schema = {"in": "path", "name": "nodeId", "required": True, "schema": ID}

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


def api_error(refusal: DeploymentRefusal) -> ApiError:
    """A refusal as an error of version 1."""
    status = next(_STATUS[kind] for kind in type(refusal).__mro__ if kind in _STATUS)
    return ApiError(status, refusal.code, refusal.message, refusal.details or None)


async def list_deployments(call: ApiCall) -> Response:
    """The deployments of an agent, as a plain list."""
    try:
        records = await call.host.deployments.list(call.principal.tenant, call.path["agentId"])
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None
    return json_response(records)


async def transition_deployment(call: ApiCall) -> Response:
    """Request a transition; returns the record after it, or as it is until it is approved."""
    # Not strictly: in JSON Schema 10.0 is an integer.
    request = msgspec.convert(call.body, TransitionRequest, strict=False)
    try:
        done = await transitioned(call, call.path["agentId"], request)
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None
    return json_response(done.record, headers={"Link": f'</v1/runs/{done.run_id}>; rel="monitor"'})


async def transitioned(call: ApiCall, agent_id: str, request: TransitionRequest) -> Transitioned:
    """Request a transition; each is a run, and so is a refusal. Raises a `DeploymentRefusal`.

    No quota keeps a version in service that somebody who may do so takes out of it.
    """
    if request.transition not in WITHDRAWALS or not call.principal.may(request.scope):
        await call.room.need(len(call.raw), "runs")
    return await call.host.deployments.request(call.principal, agent_id, request)


async def resolve_interrupt(call: ApiCall) -> Response:
    """Vote on a promotion; returns the status of its run."""
    ballot = msgspec.convert(call.body["resumeValue"], Ballot)
    run_id, node_id = call.path["runId"], call.path["nodeId"]
    try:
        status = await call.host.deployments.vote(call.principal, run_id, node_id, ballot)
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None
    return json_response({"runId": run_id, "nodeId": node_id, "status": status})


_PATH = "/v1/agents/{agentId}/deployments"

ROUTES = [
    Route(
        "GET",
        _PATH,
        list_deployments,
        ApiOperation(
            id="listAgentDeployments",
            summary="The deployments of an agent, lowest version first.",
            tag="deployments",
            parameters=(AGENT_ID,),
            answers={200: ResponseDoc("The records.", listed(RECORD)), **refusals(404)},
        ),
        ("deploy:promote", "deploy:rollback", "deploy:pause"),
    ),
    Route(
        "POST",
        _PATH,
        transition_deployment,
        ApiOperation(
            id="transitionAgentDeployment",
            summary="Promote, pause, deprecate or roll back a version, or change its share.",
            tag="deployments",
            parameters=(AGENT_ID, IDEMPOTENCY_KEY),
            body=TRANSITION,
            answers={
                200: ResponseDoc(
                    "The record; with an approvalGateId while it waits for approval.", RECORD
                ),
                **refusals(404, 409, with_body=True),
            },
        ),
        _ANY_KEY,
        stores=Stores("runs", asks=True),
    ),
    Route(
        "POST",
        "/v1/runs/{runId}/interrupts/{nodeId}",
        resolve_interrupt,
        ApiOperation(
            id="resolveInterruptByRun",
            summary="Accept, reject or override the approval that a run waits for.",
            tag="deployments",
            parameters=(RUN_ID, _NODE_ID, IDEMPOTENCY_KEY),
            body=ANSWER,
            answers={
                200: ResponseDoc("The status of the run.", ANSWERED),
                **refusals(404, 409, with_body=True),
            },
        ),
        _ANY_KEY,
        stores=BYTES,
    ),
]
