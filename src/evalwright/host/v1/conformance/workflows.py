"""The workflows of the suite on the wire: started like any run, and read as definitions."""

from typing import Any

from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.events import RunStarted
from evalwright.contracts.planning import Owner
from evalwright.host.errors import ApiError, invalid
from evalwright.host.principal import Principal
from evalwright.host.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.v1.conformance.seams import TAG
from evalwright.host.v1.creation import answered
from evalwright.host.v1.schemas import ID, NAME, OBJECT, listed, opened, refusals
from evalwright.host.workflows import WORKFLOWS, Workflow

NOOP = "conformance-noop"


async def create_workflow_run(call: ApiCall) -> Response | None:
    """Start a run of a workflow; None where there is no such workflow."""
    body = call.body
    workflow = WORKFLOWS.get(body["workflowId"])
    if workflow is None:
        return None
    inputs = body.get("inputs") or {}
    problem = workflow.problem(inputs)
    if problem is not None:
        raise invalid([problem])
    started = run_started(
        call.principal,
        workflow.workflow_id,
        inputs,
        tags=body.get("tags") or None,
        metadata=body.get("metadata"),
    )
    return await answered(
        call,
        lambda changes: call.host.runs.start_workflow(
            call.log, call.principal.tenant, started, changes
        ),
    )


def run_started(
    principal: Principal,
    workflow_id: str,
    inputs: dict[str, Any],
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> RunStarted:
    """What a run of somebody begins with."""
    return RunStarted(
        workflow_id,
        inputs or None,
        transport="rest",
        engine_version=__version__,
        owner=Owner(principal.tenant, principal.workspace, principal.principal),
        tags=tags,
        metadata=metadata,
    )


async def read_workflow(call: ApiCall) -> Response:
    """The definition of a workflow."""
    workflow = WORKFLOWS.get(call.path["workflowId"])
    if workflow is None:
        raise ApiError(404, "not_found", "there is no such workflow")
    return json_response(definition(workflow))


def definition(workflow: Workflow) -> dict[str, Any]:
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


ROUTES = [
    Route(
        "GET",
        "/v1/workflows/{workflowId}",
        read_workflow,
        ApiOperation(
            id="getWorkflow",
            summary="The definition of a workflow.",
            tag=TAG,
            parameters=({"in": "path", "name": "workflowId", "required": True, "schema": NAME},),
            answers={
                200: ResponseDoc(
                    "The workflow.", opened({"id": ID, "nodes": listed(OBJECT)}, ("id",))
                ),
                **refusals(404),
            },
        ),
        ("runs:create", "runs:read"),
    )
]
