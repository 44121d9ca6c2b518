"""Suites: each version is published once and never changes."""

import asyncio

from starlette.responses import Response

from evalwright.contracts.schema import SUITE, load_schema
from evalwright.contracts.suite import weight_warnings
from evalwright.host.access.quotas import Stores
from evalwright.host.http.errors import MOST_PROBLEMS, ApiError, shown_problem
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.v1.schemas import (
    IDEMPOTENCY_KEY,
    NAME,
    OBJECT,
    TEXT,
    listed,
    opened,
    query,
    refusals,
)

MOST_LISTED = 1000
TAG = "suites"

_PUBLISHED = opened(
    {"suiteId": TEXT, "version": TEXT, "evalSuiteRef": TEXT, "warnings": listed(OBJECT)},
    ("suiteId", "version", "evalSuiteRef"),
)


_PORTABLE = {
    key: value for key, value in load_schema(SUITE).items() if key not in ("$schema", "$id")
}


def _named(ref: str) -> dict[str, str]:
    suite_id, _, version = ref.rpartition("@")
    return {"suiteId": suite_id, "version": version, "evalSuiteRef": ref}


async def publish(call: ApiCall) -> Response:
    """Publish the suite in the body."""
    call.body = None  # as a suite it is read from the text; others wait with theirs meanwhile
    catalogue, principal = call.host.catalogue, call.principal
    suite = await call.parse(lambda: catalogue.read_suite(principal.place, call.raw, "body"))
    most = call.host.settings.max_tasks_per_suite
    ref = f"{suite.suite_id}@{suite.version}"
    if await asyncio.to_thread(catalogue.suite_source, principal.place, ref) is None:
        await call.room.need(len(call.raw), "suites")
    is_new = await catalogue.publish(principal.place, call.raw, suite)
    if is_new is None:
        message = f"{ref} is already published with other content; use a new version"
        raise ApiError(409, "conflict", message, {"evalSuiteRef": ref})
    named = {**_named(ref), "taskCount": len(suite.tasks), "maxTasksPerSuite": most}
    warnings = weight_warnings(suite)[:MOST_PROBLEMS]
    warned = {"warnings": [shown_problem(each) for each in warnings]} if warnings else {}
    location = {"Location": f"/v1/suites/{ref}"}
    return json_response({**named, **warned}, 201 if is_new else 200, location)


async def list_suites(call: ApiCall) -> Response:
    """The references of the suites that the caller can run."""
    limit, after = call.query.get("limit", 100), call.query.get("after", "")
    refs = await asyncio.to_thread(
        call.host.catalogue.suite_refs, call.principal.place, after, limit + 1
    )
    body: dict[str, object] = {"suites": [_named(ref) for ref in refs[:limit]]}
    if len(refs) > limit:
        body["next"] = refs[limit - 1]
    return json_response(body)


async def read(call: ApiCall) -> Response:
    """A suite, byte for byte as published."""
    ref = f"{call.path['suiteId']}@{call.path['version']}"
    source = await asyncio.to_thread(
        call.host.catalogue.suite_source, call.principal.place, ref
    )  # it may be long
    if source is None:
        raise ApiError(404, "not_found", "no such suite")
    return Response(source, media_type="application/json")


ROUTES = [
    Route(
        "POST",
        "/v1/suites",
        publish,
        ApiOperation(
            id="publishSuite",
            summary="Publish the suite in the body.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY,),
            body={"anyOf": [_PORTABLE, {"type": "object", "required": ["evalwright"]}]},
            answers={
                200: ResponseDoc("The same suite was already published.", _PUBLISHED),
                201: ResponseDoc("The suite is published.", _PUBLISHED),
                **refusals(409, with_body=True),
            },
        ),
        ("suites:write",),
        stores=Stores("suites", asks=True),
    ),
    Route(
        "GET",
        "/v1/suites",
        list_suites,
        ApiOperation(
            id="listSuites",
            summary="The suites that the caller can run.",
            tag=TAG,
            parameters=(
                query(
                    "limit",
                    {"type": "integer", "minimum": 1, "maximum": MOST_LISTED},
                    "The maximum number of suites; 100 by default.",
                ),
                query("after", TEXT, "The `next` of the previous page."),
            ),
            answers={
                200: ResponseDoc(
                    "Suites by name.", opened({"suites": listed(_PUBLISHED)}, ("suites",))
                ),
                **refusals(400),
            },
        ),
        ("suites:read",),
    ),
    Route(
        "GET",
        "/v1/suites/{suiteId}@{version}",
        read,
        ApiOperation(
            id="getSuite",
            summary="A suite as published.",
            tag=TAG,
            parameters=(
                {"in": "path", "name": "suiteId", "required": True, "schema": NAME},
                {"in": "path", "name": "version", "required": True, "schema": NAME},
            ),
            answers={200: ResponseDoc("The suite.", OBJECT), **refusals(404)},
        ),
        ("suites:read",),
    ),
]
