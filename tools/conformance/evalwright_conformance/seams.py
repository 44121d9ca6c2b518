"""A seam: a documented route below `/v1/host/sample/`."""

from evalwright.host.access.quotas import RUN, Stores
from evalwright.host.http.routing import Handler, ResponseDoc, Route, Schema
from evalwright.host.v1.schemas import Routes

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
    routes = Routes(TAG)
    routes.add(
        "GET",
        f"/v1/host/sample/{path}",
        operation_id,
        scope,
        summary=summary,
        parameters=parameters,
        answers={200: ResponseDoc("The requested data.", answer)},
        refuses=(400,),
        stores=stores,
    )(handler)
    return routes[0]


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
    routes = Routes(TAG)
    routes.add(
        "POST",
        f"/v1/host/sample/{path}",
        operation_id,
        "runs:create",
        summary=summary,
        parameters=parameters,
        body=body,
        needs_body=False,
        answers={200: ResponseDoc("The result.", answer)},
        refuses=(404, 409),
        stores=stores,
    )(handler)
    return routes[0]
