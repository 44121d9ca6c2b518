"""Whose a run is, and that nobody else reads it."""

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import RunNotFound
from evalwright.host.errors import ApiError
from evalwright.host.principal import Principal
from evalwright.host.routing import ApiCall, json_response
from evalwright.host.v1.conformance.seams import read_seam, seam
from evalwright.host.v1.conformance.workflows import NOOP, run_started
from evalwright.host.v1.schemas import closed, ref
from evalwright.host.v1.shapes import Snapshot, snapshot

_SNAPSHOT = ref("RunSnapshot")


async def _new_run(call: ApiCall, owner: Principal) -> str:
    log = call.host.log.for_tenant(owner.partition)
    started = run_started(owner, NOOP, {})
    return await call.host.runs.start_workflow(log, owner.tenant, started)


def _read(call: ApiCall, reader: Principal, run_id: str) -> Snapshot:
    log = call.host.log.for_tenant(reader.partition)
    return snapshot(log, run_id, call.host.runs.status(log, run_id))


async def owned_run(call: ApiCall) -> Response:
    """A run of the caller, made for this."""
    run_id = await _new_run(call, call.principal)
    return json_response(_read(call, call.principal, run_id))


async def cross_workspace_read(call: ApiCall) -> Response:
    """Let one workspace of the caller's tenant read a run of another, which has to fail.

    Elsewhere such a run is not there (404); here that would look as if the seam were not.
    """
    here, there = (
        msgspec.structs.replace(call.principal, workspace=name)
        for name in ("conformance-a", "conformance-b")
    )
    run_id = await _new_run(call, there)
    try:
        return json_response(_read(call, here, run_id))
    except RunNotFound:
        raise ApiError(403, "run_forbidden", "the run is another workspace's") from None


ROUTES = [
    read_seam(
        "identity/owned-run",
        owned_run,
        "readOwnedRun",
        "A run of the caller, with its owner.",
        _SNAPSHOT,
        scope="runs:create",
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
