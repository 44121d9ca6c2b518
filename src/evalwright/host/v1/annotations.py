"""Annotations on runs: ratings, labels, flags, and corrections of scores."""

import asyncio

import msgspec
from starlette.responses import Response

from evalwright.contracts.annotation import (
    ANNOTATION_KIND,
    Annotation,
    AnnotationTarget,
    Signal,
)
from evalwright.host.access.quotas import Stores
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.streams.feed import Notice
from evalwright.host.v1.schemas import (
    ID,
    IDEMPOTENCY_KEY,
    RUN_ID,
    TEXT,
    TIME,
    Schema,
    closed,
    listed,
    refusals,
)

ANNOTATED = "run.annotated"
TAG = "annotations"

_KINDS = ("rating", "correction", "label", "flag")
_RATING: Schema = {"type": "integer", "minimum": 1, "maximum": 5}


def _pair(kind: str) -> Schema:
    """The field named like a kind is required for this kind and forbidden for others."""
    return {
        "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
        "then": {"required": [kind]},
        "else": {"properties": {kind: False}},
    }


def _signal(label: Schema, correction: Schema) -> Schema:
    fields = {
        "kind": {"enum": list(_KINDS)},
        "rating": _RATING,
        "label": label,
        "correction": correction,
    }
    return closed(fields, ("kind",)) | {
        "allOf": [_pair(kind) for kind in ("rating", "label", "correction")]
    }


BODY: Schema = closed(
    {
        "target": closed({"eventId": ID, "nodeId": {"type": "string", "minLength": 1}}),
        "signal": _signal(
            {"type": "string", "minLength": 1, "maxLength": 256},
            {"type": "string", "maxLength": 4096},
        ),
        "note": {"type": "string", "maxLength": 2048},
    },
    ("signal",),
)
ANNOTATION: Schema = closed(
    {
        "annotationId": ID,
        "target": closed({"runId": ID, "eventId": ID, "nodeId": TEXT}, ("runId",)),
        "signal": _signal(TEXT, TEXT),
        "actor": closed({"principalRef": ID}, ("principalRef",)),
        "note": TEXT,
        "createdAt": TIME,
    },
    ("annotationId", "target", "signal", "actor", "createdAt"),
)


async def annotate(call: ApiCall) -> Response:
    """Store an annotation on a run, also on one that has ended."""
    run, body = call.run, call.body
    target = body.get("target", {})
    annotation = call.host.annotations.new(
        AnnotationTarget(run.run_id, target.get("eventId"), target.get("nodeId")),
        msgspec.convert(body["signal"], Signal),
        call.principal.principal,
        body.get("note"),
    )
    response = json_response(annotation, 201)
    await call.host.annotations.add(run, [annotation], call.completion(response))
    tell_of(call, annotation)
    return response


def tell_of(call: ApiCall, annotation: Annotation) -> None:
    """Notify the followers of the run, and write the audit log."""
    body = msgspec.json.encode(annotation)
    at_us = call.host.clock.now_us()
    call.host.feed.tell(
        call.path["runId"], Notice(annotation.annotation_id, ANNOTATED, at_us, body)
    )
    call.audit("runs.annotate", "runs:annotate", f"{ANNOTATION_KIND}:{annotation.annotation_id}")


async def list_annotations(call: ApiCall) -> Response:
    """The annotations of a run, oldest first."""
    found = await asyncio.to_thread(call.host.annotations.of_run, call.run)
    return json_response({"annotations": found})


ROUTES = [
    Route(
        "POST",
        "/v1/runs/{runId}/annotations",
        annotate,
        ApiOperation(
            id="createAnnotation",
            summary="Annotate a run; a correction of an eval.scored event overrides its score.",
            tag=TAG,
            parameters=(RUN_ID, IDEMPOTENCY_KEY),
            body=BODY,
            answers={
                201: ResponseDoc("The annotation, with secrets masked.", ANNOTATION),
                **refusals(404, 409, with_body=True),
            },
        ),
        ("runs:annotate",),
        stores=Stores("annotations"),
    ),
    Route(
        "GET",
        "/v1/runs/{runId}/annotations",
        list_annotations,
        ApiOperation(
            id="listAnnotations",
            summary="The annotations of a run.",
            tag=TAG,
            parameters=(RUN_ID,),
            answers={
                200: ResponseDoc(
                    "Annotations, oldest first.",
                    closed({"annotations": listed(ANNOTATION)}, ("annotations",)),
                ),
                **refusals(404),
            },
        ),
        ("runs:read",),
    ),
]
