"""All routes of version 1, and the OpenAPI document that is made from this table."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.host.http.routing import ApiCall, ResponseDoc, Route
from evalwright.host.v1 import (
    compare,
    create,
    deployments,
    discovery,
    events,
    library,
    runs,
    webhooks,
)
from evalwright.host.v1.schemas import COMPONENTS, OBJECT, Routes


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The document for these routes."""
    paths: dict[str, Any] = {}
    for route in routes:
        operation = route.operation
        document: dict[str, Any] = {
            "operationId": operation.id,
            "summary": operation.summary,
            "tags": [operation.tag],
            "responses": {},
        }
        for status, answer in sorted(operation.answers.items()):
            told: dict[str, Any] = {"description": answer.description}
            if answer.schema is not None:
                told["content"] = {answer.media_type: {"schema": answer.schema}}
            if answer.as_json is not None:
                told["content"]["application/json"] = {"schema": answer.as_json}
            document["responses"][str(status)] = told
        if operation.parameters:
            document["parameters"] = list(operation.parameters)
        if operation.body is not None:
            document["requestBody"] = {
                "required": operation.needs_body,
                "content": {"application/json": {"schema": operation.body}},
            }
        if route.is_open:
            document["security"] = []
        paths.setdefault(route.path, {})[route.method.lower()] = document
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


def v1_routes(extra: Sequence[Route] = ()) -> list[Route]:
    """The routes of a host, in the order in which they are tried: `:verb` before the plain path."""
    routes = Routes("discovery")
    cached: list[bytes] = []

    @routes.add(
        "GET",
        "/v1/openapi.json",
        "getOpenApiSpec",
        is_open=True,
        answers={200: ResponseDoc("The document.", OBJECT)},
    )
    async def read(_call: ApiCall) -> Response:
        """This document."""
        if not cached:
            cached.append(msgspec.json.encode(openapi(routes)))
        return Response(cached[0], media_type="application/json")

    for module in (discovery, events, deployments, create, compare, runs, library, webhooks):
        routes += module.ROUTES
    routes += extra
    return routes
