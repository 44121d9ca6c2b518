"""Runs: listed, read, cancelled, paused, resumed and deleted."""

import asyncio
from functools import partial
from typing import Any, get_args
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from evalwright.client.responses import RunEntry
from evalwright.contracts.errors import RunBusy, RunNotFound, RunPruned
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    DrainPolicy,
    Event,
    Planned,
    ProviderUsage,
    RunCompleted,
    RunFailure,
    RunPaused,
    RunStarted,
    recorded_summary,
)
from evalwright.contracts.times import iso_time
from evalwright.engine.isolation import marks_of
from evalwright.host.access.quotas import BYTES, FREE
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.runs.handle import ENDED, RunHandle, Status, is_evaluation
from evalwright.host.runs.retention import delete_run
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    OBJECT,
    REASON,
    STATUSES,
    TEXT,
    TIME,
    Routes,
    Schema,
    closed,
    embedded,
    listed,
    opened,
    query,
    ref,
    whole,
)
from evalwright.store.protocol import RunFacts, RunFilter

LOG_SCHEMA_VERSION = 2
MOST_LISTED = 200
SCANNED_AT_ONCE = 200  # runs in progress
MOST_CANCELLED = 100
RESULT_BYTES = 300  # of each, beside its id
ROUTES = Routes("runs")

IF_NONE_MATCH = {"in": "header", "name": "If-None-Match", "required": False, "schema": TEXT}
_STATUS = opened({"runId": ID, "status": TEXT}, ("runId", "status"))


def _with_time(name: str) -> Schema:
    return opened({**_STATUS["properties"], name: TIME}, ("runId", "status", name))


# Runs as version 1 shows them, as snapshots and in lists; pure functions of logs.


class Snapshot(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A run, as `GET /v1/runs/{runId}` shows it."""

    run_id: str
    workflow_id: str
    status: str
    event_log_schema_version: int
    owner: Any = None
    started_at: str | None = None
    completed_at: str | None = None
    agent: dict[str, Any] | None = None
    error: Any = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    configurable: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


def snapshot(run: RunHandle, status: str) -> Snapshot:
    """The current state of a run; raises `RunNotFound`."""
    edges = run.edges()
    started, last = edges[0].decode(RunStarted), edges[-1]
    is_over = last.type in TERMINAL_TYPES
    plan = next(run.log.read(run.run_id, (Planned.TYPE,), limit=1), None)
    planned = plan.decode(Planned) if plan else None
    agent = None
    if planned is not None:
        version = planned.agent.version
        agent = {"agentId": planned.agent.agent_id, **({"version": version} if version else {})}
    error = last.decode(RunFailure).error if last.type == RunFailure.TYPE else None
    origin = planned.origin if planned else None
    return Snapshot(
        run_id=run.run_id,
        workflow_id=started.workflow_id,
        status=status,
        event_log_schema_version=LOG_SCHEMA_VERSION,
        owner=started.owner,
        started_at=iso_time(edges[0].at_us),
        completed_at=iso_time(last.at_us) if is_over else None,
        agent=agent,
        error=None if error is None else {"code": error.code, "message": error.message},
        tags=started.tags,
        metadata=started.metadata,
        configurable=origin.configurable if origin else started.configurable,
        metrics=_metrics(run, edges) if is_over and planned else None,
    )


def _metrics(run: RunHandle, edges: list[Event]) -> dict[str, Any] | None:
    """Tokens and cost of a run; the cost only if every call has a price: a part would mislead."""
    found = run.log.read(run.run_id, (ProviderUsage.TYPE,))
    usages = [event.decode(ProviderUsage) for event in found]
    if not usages:
        return None
    cost: dict[str, Any] = {
        "tokens": {
            "input": sum(usage.input_tokens for usage in usages),
            "output": sum(usage.output_tokens for usage in usages),
        },
        "duration_ms": max(0, edges[-1].at_us - edges[0].at_us) // 1000,
    }
    prices = [usage.cost_estimate_usd for usage in usages]
    if all(price is not None for price in prices):
        cost["usd"] = round(sum(price or 0 for price in prices), 12)
    for field in ("model", "provider"):
        names = {getattr(usage, field) for usage in usages}
        if len(names) == 1:
            cost[field] = names.pop()
    return {"openwopCost": cost}


def listed_run(run: RunFacts, status: Status) -> RunEntry:
    """A run for a list, from its facts only."""
    return RunEntry(
        run_id=run.run_id,
        workflow_id=run.workflow,
        status=status,
        started_at=iso_time(run.started_us),
        completed_at=None if run.ended_us is None else iso_time(run.ended_us),
        agent_id=run.agent,
        eval_suite_ref=run.suite,
        aggregate_score=run.score,
        passed=run.passed,
        tags=run.tags,
    )


# Reading.


@ROUTES.add(
    "GET",
    "/v1/runs",
    "listRuns",
    "runs:read",
    parameters=(
        query("limit", whole(1, MOST_LISTED), "The maximum number of runs; 50 by default."),
        query("before", ID, "The `next` of the previous page."),
        query("status", {"enum": list(STATUSES)}, "Only runs with this status."),
        query("agentId", TEXT, "Only runs of this agent."),
        query("evalSuiteRef", TEXT, "Only runs of this suite, suiteId@version."),
        query("tag", TEXT, "Only runs with this tag."),
    ),
    answers={
        200: ResponseDoc("A page of runs.", opened({"runs": listed(OBJECT), "next": ID}, ("runs",)))
    },
    refuses=(400, 404),
)
async def list_runs(call: ApiCall) -> Response:
    """List the caller's runs, newest first."""
    limit = call.query.get("limit", 50)
    with call.host.lists.hold(call.principal.tenant):
        found = await call.in_reader(partial(_matching, call, limit + 1))
    more = {"next": found[-2].run_id} if len(found) > limit else {}
    return json_response({"runs": found[:limit], **more})


def _matching(call: ApiCall, most: int) -> list[RunEntry]:
    """Runs that match the query. Whether a run is `cancelling`, say, is not in its log."""
    status, before = call.query.get("status"), call.query.get("before")
    wanted = RunFilter(
        status=status if status in ENDED else None,
        has_ended=None if status is None else status in ENDED,
        agent=call.query.get("agentId"),
        suite=call.query.get("evalSuiteRef"),
        tag=call.query.get("tag"),
    )
    at_once = most if wanted.status == status else SCANNED_AT_ONCE
    found = list[RunEntry]()
    while len(found) < most:
        page = call.log.find_runs(wanted, at_once, before)
        listed = (listed_run(run, call.host.runs.status_of(run)) for run in page)
        found += [run for run in listed if status in (None, run.status)]
        if len(page) < at_once:
            break
        before = page[-1].run_id
    return found[:most]


_PLAIN = " !#$&'()*+,/:;<=>?@[]^_`{|}~-."  # characters of a header that need no escape


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}",
    "getRun",
    "runs:read",
    parameters=(IF_NONE_MATCH,),
    answers={
        200: ResponseDoc("The run.", ref("RunSnapshot")),
        304: ResponseDoc("Not changed."),
    },
    refuses=(404,),
)
async def read(call: ApiCall) -> Response:
    """The current state of a run."""
    run = call.run
    last = (await call.edges(run))[-1].sequence
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


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}/eval-summary",
    "getEvalSummary",
    "runs:read",
    answers={200: ResponseDoc("The scorecard.", embedded("eval-summary"))},
    refuses=(404, 409),
)
async def read_summary(call: ApiCall) -> Response:
    """The scorecard of a completed evaluation."""
    edges = await call.run.read_edges()
    last = edges[-1]
    if not is_evaluation(edges):
        raise ApiError(404, "not_found", "the run is not an evaluation, so it has no summary")
    if last.type not in TERMINAL_TYPES:
        status = await call.host.runs.status(call.run)
        raise ApiError(409, "conflict", "the run has not ended", {"runStatus": status})
    if last.type == RunFailure.TYPE:
        code = last.decode(RunFailure).error.code
        message = f"the run failed ({code}), so it has no summary"
        details = {"runStatus": "failed", "runError": code}
        raise ApiError(404, "not_found", message, details)
    if last.type != RunCompleted.TYPE:
        message = "the run was cancelled, so it has no summary"
        raise ApiError(404, "not_found", message, {"runStatus": "cancelled"})
    # What the closed schema of a summary cannot say; mostly there is nothing.
    marks = marks_of(edges[0].decode(RunStarted).tags or ())
    headers = {"Evalwright-Marks": ", ".join(marks)} if marks else {}
    summary = bytes(recorded_summary(last, msgspec.Raw))
    return Response(summary, 200, headers, "application/json")


# Ending, pausing and deleting.


@ROUTES.add(
    "POST",
    "/v1/runs/{runId}/cancel",
    "cancelRun",
    "runs:cancel",
    body=closed({"reason": REASON}),
    needs_body=False,
    answers={200: ResponseDoc("The run is cancelled or being cancelled.", _STATUS)},
    refuses=(404, 409),
    stores=FREE,
)
async def cancel(call: ApiCall) -> Response:
    """Cancel a run."""
    status = await _cancelled(call, call.run)
    return json_response({"runId": call.run.run_id, "status": status})


async def _cancelled(call: ApiCall, run: RunHandle) -> str:
    reason = call.body.get("reason")
    if await call.host.deployments.cancel(call.principal, run.run_id, reason):
        return "cancelled"
    return await call.host.orders.cancel(run, reason, call.principal.principal)


_RESULT = closed(
    {
        "runId": TEXT,
        "ok": FLAG,
        "status": TEXT,
        "error": closed({"code": TEXT, "message": TEXT}, ("code", "message")),
    },
    ("runId", "ok"),
)


@ROUTES.add(
    "POST",
    "/v1/runs:bulk-cancel",
    "bulkCancelRuns",
    "runs:cancel",
    body=closed({"runIds": listed(ID, minItems=1), "reason": REASON}, ("runIds",)),
    answers={
        200: ResponseDoc(
            "A result for each run, even if none could be cancelled.",
            closed({"results": listed(_RESULT)}, ("results",)),
        )
    },
    refuses=(409,),
    stores=FREE,
)
async def bulk_cancel(call: ApiCall) -> Response:
    """Cancel up to 100 runs."""
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


@ROUTES.add(
    "POST",
    "/v1/runs/{runId}:pause",
    "pauseRun",
    "runs:cancel",
    body=closed({"reason": REASON, "drainPolicy": {"enum": list(get_args(DrainPolicy))}}),
    needs_body=False,
    answers={202: ResponseDoc("The run is paused.", _with_time("pausedAt"))},
    refuses=(404, 409),
    stores=FREE,
)
async def pause(call: ApiCall) -> Response:
    """Pause a run."""
    run, is_immediate = call.run, call.body.get("drainPolicy") == "immediate"
    try:
        event = await call.host.orders.pause(run, call.body.get("reason"), immediately=is_immediate)
    except ApiError as refusal:
        if (refusal.details or {}).get("runStatus") == "paused":
            pauses = await run.in_reader(lambda: list(run.log.read(run.run_id, (RunPaused.TYPE,))))
            if pauses:
                paused_at = iso_time(pauses[-1].at_us)
                refusal.details = {**(refusal.details or {}), "pausedAt": paused_at}
        raise
    body = {"runId": run.run_id, "status": "paused", "pausedAt": iso_time(event.at_us)}
    return json_response(body, 202)


@ROUTES.add(
    "POST",
    "/v1/runs/{runId}:resume",
    "resumeRun",
    "runs:cancel",
    body=closed({"reason": REASON}),
    needs_body=False,
    answers={202: ResponseDoc("The run is resumed.", _with_time("resumedAt"))},
    refuses=(404, 409),
    stores=BYTES,
)
async def resume(call: ApiCall) -> Response:
    """Resume a paused run."""
    event = await call.host.orders.resume(call.run, call.body.get("reason"))
    body = {"runId": call.run.run_id, "status": "running", "resumedAt": iso_time(event.at_us)}
    return json_response(body, 202)


@ROUTES.add(
    "DELETE",
    "/v1/runs/{runId}",
    "deleteRun",
    "workspace:write",
    answers={204: ResponseDoc("The run is deleted.")},
    refuses=(400, 404, 409),
    stores=FREE,
)
async def remove(call: ApiCall) -> Response:
    """Delete a run that has ended."""
    run_id = call.path["runId"]
    try:
        status = await call.host.runs.status(call.run)
        if status not in ENDED:
            message = f"the run is {status}; cancel it, or wait for its end"
            raise ApiError(409, "conflict", message, {"runStatus": status})
        await asyncio.wrap_future(call.host.log.try_out())  # else a thread would wait for long
        needed = await call.in_reader(lambda: delete_run(call.log, run_id))
    except RunPruned:
        return Response(status_code=204)  # it was deleted before
    except RunBusy:
        raise ApiError(409, "conflict", "the run is in use; retry later") from None
    if needed is not None:
        raise ApiError(409, "conflict", f"the run cannot be deleted: {needed}", {"reason": needed})
    call.audit("runs.delete", "workspace:write", f"run:{run_id}")
    return Response(status_code=204)
