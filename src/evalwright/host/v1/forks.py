"""Forks: a run replayed from its record, or branched at one of its events."""

from typing import Any

from starlette.responses import Response

from evalwright.contracts.errors import Problem
from evalwright.contracts.run_plan import from_configurable
from evalwright.host.access.quotas import RUN
from evalwright.host.http.errors import invalid
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.runs.forks import ForkRequest, Overlay
from evalwright.host.telemetry import ForkOrigin
from evalwright.host.v1.admission import check_configurable, check_metadata
from evalwright.host.v1.create import CREATE_BODY, TAGS, announced, owner_of
from evalwright.host.v1.schemas import (
    ID,
    IDEMPOTENCY_KEY,
    OBJECT,
    RUN_ID,
    STATUSES,
    TEXT,
    WHOLE,
    Schema,
    closed,
    opened,
    refusals,
)

TAG = "runs"

# Options that the facts copied by a branch depend on.
_FIXED = ("evalModes", "baselineRunId", "agentVersion", "agentChannel", "allowMismatch")
_MODE: Schema = {"enum": ["replay", "branch"]}

BODY: Schema = closed(
    {
        "mode": _MODE,
        "fromSeq": WHOLE,
        "runOptionsOverlay": closed(
            {
                "configurable": CREATE_BODY["properties"]["configurable"],
                "tags": TAGS,
                "metadata": OBJECT,
            }
        ),
    },
    ("mode",),
) | {
    "if": {"properties": {"mode": {"const": "branch"}}, "required": ["mode"]},
    "then": {"required": ["fromSeq"]},
    "else": {"properties": {"runOptionsOverlay": {"maxProperties": 0}}},
}
FORKED: Schema = opened(
    {
        "runId": ID,
        "sourceRunId": ID,
        "fromSeq": WHOLE,
        "mode": _MODE,
        "status": {"enum": list(STATUSES)},
        "eventsUrl": TEXT,
    },
    ("runId", "sourceRunId", "fromSeq", "mode", "status", "eventsUrl"),
)


async def fork_run(call: ApiCall) -> Response:
    """Create a run from another one."""
    body = call.body
    request = ForkRequest(
        source=call.path["runId"],
        mode=body["mode"],
        from_sequence=body.get("fromSeq", 0),
        caller=owner_of(call.principal),
        overlay=_overlay(call, body.get("runOptionsOverlay") or {}),
        traceparent=call.trace.headers().get("traceparent"),
    )
    is_replay = request.mode == "replay"
    status = await call.host.runs.status(call.run) if is_replay else "running"
    copied = await call.in_reader(lambda: call.log.facts(request.source).bytes)
    await call.room.need(copied)
    run = await call.new_run()
    response = _forked(run.run_id, request, status)
    fork = ForkOrigin(request.source, request.from_sequence, request.mode)
    exports = call.host.exports
    with exports.hold(), exports.hold_for(run.tenant), announced(call, run, fork):
        await call.host.forks.fork(run, request, call.completion(response))
    return response


def _overlay(call: ApiCall, given: dict[str, Any]) -> Overlay:
    configurable = given.get("configurable", {})
    check_configurable(call, configurable)
    check_metadata(given.get("metadata"))
    message = "cannot be changed in a branch: its copied facts depend on it; start a new run"
    problems = [
        Problem(f"$.runOptionsOverlay.configurable.{name}", message)
        for name in _FIXED
        if name in configurable
    ]
    if problems:
        raise invalid(problems)
    return Overlay(
        configurable=configurable,
        tags=given.get("tags"),
        metadata=given.get("metadata"),
        settings=from_configurable(configurable),
    )


def _forked(run_id: str, request: ForkRequest, status: str) -> Response:
    body = {
        "runId": run_id,
        "sourceRunId": request.source,
        "fromSeq": request.from_sequence,
        "mode": request.mode,
        "status": status,
        "eventsUrl": f"/v1/runs/{run_id}/events",
    }
    return json_response(body, 201, {"Location": f"/v1/runs/{run_id}"})


ROUTES = [
    Route(
        "POST",
        "/v1/runs/{runId}:fork",
        fork_run,
        ApiOperation(
            id="forkRun",
            summary="Replay a run from its record, or branch it at an event.",
            tag=TAG,
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            body=BODY,
            answers={
                201: ResponseDoc("The new run.", FORKED),
                **refusals(404, 409, 422, 501, with_body=True),
            },
        ),
        ("runs:create", "runs:read"),
        stores=RUN,
        all_scopes=True,
    )
]
