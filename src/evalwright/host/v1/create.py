"""Creating runs: evaluations, and workflows that an extension adds to the host."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.errors import Problem
from evalwright.contracts.events import RunStarted
from evalwright.contracts.run_plan import Origin, Owner, from_configurable
from evalwright.engine.isolation import EXPLANATIONS
from evalwright.host.access.principal import Principal
from evalwright.host.access.quotas import RUN
from evalwright.host.deployments.model import DeploymentRefusal
from evalwright.host.http.errors import ApiError, invalid, shown_problem
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.runs.handle import RunHandle
from evalwright.host.runs.planning import ALL_MODES, EvalRequest, PlannedEvaluation
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
from evalwright.store.records import RecordConflict

TAG = "runs"

TAGS = listed({"type": "string", "minLength": 1, "maxLength": 256}, maxItems=100)
_MODES = listed({"enum": list(ALL_MODES)}, minItems=1, uniqueItems=True)
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
                "taskCostUsd": {"type": "number", "exclusiveMinimum": 0},
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
    "description": "Refuse the run while another one with the same scopeId is active.",
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
        "warnings": listed(OBJECT),
    },
    ("runId", "status", "eventsUrl"),
)


async def create(call: ApiCall) -> Response:
    """Create a run of a suite, or of a workflow."""
    body = call.body
    check_request(call)
    scope = ScopeClaim(call)
    await scope.refuse_active()
    if body.get("mode") != "eval":
        return await _create_workflow(call)
    configurable: dict[str, Any] = body.get("configurable") or {}
    request = EvalRequest(
        suite_ref=body["evalSuiteRef"],
        agent_id=body["agentId"],
        origin=_origin(call, configurable),
        options=from_configurable(configurable, body.get("tags") or ()),
        agent_version=await _version(call, configurable),
        agent_channel=configurable.get("agentChannel"),
    )
    planned = await asyncio.to_thread(
        call.host.planner.plan, call.log, call.principal.partition, request
    )
    await take_room(call, planned)
    run = await call.new_run()
    response = created(run, planned.warnings)
    changes = [*call.completion(response), *scope.changes(run.run_id)]
    with announced(call, run):
        try:
            await call.host.runs.start(run, planned, changes)
        except RecordConflict:
            raise await scope.lost() from None
    return response


async def take_room(call: ApiCall, planned: PlannedEvaluation) -> None:
    """Take the room for the start of a run, which holds its suite; raises `ApiError` 403."""
    await call.room.need(len(msgspec.json.encode(planned.plan.suite)))


@contextmanager
def announced(call: ApiCall, run: RunHandle, fork: ForkOrigin | None = None) -> Iterator[None]:
    """Tell telemetry the origin of a run that is created in this context."""
    telemetry = call.host.telemetry
    telemetry.expect(run.run_id, run.tenant, RunOrigin(call.correlation_id, call.trace, fork))
    try:
        yield
    except BaseException:
        telemetry.forget(run.run_id)
        raise


def created(run: RunHandle, warnings: Sequence[Problem] = ()) -> Response:
    """The response to a request that creates a run."""
    run_id = run.run_id
    warned = {"warnings": [shown_problem(each) for each in warnings]} if warnings else {}
    body = {
        "runId": run_id,
        "status": "running",
        "eventsUrl": f"/v1/runs/{run_id}/events",
        "statusUrl": f"/v1/runs/{run_id}",
        **warned,
    }
    return json_response(body, 201, {"Location": f"/v1/runs/{run_id}"})


def _origin(call: ApiCall, configurable: dict[str, Any]) -> Origin:
    return Origin(
        owner=owner_of(call.principal),
        metadata=call.body.get("metadata"),
        configurable=configurable or None,
        traceparent=call.trace.headers().get("traceparent"),
    )


async def _version(call: ApiCall, configurable: dict[str, Any]) -> str | None:
    channel = configurable.get("agentChannel")
    if channel is None:
        version: str | None = configurable.get("agentVersion")
        return version
    try:
        return await call.read_soon(
            lambda: call.host.deployments.resolve(
                call.principal.tenant,
                call.body["agentId"],
                channel,
                random.random(),  # noqa: S311 - no secret
            )
        )
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None


async def _create_workflow(call: ApiCall) -> Response:
    body = call.body
    workflow = call.host.extension.workflows.get(body["workflowId"])
    if workflow is None:
        raise ApiError(404, "not_found", "no such workflow; this host runs mode eval")
    inputs = body.get("inputs") or {}
    problem = workflow.problem(inputs)
    if problem is not None:
        raise invalid([problem])
    started = run_started(
        call.principal,
        body["workflowId"],
        workflow.used(inputs),
        tags=[tag for tag in body.get("tags") or () if tag not in EXPLANATIONS] or None,
        metadata=body.get("metadata"),
        configurable=body.get("configurable") or None,
    )
    run = await call.new_run()
    response = created(run)
    with announced(call, run):
        await call.host.runs.start_workflow(run, started, call.completion(response))
    return response


def run_started(
    principal: Principal, workflow_id: str, inputs: dict[str, Any], **more: Any
) -> RunStarted:
    """The first event of a run of a workflow."""
    return RunStarted(
        workflow_id,
        inputs or None,
        transport="rest",
        engine_version=__version__,
        owner=owner_of(principal),
        **more,
    )


def owner_of(principal: Principal) -> Owner:
    """The owner of the runs that a principal creates."""
    return Owner(principal.tenant, principal.workspace, principal.principal)


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
                201: ResponseDoc("The run is created and being executed.", CREATED),
                **refusals(404, 409, 501, with_body=True),
            },
        ),
        ("runs:create",),
        stores=RUN,
    ),
]
