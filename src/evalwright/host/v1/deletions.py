"""Deleting runs and suites; what is in use or needed is kept."""

import asyncio

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import RunBusy, RunPruned
from evalwright.host.access.quotas import FREE
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route
from evalwright.host.runs.handle import ENDED
from evalwright.host.runs.retention import delete_run
from evalwright.host.v1.schemas import IDEMPOTENCY_KEY, NAME, RUN_ID, refusals
from evalwright.store.protocol import RunFilter


async def remove_run(call: ApiCall) -> Response:
    """Delete a run that has ended, with its annotations; repeating it changes nothing."""
    run_id = call.path["runId"]
    try:
        status = await call.host.runs.status(call.run)
        if status not in ENDED:
            message = f"the run is {status}; cancel it, or wait for its end"
            raise ApiError(409, "conflict", message, {"runStatus": status})
        await asyncio.wrap_future(call.host.log.try_out())  # else a thread would wait for long
        needed = await call.in_reader(lambda: delete_run(call.log, run_id))
    except RunPruned:
        return Response(status_code=204)
    except RunBusy:
        raise ApiError(409, "conflict", "the run is in use; retry later") from None
    if needed is not None:
        raise ApiError(409, "conflict", f"the run cannot be deleted: {needed}", {"reason": needed})
    call.audit("runs.delete", "workspace:write", f"run:{run_id}")
    return Response(status_code=204)


async def remove_suite(call: ApiCall) -> Response:
    """Delete a published suite; repeating it changes nothing."""
    ref = f"{call.path['suiteId']}@{call.path['version']}"
    needed = await asyncio.to_thread(_why_needed, call, ref)
    if needed is not None:
        message = f"the suite cannot be deleted: {needed}"
        raise ApiError(409, "conflict", message, {"reason": needed})
    if not await call.host.catalogue.unpublish(call.principal.place, ref):
        raise ApiError(404, "not_found", "no such suite")
    call.audit("suites.delete", "suites:write", f"suite:{ref}")
    return Response(status_code=204)


def _why_needed(call: ApiCall, ref: str) -> str | None:
    """Why a suite cannot be deleted: it belongs to somebody else, or a run has not ended."""
    catalogue, principal = call.host.catalogue, call.principal
    if catalogue.is_bundled(ref):
        return "it belongs to the host"
    if ref in catalogue.pack_suites(principal.tenant):
        return "it belongs to an installed pack"
    for is_test in (False, True):
        partition = msgspec.structs.replace(principal, is_test=is_test).partition
        log = call.host.log.for_tenant(partition)
        for run in log.find_runs(RunFilter(suite=ref, has_ended=False), limit=1):
            return f"run {run.run_id} has not ended"
    return None


ROUTES = [
    Route(
        "DELETE",
        "/v1/runs/{runId}",
        remove_run,
        ApiOperation(
            id="deleteRun",
            summary="Delete a run that has ended.",
            tag="runs",
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            answers={204: ResponseDoc("The run is deleted."), **refusals(400, 404, 409)},
        ),
        ("workspace:write",),
        stores=FREE,
    ),
    Route(
        "DELETE",
        "/v1/suites/{suiteId}@{version}",
        remove_suite,
        ApiOperation(
            id="deleteSuite",
            summary="Delete a published suite.",
            tag="suites",
            parameters=(
                {"in": "path", "name": "suiteId", "required": True, "schema": NAME},
                {"in": "path", "name": "version", "required": True, "schema": NAME},
                IDEMPOTENCY_KEY,
            ),
            answers={204: ResponseDoc("The suite is deleted."), **refusals(400, 404, 409)},
        ),
        ("suites:write",),
        stores=FREE,
    ),
]
