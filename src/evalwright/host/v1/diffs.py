"""The difference of two runs, on the wire."""

import asyncio
from itertools import islice

import msgspec
from starlette.responses import Response

from evalwright.comparison.diff import RunDiff, diff_runs
from evalwright.host.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.status import edges_of
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
from evalwright.store.protocol import EventLog

MOST_EVENTS = 100_000  # of a run, that are compared
MOST_TOLD = 5_000  # differences
TAG = "runs"

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
    a, b = call.path["runId"], call.query["against"]
    for run_id in (a, b):
        edges_of(call.log, run_id)
    exports = call.host.exports
    with exports.hold(), exports.hold_for(call.principal.tenant):
        return await asyncio.to_thread(_answer, call.log, a, b)


def _answer(log: EventLog, a: str, b: str) -> Response:
    events = [list(islice(log.read(run_id), MOST_EVENTS + 1)) for run_id in (a, b)]
    found = diff_runs(a, events[0][:MOST_EVENTS], b, events[1][:MOST_EVENTS])
    is_cut = max(map(len, events)) > MOST_EVENTS or len(found.event_diffs) > MOST_TOLD
    return json_response(_shown(found, is_cut=is_cut))


def _shown(found: RunDiff, *, is_cut: bool) -> RunDiff:
    return msgspec.structs.replace(
        found,
        event_diffs=found.event_diffs[:MOST_TOLD],
        state_diff=mask_strings_strictly(found.state_diff),
        truncated=True if is_cut else found.truncated,
    )


ROUTES = [
    Route(
        "GET",
        "/v1/runs/{runId}:diff",
        diff,
        ApiOperation(
            id="diffRun",
            summary="Where two runs differ; a pure function of their logs.",
            tag=TAG,
            parameters=(RUN_ID, query("against", ID, "The other run.", required=True)),
            answers={200: ResponseDoc("The difference.", DIFF), **refusals(400, 404)},
        ),
        ("runs:read",),
    )
]
