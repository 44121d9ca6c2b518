"""Runs: listed, read, cancelled, paused and resumed."""

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import Any, get_args
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    DrainPolicy,
    Event,
    RunCompleted,
    RunFailure,
    RunPaused,
    RunStarted,
    recorded_summary,
)
from evalwright.contracts.times import iso_time
from evalwright.engine.isolation import marks_of
from evalwright.host.access.quotas import BYTES, FREE
from evalwright.host.deployments.model import DeploymentRefusal
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.runs.handle import ENDED, RunHandle, is_evaluation
from evalwright.host.v1.deployments import api_error
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    IDEMPOTENCY_KEY,
    OBJECT,
    REASON,
    RUN_ID,
    STATUSES,
    TEXT,
    TIME,
    Schema,
    closed,
    listed,
    opened,
    query,
    ref,
    refusals,
    summary_schema,
)
from evalwright.host.v1.shapes import ListedRun, listed_run, snapshot
from evalwright.store.protocol import RunFilter

MOST_LISTED = 200
SCANNED_AT_ONCE = 200  # runs in progress
MOST_CANCELLED = 100
RESULT_BYTES = 300  # of each, beside its id
TAG = "runs"

_FILTERS = {"agentId": "agent", "evalSuiteRef": "suite", "tag": "tag"}


async def list_runs(call: ApiCall) -> Response:
    """The caller's runs, newest first, by pages and with filters."""
    lists = call.host.lists
    with ExitStack() as held:
        held.enter_context(lists.hold())
        held.enter_context(lists.hold_for(call.principal.tenant))
        return json_response(await _page(call))


async def _page(call: ApiCall) -> dict[str, Any]:
    limit = call.query.get("limit", 50)
    found = await call.in_reader(partial(_matching, call, limit + 1))
    return {"runs": found[:limit], **({"next": found[-2].run_id} if len(found) > limit else {})}


def _matching(call: ApiCall, most: int) -> list[ListedRun]:
    """Runs that match the query. Whether a run is `cancelling`, say, is not in its log."""
    status, before = call.query.get("status"), call.query.get("before")
    wanted = RunFilter(
        status=status if status in ENDED else None,
        has_ended=None if status is None else status in ENDED,
        **{field: call.query.get(name) for name, field in _FILTERS.items()},
    )
    at_once = most if wanted.status == status else SCANNED_AT_ONCE
    found = list[ListedRun]()
    while len(found) < most:
        page = call.log.find_runs(wanted, at_once, before)
        listed = (listed_run(run, call.host.runs.status_of(run)) for run in page)
        found += [run for run in listed if status in (None, run.status)]
        if len(page) < at_once:
            break
        before = page[-1].run_id
    return found[:most]


_PLAIN = " !#$&'()*+,/:;<=>?@[]^_`{|}~-."  # characters of a header that need no escape


async def read(call: ApiCall) -> Response:
    """The current state of a run; 304 if the ETag matches."""
    run = call.run
    last = (await call.look(run))[-1].sequence
    tag = f'"{run.run_id}.{last}"'
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    status = await call.host.runs.status(run)
    shown = await run.in_reader(lambda: snapshot(run, status))
    headers, fleet = {"ETag": tag}, call.host.fleet
    if fleet is not None and status not in ENDED:
        waits = await fleet.waiting_for(run.run_id)
        if waits is not None:  # the closed schema of a snapshot cannot say it
            headers["Evalwright-Waits-For"] = quote(waits, safe=_PLAIN)
    return json_response(shown, headers=headers)


async def read_summary(call: ApiCall) -> Response:
    """The scorecard of a completed evaluation."""
    edges = await call.run.look()
    last = edges[-1]
    if not is_evaluation(edges):
        raise ApiError(404, "not_found", "the run is not an evaluation, so it has no summary")
    if last.type not in TERMINAL_TYPES:
        status = await call.host.runs.status(call.run)
        raise ApiError(409, "conflict", "the run has not ended", {"runStatus": status})
    if last.type != RunCompleted.TYPE:
        raise _without_summary(last)
    summary = bytes(recorded_summary(last, msgspec.Raw))
    return Response(summary, 200, _marks(edges[0]), "application/json")


def _marks(started: Event) -> dict[str, str]:
    """The header for what the closed schema of a summary cannot say; mostly there is nothing."""
    marks = marks_of(started.decode(RunStarted).tags or ())
    return {"Evalwright-Marks": ", ".join(marks)} if marks else {}


def _without_summary(end: Event) -> ApiError:
    """The error for the summary of an evaluation that ended before every task had a score."""
    if end.type == RunFailure.TYPE:
        error = end.decode(RunFailure).error
        details = {"runStatus": "failed", "runError": error.code}
        return ApiError(
            404, "not_found", f"the run failed ({error.code}), so it has no summary", details
        )
    message = "the run was cancelled, so it has no summary"
    return ApiError(404, "not_found", message, {"runStatus": "cancelled"})


async def cancel(call: ApiCall) -> Response:
    """Cancel a run."""
    status = await _cancelled(call, call.run)
    return json_response({"runId": call.run.run_id, "status": status})


async def _cancelled(call: ApiCall, run: RunHandle) -> str:
    reason = call.body.get("reason")
    try:
        if await call.host.deployments.cancel(call.principal, run.run_id, reason):
            return "cancelled"
    except DeploymentRefusal as refusal:
        raise api_error(refusal) from None
    return await call.host.orders.cancel(run, reason, call.principal.principal)


async def bulk_cancel(call: ApiCall) -> Response:
    """Cancel several runs; one result for each, in the order of the request."""
    run_ids = call.body["runIds"]
    if len(run_ids) > MOST_CANCELLED:
        message = f"$.runIds: more than {MOST_CANCELLED} runs; send several requests"
        raise ApiError(400, "validation_error", message, {"maxRunIds": MOST_CANCELLED})
    if call.ticket is not None:
        await call.room.need(len(call.raw) + len(run_ids) * RESULT_BYTES, is_answer=True)
    distinct = list(dict.fromkeys(run_ids))
    outcomes = await asyncio.gather(*(_cancel_one(call, run_id) for run_id in distinct))
    by_id = dict(zip(distinct, outcomes, strict=True))
    return json_response({"results": [by_id[run_id] for run_id in run_ids]})


async def _cancel_one(call: ApiCall, run_id: str) -> dict[str, Any]:
    """The result for one run; to cancel a cancelled run again changes nothing, and succeeds."""
    try:
        status = await _cancelled(call, call.run_with(run_id))
    except RunNotFound:
        error = {"code": "not_found", "message": "no such run"}
    except ApiError as refusal:
        found = (refusal.details or {}).get("runStatus")
        if found == "cancelled":
            return {"runId": run_id, "ok": True, "status": found}
        code = "run_terminal" if found in ENDED else refusal.code
        error = {"code": code, "message": refusal.message}
    else:
        return {"runId": run_id, "ok": True, "status": status}
    return {"runId": run_id, "ok": False, "error": error}


async def pause(call: ApiCall) -> Response:
    """Pause a run: running tasks end, and no new ones start."""
    run, is_immediate = call.run, call.body.get("drainPolicy") == "immediate"
    try:
        event = await call.host.orders.pause(run, call.body.get("reason"), immediately=is_immediate)
    except ApiError as refusal:
        if (refusal.details or {}).get("runStatus") == "paused":
            paused_at = await run.in_reader(lambda: _paused_at(run))
            refusal.details = {**(refusal.details or {}), **paused_at}
        raise
    body = {"runId": run.run_id, "status": "paused", "pausedAt": iso_time(event.at_us)}
    return json_response(body, 202)


def _paused_at(run: RunHandle) -> dict[str, str]:
    """The time of the pause that a run is in."""
    pauses = [event.at_us for event in run.log.read(run.run_id, (RunPaused.TYPE,))]
    return {"pausedAt": iso_time(pauses[-1])} if pauses else {}


async def resume(call: ApiCall) -> Response:
    """Resume a paused run."""
    event = await call.host.orders.resume(call.run, call.body.get("reason"))
    body = {"runId": call.run.run_id, "status": "running", "resumedAt": iso_time(event.at_us)}
    return json_response(body, 202)


_RUN_LIST = opened({"runs": listed(OBJECT), "next": ID}, ("runs",))
_REASONED = closed({"reason": REASON})
_STATUS = opened({"runId": ID, "status": TEXT}, ("runId", "status"))


def _with_time(name: str) -> Schema:
    """A status with the time of its start."""
    return opened({**_STATUS["properties"], name: TIME}, ("runId", "status", name))


ROUTES = [
    Route(
        "GET",
        "/v1/runs",
        list_runs,
        ApiOperation(
            id="listRuns",
            summary="List the caller's runs, newest first.",
            tag=TAG,
            parameters=(
                query(
                    "limit",
                    {"type": "integer", "minimum": 1, "maximum": MOST_LISTED},
                    "The maximum number of runs; 50 by default.",
                ),
                query("before", ID, "The `next` of the previous page."),
                query("status", {"enum": list(STATUSES)}, "Only runs with this status."),
                query("agentId", TEXT, "Only runs of this agent."),
                query("evalSuiteRef", TEXT, "Only runs of this suite, suiteId@version."),
                query("tag", TEXT, "Only runs with this tag."),
            ),
            answers={200: ResponseDoc("A page of runs.", _RUN_LIST), **refusals(400, 404)},
        ),
        ("runs:read",),
    ),
    Route(
        "POST",
        "/v1/runs:bulk-cancel",
        bulk_cancel,
        ApiOperation(
            id="bulkCancelRuns",
            summary=f"Cancel up to {MOST_CANCELLED} runs.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY,),
            body=closed(
                {"runIds": listed(ID, minItems=1), "reason": REASON},
                ("runIds",),
            ),
            answers={
                200: ResponseDoc(
                    "A result for each run, even if none could be cancelled.",
                    closed(
                        {
                            "results": listed(
                                closed(
                                    {
                                        "runId": TEXT,
                                        "ok": FLAG,
                                        "status": TEXT,
                                        "error": closed(
                                            {"code": TEXT, "message": TEXT}, ("code", "message")
                                        ),
                                    },
                                    ("runId", "ok"),
                                )
                            )
                        },
                        ("results",),
                    ),
                ),
                **refusals(409, with_body=True),
            },
        ),
        ("runs:cancel",),
        stores=FREE,
    ),
    Route(
        "POST",
        "/v1/runs/{runId}:pause",
        pause,
        ApiOperation(
            id="pauseRun",
            summary="Pause a run.",
            tag=TAG,
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            body=closed({"reason": REASON, "drainPolicy": {"enum": list(get_args(DrainPolicy))}}),
            needs_body=False,
            answers={
                202: ResponseDoc("The run is paused.", _with_time("pausedAt")),
                **refusals(404, 409, with_body=True),
            },
        ),
        ("runs:cancel",),
        stores=FREE,
    ),
    Route(
        "POST",
        "/v1/runs/{runId}:resume",
        resume,
        ApiOperation(
            id="resumeRun",
            summary="Resume a paused run.",
            tag=TAG,
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            body=_REASONED,
            needs_body=False,
            answers={
                202: ResponseDoc("The run is resumed.", _with_time("resumedAt")),
                **refusals(404, 409, with_body=True),
            },
        ),
        ("runs:cancel",),
        stores=BYTES,
    ),
    Route(
        "POST",
        "/v1/runs/{runId}/cancel",
        cancel,
        ApiOperation(
            id="cancelRun",
            summary="Cancel a run.",
            tag=TAG,
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            body=_REASONED,
            needs_body=False,
            answers={
                200: ResponseDoc("The run is cancelled or being cancelled.", _STATUS),
                **refusals(404, 409, with_body=True),
            },
        ),
        ("runs:cancel",),
        stores=FREE,
    ),
    Route(
        "GET",
        "/v1/runs/{runId}/eval-summary",
        read_summary,
        ApiOperation(
            id="getEvalSummary",
            summary="The scorecard of a completed evaluation.",
            tag=TAG,
            parameters=(RUN_ID,),
            answers={
                200: ResponseDoc("The scorecard.", summary_schema()),
                **refusals(404, 409),
            },
        ),
        ("runs:read",),
    ),
    Route(
        "GET",
        "/v1/runs/{runId}",
        read,
        ApiOperation(
            id="getRun",
            summary="The current state of a run.",
            tag=TAG,
            parameters=(
                RUN_ID,
                {"in": "header", "name": "If-None-Match", "required": False, "schema": TEXT},
            ),
            answers={
                200: ResponseDoc("The run.", ref("RunSnapshot")),
                304: ResponseDoc("Not changed."),
                **refusals(404),
            },
        ),
        ("runs:read",),
    ),
]
