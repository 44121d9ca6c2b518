"""Runs side by side and as a whole: differences, comparison reports, debug bundles."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from evalwright import __version__
from evalwright.comparison.diff import diff_runs, diff_sequences
from evalwright.contracts.events import CONTENT_FREE, Event
from evalwright.contracts.times import iso_time
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.library.comparisons import compare_for
from evalwright.host.v1.runs import snapshot
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    OBJECT,
    TEXT,
    TIME,
    WHOLE,
    Routes,
    Schema,
    closed,
    listed,
    opened,
    query,
    ref,
    whole,
)
from evalwright.signals.masking.credentials import (
    mask_json_strictly,
    mask_strings_strictly,
)

ROUTES = Routes("runs")

# The difference between two runs.

MOST_COMPARED = 100_000  # events of each run
MOST_SHOWN = 5_000  # differences
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


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}:diff",
    "diffRun",
    "runs:read",
    parameters=(
        query("against", ID, "The other run.", required=True),
        query(
            ALIGN,
            {"enum": list(_BY)},
            "Which events are compared: those of the same sequence (the default), or task "
            "by task, so that order does not matter. An extension of this host.",
        ),
    ),
    answers={200: ResponseDoc("The difference.", DIFF)},
    refuses=(400, 404),
)
async def diff(call: ApiCall) -> Response:
    """Where two runs differ; a pure function of their logs."""
    a, b = call.run, call.run_with(call.query["against"])
    for run in (a, b):
        await run.read_edges()

    def difference() -> bytes:
        events = [list(islice(run.log.read(run.run_id), MOST_COMPARED + 1)) for run in (a, b)]
        compare = _BY[call.query.get(ALIGN, "seq")]
        found = compare(a.run_id, events[0][:MOST_COMPARED], b.run_id, events[1][:MOST_COMPARED])
        is_cut = max(map(len, events)) > MOST_COMPARED or len(found.event_diffs) > MOST_SHOWN
        shown = msgspec.structs.replace(
            found,
            event_diffs=found.event_diffs[:MOST_SHOWN],
            state_diff=mask_strings_strictly(found.state_diff),
            truncated=True if is_cut else found.truncated,
        )
        return msgspec.json.encode(shown)  # which may be long

    with call.host.exports.hold(call.principal.tenant):
        body = await asyncio.to_thread(difference)
    return Response(body, media_type="application/json")


# The report on two runs, as a download.

ZIP = "application/zip"
_CHUNK = 256 * 1024


class Download(StreamingResponse):
    """A file that is deleted when it was sent or the client has left."""

    def __init__(self, file: Path, held: AsyncExitStack) -> None:
        headers = {
            "Content-Disposition": 'attachment; filename="compare-report.zip"',
            "Content-Length": str(file.stat().st_size),
            "Cache-Control": "no-store",
        }
        super().__init__(_chunks(file), media_type=ZIP, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk


async def report_download(call: ApiCall, baseline: str, new: str) -> Response:
    """The archive of the report on two runs of a caller, with secrets masked."""
    async with AsyncExitStack() as held:
        archive = await compare_for(call, baseline, new, held)
        return Download(archive, held.pop_all())
    raise AssertionError("a report is either refused or returned")


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}/compare-report",
    "downloadCompareReport",
    "runs:read",
    parameters=(query("baseline", ID, "The run to compare with.", required=True),),
    answers={200: ResponseDoc("The report.", {"type": "string", "format": "binary"}, ZIP)},
    refuses=(400, 404, 409, 422),
)
async def download(call: ApiCall) -> Response:
    """Compare a run with a baseline; returns the report folder as a ZIP archive."""
    return await report_download(call, call.query["baseline"], call.path["runId"])


# The debug bundle: everything about one run, masked, to be shared for support.

BUNDLE_VERSION = "1.0"
MOST_BUNDLE_BYTES = 8 * 1024 * 1024 - 64 * 1024  # of events and annotations; 64 KiB for the rest
MOST_EVENTS = 100_000

# The statuses that a bundle knows; a snapshot has more.
_STATUSES = ("pending", "running", "completed", "failed", "cancelled", "waiting-approval")

BUNDLE: Schema = opened(
    {
        "bundleVersion": TEXT,
        "generatedAt": TIME,
        "host": closed({"name": TEXT, "version": TEXT, "vendor": TEXT}, ("name", "version")),
        "run": ref("RunSnapshot"),
        "events": listed(ref("RunEvent")),
        "annotations": listed(OBJECT),
        "spans": listed(OBJECT),
        "metrics": OBJECT,
        "redactionApplied": FLAG,
        "redactionMode": {"enum": ["mask"]},
        "truncated": FLAG,
        "truncatedReason": TEXT,
    },
    ("bundleVersion", "generatedAt", "host", "run", "events", "redactionApplied", "redactionMode"),
)


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}/debug-bundle",
    "getDebugBundle",
    "runs:read",
    parameters=(query("maxEvents", whole(1, MOST_EVENTS), "The maximum number of events."),),
    answers={200: ResponseDoc("The bundle.", BUNDLE)},
    refuses=(400, 404),
)
async def debug_bundle(call: ApiCall) -> Response:
    """Everything about a run, masked, at most 8 MiB."""
    status = await call.host.runs.status(call.run)
    with call.host.exports.hold(call.principal.tenant):
        bundle = await asyncio.to_thread(_bundle, call, status)
    return json_response(bundle, headers={"Cache-Control": "no-store"})


def _bundle(call: ApiCall, status: str) -> dict[str, Any]:
    run, cut = call.run, ""
    shown = msgspec.to_builtins(snapshot(run, status))
    for name in ("error", "tags", "metadata", "configurable"):
        if name in shown:
            shown[name] = mask_strings_strictly(shown[name])
    room, annotations = MOST_BUNDLE_BYTES, list[msgspec.Raw]()
    for annotation in call.host.annotations.of_run(run):  # masked before they were stored
        size = len(bytes(annotation))
        if room - size < MOST_BUNDLE_BYTES // 2:
            cut = "annotations_truncated_to_size_cap"
            continue
        room -= size + 1
        annotations.append(annotation)
    events, nodes, count, is_full = list[msgspec.Raw](), set[str](), 0, False
    for event in run.log.read(run.run_id):
        count += 1
        if event.task_id is not None:
            nodes.add(event.task_id)
        if is_full:
            continue
        if len(events) >= call.query.get("maxEvents", MOST_EVENTS):
            cut, is_full = "events_truncated_to_max_events", True
        elif len(event.body) > room:
            cut, is_full = "events_truncated_to_size_cap", True
        else:
            document = _masked(event)
            room -= len(document) + 1
            events.append(msgspec.Raw(document))
    return {
        "bundleVersion": BUNDLE_VERSION,
        "generatedAt": iso_time(call.host.clock.now_us()),
        "host": {"name": "evalwright", "version": __version__, "vendor": "evalwright"},
        "run": {**shown, "status": status if status in _STATUSES else "running"},
        "events": events,
        "annotations": annotations,
        "spans": [],
        "metrics": {**shown.get("metrics", {}), "nodeCount": len(nodes), "eventCount": count},
        "redactionApplied": True,
        "redactionMode": "mask",
        **({"truncated": True, "truncatedReason": cut} if cut else {}),
    }


def _masked(event: Event) -> bytes:
    if event.type in CONTENT_FREE:  # so that digits of a score are not masked as a card number
        return event.to_json()
    return msgspec.structs.replace(event, body=mask_json_strictly(event.body)).to_json()
