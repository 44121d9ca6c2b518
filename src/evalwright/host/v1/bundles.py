"""The debug bundle: everything about one run, masked, to be shared for support."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.events import CONTENT_FREE, Event
from evalwright.contracts.times import iso_time
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.v1.schemas import (
    FLAG,
    OBJECT,
    RUN_ID,
    TEXT,
    TIME,
    Schema,
    closed,
    listed,
    opened,
    query,
    ref,
    refusals,
)
from evalwright.host.v1.shapes import snapshot
from evalwright.signals.masking.credentials import mask_json_strictly, mask_strings_strictly

BUNDLE_VERSION = "1.0"
MOST_BYTES = 8 * 1024 * 1024 - 64 * 1024  # of events and annotations; 64 KiB for the rest
MOST_EVENTS = 100_000
TAG = "runs"

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


async def read(call: ApiCall) -> Response:
    """The bundle of a run."""
    status = await call.host.runs.status(call.run)
    exports = call.host.exports
    with exports.hold(), exports.hold_for(call.principal.tenant):
        bundle = await asyncio.to_thread(_bundle, call, status)
    return json_response(bundle, headers={"Cache-Control": "no-store"})


def _bundle(call: ApiCall, status: str) -> dict[str, Any]:
    run = call.run
    shown = msgspec.to_builtins(snapshot(run, status))
    gathered = _BundleContent(call.query.get("maxEvents", MOST_EVENTS), MOST_BYTES)
    for annotation in call.host.annotations.of_run(run):
        gathered.take_annotation(annotation)
    for event in run.log.read(run.run_id):
        gathered.take(event)
    return {
        "bundleVersion": BUNDLE_VERSION,
        "generatedAt": iso_time(call.host.clock.now_us()),
        "host": {"name": "evalwright", "version": __version__, "vendor": "evalwright"},
        "run": _masked_run(shown, status),
        "events": gathered.events,
        "annotations": gathered.annotations,
        "spans": [],
        "metrics": {
            **shown.get("metrics", {}),
            "nodeCount": len(gathered.nodes),
            "eventCount": gathered.count,
        },
        "redactionApplied": True,
        "redactionMode": "mask",
        **gathered.truncation(),
    }


class _BundleContent:
    """The masked events and annotations that fit into the bundle, and the count of all."""

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self.events: list[msgspec.Raw] = []
        self.annotations: list[msgspec.Raw] = []
        self.nodes: set[str] = set()
        self.count = 0
        self._most_events = most_events
        self._room = most_bytes
        self._kept_for_events = most_bytes // 2
        self._reason: str | None = None  # why events are missing
        self._has_all_annotations = True

    def take_annotation(self, annotation: msgspec.Raw) -> None:
        """Take an annotation, which was masked before it was stored, if it fits."""
        size = len(bytes(annotation))
        if self._room - size < self._kept_for_events:
            self._has_all_annotations = False
            return
        self._room -= size + 1
        self.annotations.append(annotation)

    def take(self, event: Event) -> None:
        """Count an event, and take it if it fits."""
        self.count += 1
        if event.task_id is not None:
            self.nodes.add(event.task_id)
        if self._reason is None:
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if len(self.events) >= self._most_events:
            self._reason = "events_truncated_to_max_events"
            return
        if len(event.body) > self._room:
            self._reason = "events_truncated_to_size_cap"
            return
        document = _masked(event)
        self._room -= len(document) + 1
        self.events.append(msgspec.Raw(document))

    def truncation(self) -> dict[str, Any]:
        """The fields that say what is missing."""
        reason = self._reason
        if reason is None and not self._has_all_annotations:
            reason = "annotations_truncated_to_size_cap"
        return {"truncated": True, "truncatedReason": reason} if reason else {}


def _masked(event: Event) -> bytes:
    if event.type in CONTENT_FREE:  # so that digits of a score are not masked as a card number
        return event.to_json()
    return msgspec.structs.replace(event, body=mask_json_strictly(event.body)).to_json()


def _masked_run(shown: dict[str, Any], status: str) -> dict[str, Any]:
    content: dict[str, Any] = {
        name: mask_strings_strictly(shown[name])
        for name in ("error", "tags", "metadata", "configurable")
        if name in shown
    }
    return {**shown, **content, "status": status if status in _STATUSES else "running"}


ROUTES = [
    Route(
        "GET",
        "/v1/runs/{runId}/debug-bundle",
        read,
        ApiOperation(
            id="getDebugBundle",
            summary="Everything about a run, masked, at most 8 MiB.",
            tag=TAG,
            parameters=(
                RUN_ID,
                query(
                    "maxEvents",
                    {"type": "integer", "minimum": 1, "maximum": MOST_EVENTS},
                    "The maximum number of events.",
                ),
            ),
            answers={200: ResponseDoc("The bundle.", BUNDLE), **refusals(400, 404)},
        ),
        ("runs:read",),
    )
]
