"""Creating runs: evaluations, and the workflows of the conformance suite."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from evalwright.contracts.planning import Origin, Owner, from_configurable
from evalwright.host.deployments.refusals import DeploymentRefusal
from evalwright.host.errors import ApiError
from evalwright.host.evaluation import ALL_MODES, EvalRequest
from evalwright.host.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.runs import Changes
from evalwright.host.telemetry import ForkOrigin, RunOrigin
from evalwright.host.v1.admission import ScopeClaim, check_request
from evalwright.host.v1.deployments import api_error
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    IDEMPOTENCY_KEY,
    NAME,
    OBJECT,
    TEXT,
    closed,
    listed,
    opened,
    refusals,
)
from evalwright.store.records import RecordChange, RecordConflict

TAG = "runs"

TAGS = listed({"type": "string", "minLength": 1, "maxLength": 256}, maxItems=100)
_MODES = listed({"enum": list(ALL_MODES)}, uniqueItems=True)
CREATE_BODY = closed(
    {
        "mode": {"enum": ["eval"]},
        "evalSuiteRef": {"type": "string", "minLength": 1, "maxLength": 512},
        "agentId": NAME,
        "workflowId": NAME,
        "inputs": OBJECT,
        "tenantId": TEXT,
        "scopeId": ID,
        "callbackUrl": TEXT,
        "configurable": opened(
            {
                "evalModes": _MODES,
                "baselineRunId": ID,
                "agentVersion": {"type": "string", "minLength": 1, "maxLength": 64},
                "agentChannel": {"type": "string", "minLength": 1, "maxLength": 64},
                "allowMismatch": FLAG,
                "concurrency": {"type": "integer", "minimum": 1, "maximum": 10_000},
                "runTimeoutMs": {"type": "integer", "minimum": 1},
                "taskTimeoutMs": {"type": "integer", "minimum": 1},
                "maxCostUsd": {"type": "number", "exclusiveMinimum": 0},
            }
        ),
        "tags": TAGS,
        "metadata": OBJECT,
    }
) | {
    "if": {"properties": {"mode": {"const": "eval"}}, "required": ["mode"]},
    "then": {"required": ["evalSuiteRef", "agentId"]},
    "else": {"required": ["workflowId"]},
}
_DEDUP = {
    "in": "header",
    "name": "X-Dedup",
    "required": False,
    "schema": {"enum": ["enforce"]},
    "description": "Refuse the run while another one of the same scopeId is active.",
}
_ENGINE_VERSION = {
    "in": "header",
    "name": "X-Force-Engine-Version",
    "required": False,
    "schema": TEXT,
    "description": "Only with a test key.",
}
CREATED = opened(
    {
        "runId": ID,
        "status": {
            "enum": ["pending", "running", "waiting-approval", "waiting-input", "waiting-external"]
        },
        "eventsUrl": TEXT,
        "statusUrl": TEXT,
    },
    ("runId", "status", "eventsUrl"),
)


async def create(call: ApiCall) -> Response:
    """Create a run; an evaluation, or one of the workflows of the conformance suite."""
    body = call.body
    check_request(call)
    scope = ScopeClaim(call)
    if body.get("mode") != "eval":
        return await _create_workflow(call)
    configurable: dict[str, Any] = body.get("configurable") or {}
    request = EvalRequest(
        suite_ref=body["evalSuiteRef"],
        agent_id=body["agentId"],
        origin=_origin(call, configurable),
        options=from_configurable(configurable, body.get("tags") or ()),
        agent_version=_version(call, configurable),
        agent_channel=configurable.get("agentChannel"),
    )
    planned = await asyncio.to_thread(
        call.host.planner.plan, call.log, call.principal.tenant, request
    )

    def start(changes: Changes) -> Awaitable[str]:
        return call.host.runs.start(call.log, call.principal.tenant, planned, changes)

    try:
        return await answered(call, start, also=scope.changes)
    except RecordConflict:
        raise scope.lost() from None


async def answered(
    call: ApiCall,
    start: Callable[[Changes], Awaitable[str]],
    told: ForkOrigin | None = None,
    respond: Callable[[str], Response] | None = None,
    also: Callable[[str], list[RecordChange]] = lambda _: [],
) -> Response:
    """Start a run, and record the answer to an idempotent request in the same transaction."""
    answer: list[tuple[str, Response]] = []
    telemetry = call.host.telemetry

    def changes(run_id: str) -> list[RecordChange]:
        response = (respond or created)(run_id)
        answer.append((run_id, response))
        traced = RunOrigin(call.correlation_id, call.trace, told)
        telemetry.expect(run_id, call.principal.tenant, traced)
        kept = [call.ticket.completion(response)] if call.ticket else []
        return [*kept, *also(run_id)]

    try:
        await start(changes)
    except BaseException:
        for run_id, _ in answer:
            telemetry.forget(run_id)
        raise
    return answer[0][1]


def created(run_id: str) -> Response:
    """The answer to a request that made a run."""
    body = {
        "runId": run_id,
        "status": "running",
        "eventsUrl": f"/v1/runs/{run_id}/events",
        "statusUrl": f"/v1/runs/{run_id}",
    }
    return json_response(body, 201, {"Location": f"/v1/runs/{run_id}"})


def _origin(call: ApiCall, configurable: dict[str, Any]) -> Origin:
    principal = call.principal
    return Origin(
        owner=Owner(principal.tenant, principal.workspace, principal.principal),
        metadata=call.body.get("metadata"),
        configurable=configurable or None,
        traceparent=call.trace.headers().get("traceparent"),
    )


def _version(call: ApiCall, configurable: dict[str, Any]) -> str | None:
    channel = configurable.get("agentChannel")
    if channel is None:
        version: str | None = configurable.get("agentVersion")
        return version
    try:
        return call.host.deployments.resolve(
            call.principal.tenant,
            call.body["agentId"],
            channel,
            random.random(),  # noqa: S311 - no secret
        )
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None


async def _create_workflow(call: ApiCall) -> Response:
    if call.host.is_conformance:
        from evalwright.host.v1.conformance import create_workflow_run

        found = await create_workflow_run(call)
        if found is not None:
            return found
    raise ApiError(404, "not_found", "there is no such workflow; this host runs mode eval")


ROUTES = [
    Route(
        "POST",
        "/v1/runs",
        create,
        ApiOperation(
            id="createRun",
            summary="Create a run; with mode eval, evaluate an agent by a suite.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY, _DEDUP, _ENGINE_VERSION),
            body=CREATE_BODY,
            answers={
                201: ResponseDoc("The run exists and is being executed.", CREATED),
                **refusals(404, 409, 501, with_body=True),
            },
        ),
        ("runs:create",),
    ),
]
