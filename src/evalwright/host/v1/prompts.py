"""Results of prompts: pushed here by `prompteval --push`, and shown on the pages."""

import asyncio

from starlette.responses import Response

from evalwright.contracts.errors import InvalidDocument
from evalwright.host.errors import invalid
from evalwright.host.prompt_library import LONGEST_PATH, MOST_RESULTS, read_results
from evalwright.host.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.v1.schemas import (
    IDEMPOTENCY_KEY,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    closed,
    listed,
    refusals,
)

TAG = "prompts"
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
    async with host.quotas.room_for(principal.tenant, len(call.raw)):
        files = await asyncio.to_thread(host.prompts.keep, principal.partition, results, texts)
    return json_response({"results": len(results), "files": files})


ROUTES = [
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
    ),
]
