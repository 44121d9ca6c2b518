"""Seams of events: the events of a run, and events that the suite emits for a test.

Emitted events are stored beside the log, which holds only what happened.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.times import iso_time
from evalwright.host.access.quotas import BYTES, FREE
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, Schema, json_response
from evalwright.host.v1.schemas import FLAG, ID, TEXT, WHOLE, closed, listed, query, ref
from evalwright.signals.masking import mask_text
from evalwright.store.records import RecordChange
from evalwright_conformance.seams import read_seam, seam

EMITTED = "emitted"  # the kind of the records that hold emitted events
MOST_READ = 10_000
MOST_EMITTED = 1_000  # by one partition, until it resets them

_FILTERS = {
    "type": "type",
    "nodeId": "nodeId",
    "causationId": "causationId",
    "correlationId": "causationId",
}
_REFERENCE = "secret:"  # how references to credentials begin


async def read_events(call: ApiCall) -> Response:
    """The recorded and emitted events of a run of the caller; none if there is no such run."""
    run_id = call.path["runId"]
    documents = await call.in_reader(lambda: [*_recorded(call, run_id), *_emitted(call, run_id)])
    return json_response({"events": [event for event in documents if _fits(event, call.query)]})


def _recorded(call: ApiCall, run_id: str) -> Iterator[dict[str, Any]]:
    with suppress(RunNotFound):
        for event in call.log.read(run_id, limit=MOST_READ):
            yield msgspec.json.decode(event.to_json())


def _emitted(call: ApiCall, run_id: str) -> Iterator[dict[str, Any]]:
    for kept in call.host.records.list(EMITTED, call.principal.partition, f"{run_id}/"):
        yield msgspec.json.decode(kept.body)


def _fits(event: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(event.get(_FILTERS[name]) == value for name, value in wanted.items())


async def reset(call: ApiCall) -> Response:
    """Delete the events that the caller emitted."""
    partition = call.principal.partition
    kept = await call.read_soon(
        lambda: call.host.records.list(EMITTED, partition, limit=MOST_EMITTED)
    )
    changes = [RecordChange(EMITTED, partition, each.key, None) for each in kept]
    await asyncio.wrap_future(call.host.records.write(changes))
    return json_response({"ok": True})


async def emit_provider_usage(call: ApiCall) -> Response:
    """Emit the usage of a model; refused if something in it looks like a credential."""
    body, partition = call.body, call.principal.partition
    if any(map(_looks_secret, _texts(body))):
        message = "the event contains a credential or a reference to one"
        raise ApiError(400, "provider_usage_credential_leak", message)
    number = await call.read_soon(
        lambda: len(call.host.records.list(EMITTED, partition, limit=MOST_EMITTED))
    )
    if number == MOST_EMITTED:
        raise ApiError(
            409, "conflict", f"{MOST_EMITTED} events are already emitted; reset them first"
        )
    event = _event(body, number, call.host.clock.now_us())
    key = f"{body['runId']}/{number:06d}"
    change = RecordChange(EMITTED, partition, key, msgspec.json.encode(event), expected=None)
    await asyncio.wrap_future(call.host.records.write([change]))
    return json_response({"ok": True, "eventId": event["eventId"]})


def _event(body: dict[str, Any], number: int, now_us: int) -> dict[str, Any]:
    event = {
        "eventId": f"{body['runId']}.{EMITTED}.{number}",
        "runId": body["runId"],
        "type": ProviderUsage.TYPE,
        "payload": body["payload"],
        "timestamp": iso_time(now_us),
        "sequence": number,
        "nodeId": body.get("nodeId"),
        "causationId": body.get("correlationId"),
    }
    return {name: value for name, value in event.items() if value is not None}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)


def _looks_secret(text: str) -> bool:
    return _REFERENCE in text or mask_text(text) is not text


_KEPT_ID: Schema = {**ID, "pattern": "^[A-Za-z0-9._~:-]+$"}
_LABEL: Schema = {"type": "string", "minLength": 1, "maxLength": 256}
_USD: Schema = {"type": "number", "minimum": 0}
USAGE = closed(
    {
        "provider": _LABEL,
        "model": _LABEL,
        "inputTokens": WHOLE,
        "outputTokens": WHOLE,
        "totalTokens": WHOLE,
        "costEstimateUsd": _USD,
        "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "cacheHit": FLAG,
        "cacheReadTokens": WHOLE,
        "cacheWriteTokens": WHOLE,
        "nodeId": _LABEL,
        "traceId": _LABEL,
    },
    ("provider", "model", "inputTokens", "outputTokens"),
)
_OK = closed({"ok": FLAG, "eventId": TEXT}, ("ok",))

ROUTES = [
    read_seam(
        "test/runs/{runId}/events",
        read_events,
        "readTestEvents",
        "The events of a run of the caller; none if there is no such run.",
        closed({"events": listed(ref("RunEvent"))}, ("events",)),
        parameters=(*(query(name, TEXT, "Only events with this value.") for name in _FILTERS),),
    ),
    seam(
        "test/reset",
        reset,
        "resetTestEvents",
        "Delete emitted events.",
        closed({}),
        _OK,
        stores=FREE,
    ),
    seam(
        "test/emit-provider-usage",
        emit_provider_usage,
        "emitProviderUsage",
        "Emit the usage of a model, to be read through the events seam.",
        closed(
            {"runId": _KEPT_ID, "payload": USAGE, "correlationId": _LABEL, "nodeId": _LABEL},
            ("runId", "payload"),
        ),
        _OK,
        stores=BYTES,
    ),
]
