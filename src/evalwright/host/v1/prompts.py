"""Results of prompts: pushed here by `prompteval --push`, and shown on the pages."""

import asyncio

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import InvalidDocument
from evalwright.host.access.quotas import BYTES
from evalwright.host.http.errors import invalid
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.library.prompts import LONGEST_PATH, MOST_RESULTS, read_results
from evalwright.host.v1.schemas import (
    IDEMPOTENCY_KEY,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    closed,
    listed,
    opened,
    query,
    refusals,
)

TAG = "prompts"
MOST_LISTED = 1000
BODY: Schema = closed(
    {
        "results": listed(OBJECT, minItems=1, maxItems=MOST_RESULTS),
        "texts": {
            "type": "object",
            "additionalProperties": TEXT,
            "propertyNames": {"maxLength": LONGEST_PATH},
            "maxProperties": MOST_RESULTS,
        },
    },
    ("results",),
)


async def push(call: ApiCall) -> Response:
    """Keep the results in the body."""
    host, principal = call.host, call.principal
    try:
        results = await call.parse(lambda: read_results(call.body["results"]))
    except InvalidDocument as error:
        raise invalid(error.problems) from None
    texts = call.body.get("texts", {})
    files = await asyncio.to_thread(host.prompts.keep, principal.partition, results, texts)
    return json_response({"results": len(results), "files": files})


async def list_prompts(call: ApiCall) -> Response:
    """The files with their latest evaluation."""
    limit, after = call.query.get("limit", 100), call.query.get("after", "")
    found = await call.in_reader(
        lambda: call.host.prompts.some(call.principal.partition, after, limit + 1)
    )
    body: dict[str, object] = {"prompts": found[:limit]}
    if len(found) > limit:
        body["next"] = msgspec.json.decode(found[limit - 1])["path"]
    return json_response(body)


ROUTES = [
    Route(
        "GET",
        "/v1/prompts",
        list_prompts,
        ApiOperation(
            id="listPrompts",
            summary="The prompts whose results were pushed, each with its latest evaluation.",
            tag=TAG,
            parameters=(
                query(
                    "limit",
                    {"type": "integer", "minimum": 1, "maximum": MOST_LISTED},
                    "The maximum number of prompts; 100 by default.",
                ),
                query("after", TEXT, "The `next` of the previous page."),
            ),
            answers={
                200: ResponseDoc(
                    "Prompts by path.", opened({"prompts": listed(OBJECT)}, ("prompts",))
                ),
                **refusals(400),
            },
        ),
        ("prompts:read",),
    ),
    Route(
        "POST",
        "/v1/prompts/results",
        push,
        ApiOperation(
            id="pushPromptResults",
            summary="Keep results of `prompteval`, with the texts of their files.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY,),
            body=BODY,
            answers={
                200: ResponseDoc(
                    "How many results and files were kept.",
                    closed({"results": WHOLE, "files": WHOLE}, ("results", "files")),
                ),
                **refusals(with_body=True),
            },
        ),
        ("prompts:write",),
        stores=BYTES,
    ),
]
