"""How the routes of version 1 are declared, and the JSON Schemas of requests and responses."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from evalwright.contracts.schema import load_schema
from evalwright.host.access.quotas import Stores
from evalwright.host.http.routing import ApiOperation, Handler, ResponseDoc, Route

Schema = dict[str, Any]


def closed(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def opened(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    """An object with these and possibly other properties."""
    return {"type": "object", "properties": properties, "required": list(required)}


def listed(item: Schema, **bounds: Any) -> Schema:
    """A list of items."""
    return {"type": "array", "items": item, **bounds}


def ref(name: str) -> Schema:
    """A reference to a schema in the components of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 256}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 128}
IN_PATHS = {"agentId": NAME, "suiteId": NAME, "version": NAME, "workflowId": NAME}  # others: ID
REASON: Schema = {"type": "string", "maxLength": 512}
TIME: Schema = {"type": "string", "format": "date-time"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}

IDEMPOTENCY_KEY: Schema = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def whole(least: int, most: int) -> Schema:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    """A parameter of the query."""
    return {
        "in": "query",
        "name": name,
        "required": required,
        "schema": schema,
        "description": description,
    }


ERROR: Schema = closed(
    {
        "error": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
        "message": TEXT,
        "details": OBJECT,
    },
    ("error", "message"),
)
STATUSES = (
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
)
OWNER: Schema = closed(
    {"tenant": ID, "workspace": ID, "principal": ID, "principalKind": TEXT}, ("tenant",)
)
RUN_SNAPSHOT: Schema = opened(
    {
        "runId": ID,
        "workflowId": NAME,
        "status": {"enum": list(STATUSES)},
        "owner": OWNER,
        "startedAt": TIME,
        "completedAt": TIME,
        "agent": OBJECT,
        "error": opened({"code": TEXT, "message": TEXT}, ("code", "message")),
        "eventLogSchemaVersion": WHOLE,
        "tags": listed(TEXT),
        "metadata": OBJECT,
        "configurable": OBJECT,
        "metrics": OBJECT,
    },
    ("runId", "workflowId", "status"),
)
RUN_EVENT: Schema = opened(
    {
        "eventId": ID,
        "runId": ID,
        "type": TEXT,
        "payload": {},
        "timestamp": TIME,
        "sequence": WHOLE,
        "nodeId": TEXT,
        "schemaVersion": WHOLE,
    },
    ("eventId", "runId", "type", "payload", "timestamp", "sequence"),
)

COMPONENTS: dict[str, Schema] = {
    "Error": ERROR,
    "RunSnapshot": RUN_SNAPSHOT,
    "RunEvent": RUN_EVENT,
}


def embedded(name: str) -> Schema:
    """A published schema, for use within another document."""
    return {key: value for key, value in load_schema(name).items() if key not in ("$schema", "$id")}


_REFUSALS = {
    400: "The request is invalid; details say where.",
    401: "The key is missing, unknown, expired or revoked.",
    403: "The key lacks the required scope, or a quota is used up.",
    404: "Not found, or not the caller's.",
    405: "The path does not support the method.",
    408: "The body did not arrive in time.",
    409: "Not possible in the current state.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    422: "Not possible with what is recorded.",
    429: "Too many requests; Retry-After says when to retry.",
    500: "Internal error.",
    501: "Not supported by this host.",
    503: "The host is overloaded or stopping; Retry-After says when to retry.",
}


def refusals(
    *statuses: int, with_body: bool = False, is_open: bool = False
) -> dict[int, ResponseDoc]:
    """The errors that a route can return, all in the same envelope."""
    known = {*statuses, 429, 503}
    known |= set() if is_open else {401, 403}
    known |= {400, 408, 413, 415} if with_body else set()
    return {status: ResponseDoc(_REFUSALS[status], ref("Error")) for status in sorted(known)}


H = TypeVar("H", bound=Handler)


class Routes(list[Route]):
    """The routes of a module, each declared at its handler; they are tried in this order."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(
        self,
        method: str,
        path: str,
        operation_id: str,
        *scopes: str,
        summary: str = "",
        answers: dict[int, ResponseDoc],
        refuses: tuple[int, ...] = (),
        parameters: tuple[Schema, ...] = (),
        body: Schema | None = None,
        needs_body: bool = True,
        tag: str | None = None,
        all_scopes: bool = False,
        is_open: bool = False,
        stores: Stores | None = None,
    ) -> Callable[[H], H]:
        """Declare a route; the docstring of its handler is the summary unless one is given.

        `parameters` are those of the query and the headers: those in the path, and the
        Idempotency-Key of whatever changes something, are known.
        """
        known = [
            {"in": "path", "name": name, "required": True, "schema": IN_PATHS.get(name, ID)}
            for name in re.findall(r"\{(\w+)\}", path)
        ]
        known += [each for each in parameters if each["in"] == "query"]
        known += [] if method == "GET" else [IDEMPOTENCY_KEY]
        known += [each for each in parameters if each["in"] != "query"]
        errors = refusals(*refuses, with_body=body is not None, is_open=is_open)

        def declare(handler: H) -> H:
            operation = ApiOperation(
                id=operation_id,
                summary=summary or (handler.__doc__ or "").partition("\n")[0],
                tag=tag or self._tag,
                parameters=tuple(known),
                body=body,
                needs_body=needs_body,
                answers={**answers, **errors},
            )
            more = {"all_scopes": all_scopes, "is_open": is_open}
            self.append(Route(method, path, handler, operation, scopes, stores=stores, **more))
            return handler

        return declare
