"""A seam: a documented route below `/v1/host/sample/`."""

from evalwright.host.access.quotas import RUN, Stores
from evalwright.host.http.routing import ApiOperation, Handler, ResponseDoc, Route, Schema
from evalwright.host.v1.schemas import IDEMPOTENCY_KEY, refusals

TAG = "conformance"


def read_seam(
    path: str,
    handler: Handler,
    operation_id: str,
    summary: str,
    answer: Schema,
    *,
    scope: str = "runs:read",
    parameters: tuple[Schema, ...] = (),
    stores: Stores | None = None,
) -> Route:
    """A seam that reads something; it may make what it reads."""
    operation = ApiOperation(
        id=operation_id,
        summary=summary,
        tag=TAG,
        parameters=parameters,
        answers={200: ResponseDoc("The requested data.", answer), **refusals(400)},
    )
    return Route("GET", f"/v1/host/sample/{path}", handler, operation, (scope,), stores=stores)


def seam(
    path: str,
    handler: Handler,
    operation_id: str,
    summary: str,
    body: Schema,
    answer: Schema,
    *,
    parameters: tuple[Schema, ...] = (),
    stores: Stores = RUN,
) -> Route:
    """A seam that changes something; it needs the scope runs:create."""
    operation = ApiOperation(
        id=operation_id,
        summary=summary,
        tag=TAG,
        parameters=(*parameters, IDEMPOTENCY_KEY),
        body=body,
        needs_body=False,
        answers={
            200: ResponseDoc("The result.", answer),
            **refusals(404, 409, with_body=True),
        },
    )
    path = f"/v1/host/sample/{path}"
    return Route("POST", path, handler, operation, ("runs:create",), stores=stores)
