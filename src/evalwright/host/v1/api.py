"""All routes of version 1, and the OpenAPI document that is made from this table."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route
from evalwright.host.v1 import (
    agents,
    annotations,
    bundles,
    compare,
    comparisons,
    create,
    deletions,
    deployments,
    discovery,
    events,
    forks,
    prompts,
    runs,
    suites,
    webhooks,
)
from evalwright.host.v1.schemas import COMPONENTS, OBJECT, refusals

TAG = "discovery"


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The document for these routes."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Evalwright host",
            "version": __version__,
            "description": "Agent evaluation on the OpenWOP v1 run surface.",
        },
        "security": [{"ApiKeyAuth": []}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"ApiKeyAuth": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation = route.operation
    document: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            str(status): _answer(answer) for status, answer in sorted(operation.answers.items())
        },
    }
    if operation.parameters:
        document["parameters"] = list(operation.parameters)
    if operation.body is not None:
        document["requestBody"] = {
            "required": operation.needs_body,
            "content": {"application/json": {"schema": operation.body}},
        }
    if route.is_open:
        document["security"] = []
    return document


def _answer(answer: ResponseDoc) -> dict[str, Any]:
    document: dict[str, Any] = {"description": answer.description}
    if answer.schema is not None:
        document["content"] = {answer.media_type: {"schema": answer.schema}}
    if answer.as_json is not None:
        document["content"]["application/json"] = {"schema": answer.as_json}
    return document


def openapi_route(routes: list[Route]) -> Route:
    """The route of the OpenAPI document of all routes, including itself."""
    cached: list[bytes] = []

    async def read(_call: ApiCall) -> Response:
        """The document."""
        if not cached:
            cached.append(msgspec.json.encode(openapi([*routes, route])))
        return Response(cached[0], media_type="application/json")

    route = Route(
        "GET",
        "/v1/openapi.json",
        read,
        ApiOperation(
            id="getOpenApiSpec",
            summary="This document.",
            tag=TAG,
            answers={200: ResponseDoc("The document.", OBJECT), **refusals(is_open=True)},
        ),
        is_open=True,
    )
    return route


def v1_routes(extra: Sequence[Route] = ()) -> list[Route]:
    """The routes of a host, in the order in which they are tried: `:verb` before the plain path."""
    routes = [
        *discovery.ROUTES,
        *events.ROUTES,
        *deployments.ROUTES,
        *create.ROUTES,
        *forks.ROUTES,
        *compare.ROUTES,
        *annotations.ROUTES,
        *bundles.ROUTES,
        *comparisons.ROUTES,
        *runs.ROUTES,
        *suites.ROUTES,
        *prompts.ROUTES,
        *deletions.ROUTES,
        *agents.ROUTES,
        *webhooks.ROUTES,
        *extra,
    ]
    return [openapi_route(routes), *routes]
