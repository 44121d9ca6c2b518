"""Seams of workflows: their definitions, and whose run one is."""

from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import RunNotFound
from evalwright.engine.clock import new_run_id
from evalwright.host.access.keys import Principal
from evalwright.host.access.quotas import RUN
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.runs.handle import RunHandle
from evalwright.host.v1.create import run_started
from evalwright.host.v1.runs import Snapshot, snapshot
from evalwright.host.v1.schemas import ID, OBJECT, Routes, closed, listed, opened, ref
from evalwright_conformance.seams import TAG, read_seam, seam
from evalwright_conformance.workflows import NOOP, WORKFLOWS, FixtureWorkflow

ROUTES = Routes(TAG)

_SNAPSHOT = ref("RunSnapshot")


@ROUTES.add(
    "GET",
    "/v1/workflows/{workflowId}",
    "getWorkflow",
    "runs:create",
    "runs:read",
    answers={
        200: ResponseDoc("The workflow.", opened({"id": ID, "nodes": listed(OBJECT)}, ("id",)))
    },
    refuses=(404,),
)
async def read_workflow(call: ApiCall) -> Response:
    """The definition of a workflow."""
    workflow = WORKFLOWS.get(call.path["workflowId"])
    if workflow is None:
        raise ApiError(404, "not_found", "no such workflow")
    return json_response(definition(workflow))


def definition(workflow: FixtureWorkflow) -> dict[str, Any]:
    """A workflow as the protocol describes workflows."""
    delay = workflow.delay
    node_inputs = {"delayMs": {"type": "variable", "variableName": "delayMs"}}
    variable = {"name": "delayMs", "type": "number"}
    return {
        "id": workflow.workflow_id,
        "name": workflow.name,
        "version": "1.0.0",
        "nodes": [
            {
                "id": workflow.node_id,
                "typeId": workflow.type_id,
                "name": workflow.name,
                "position": {"x": 0, "y": 0},
                "config": {},
                "inputs": node_inputs if delay else {},
            }
        ],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": [variable | {"defaultValue": delay.default_ms}] if delay else [],
        "metadata": {"tags": [TAG]},
        "settings": {"maxRetries": 0},
    }


async def _new_run(call: ApiCall, owner: Principal) -> RunHandle:
    run = RunHandle.find(call.host.log, owner.partition, new_run_id(call.host.clock))
    await call.host.runs.start_workflow(run, run_started(owner, NOOP, {}))
    return run


async def _snapshot(call: ApiCall, run: RunHandle) -> Snapshot:
    status = await call.host.runs.status(run)
    return await run.in_reader(lambda: snapshot(run, status))


async def owned_run(call: ApiCall) -> Response:
    """A new run of the caller."""
    return json_response(await _snapshot(call, await _new_run(call, call.principal)))


async def cross_workspace_read(call: ApiCall) -> Response:
    """Let one workspace of the caller's tenant read a run of another, which must fail.

    Elsewhere such a run is not found (404); here that would look as if the seam did not exist.
    """
    here, there = (
        msgspec.structs.replace(call.principal, workspace=name)
        for name in ("conformance-a", "conformance-b")
    )
    run = await _new_run(call, there)
    try:
        seen = RunHandle.find(call.host.log, here.partition, run.run_id)
        return json_response(await _snapshot(call, seen))
    except RunNotFound:
        raise ApiError(403, "run_forbidden", "the run belongs to another workspace") from None


ROUTES += [
    read_seam(
        "identity/owned-run",
        owned_run,
        "readOwnedRun",
        "A run of the caller, with its owner.",
        _SNAPSHOT,
        scope="runs:create",
        stores=RUN,
    ),
    seam(
        "identity/cross-workspace-read",
        cross_workspace_read,
        "readAcrossWorkspaces",
        "Read a run of another workspace of the tenant, which is refused.",
        closed({}),
        _SNAPSHOT,
    ),
]
