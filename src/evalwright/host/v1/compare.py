"""The difference between two runs."""

import asyncio
from itertools import islice

import msgspec
from starlette.responses import Response

from evalwright.comparison.diff import diff_runs, diff_sequences
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route
from evalwright.host.runs.handle import RunHandle
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    OBJECT,
    RUN_ID,
    WHOLE,
    Schema,
    closed,
    listed,
    query,
    refusals,
)
from evalwright.signals.masking.credentials import mask_strings_strictly

MOST_EVENTS = 100_000  # of each run, compared
MOST_SHOWN = 5_000  # differences
TAG = "runs"
ALIGN = "evalwright.align"
_BY = {"seq": diff_sequences, "task": diff_runs}

DIFF: Schema = closed(
    {
        "a": ID,
        "b": ID,
        "divergedAtSeq": {"type": ["integer", "null"], "minimum": 0},
        "eventDiffs": listed(
            closed(
                {
                    "seq": WHOLE,
                    "op": {"enum": ["added", "removed", "changed"]},
                    "aEvent": OBJECT,
                    "bEvent": OBJECT,
                },
                ("seq", "op"),
            )
        ),
        "stateDiff": OBJECT,
        "truncated": FLAG,
    },
    ("a", "b", "divergedAtSeq", "eventDiffs", "stateDiff"),
)


async def diff(call: ApiCall) -> Response:
    """Where two runs of the caller differ."""
    a, b = call.run, call.run_with(call.query["against"])
    for run in (a, b):
        await run.look()
    exports = call.host.exports
    with exports.hold(), exports.hold_for(call.principal.tenant):
        body = await asyncio.to_thread(_difference, a, b, call.query.get(ALIGN, "seq"))
    return Response(body, media_type="application/json")


def _difference(a: RunHandle, b: RunHandle, align: str) -> bytes:
    """The difference as JSON, which may be long."""
    events = [list(islice(run.log.read(run.run_id), MOST_EVENTS + 1)) for run in (a, b)]
    found = _BY[align](a.run_id, events[0][:MOST_EVENTS], b.run_id, events[1][:MOST_EVENTS])
    is_cut = max(map(len, events)) > MOST_EVENTS or len(found.event_diffs) > MOST_SHOWN
    shown = msgspec.structs.replace(
        found,
        event_diffs=found.event_diffs[:MOST_SHOWN],
        state_diff=mask_strings_strictly(found.state_diff),
        truncated=True if is_cut else found.truncated,
    )
    return msgspec.json.encode(shown)


ROUTES = [
    Route(
        "GET",
        "/v1/runs/{runId}:diff",
        diff,
        ApiOperation(
            id="diffRun",
            summary="Where two runs differ; a pure function of their logs.",
            tag=TAG,
            parameters=(
                RUN_ID,
                query("against", ID, "The other run.", required=True),
                query(
                    ALIGN,
                    {"enum": list(_BY)},
                    "Which events are compared: those of the same sequence (the default), or task "
                    "by task, so that order does not matter. An extension of this host.",
                ),
            ),
            answers={200: ResponseDoc("The difference.", DIFF), **refusals(400, 404)},
        ),
        ("runs:read",),
    )
]
