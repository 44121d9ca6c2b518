"""JSON Schemas of the requests and responses of version 1."""

from typing import Any

from evalwright.contracts.schema import load_schema
from evalwright.host.http.routing import ResponseDoc

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
REASON: Schema = {"type": "string", "maxLength": 512}
TIME: Schema = {"type": "string", "format": "date-time"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}

RUN_ID: Schema = {"in": "path", "name": "runId", "required": True, "schema": ID}
AGENT_ID: Schema = {"in": "path", "name": "agentId", "required": True, "schema": NAME}
IDEMPOTENCY_KEY: Schema = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


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


def summary_schema() -> Schema:
    """The schema of the scorecard, for use within another document."""
    schema = load_schema("eval-summary")
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id")}


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
_ALWAYS = (429, 503)
_WITH_KEY = (401, 403)
_WITH_BODY = (400, 408, 413, 415)


def refusals(
    *statuses: int, with_body: bool = False, is_open: bool = False
) -> dict[int, ResponseDoc]:
    """The errors that a route can return, all in the same envelope."""
    known = {*statuses, *_ALWAYS}
    known |= set() if is_open else set(_WITH_KEY)
    known |= set(_WITH_BODY) if with_body else set()
    return {status: ResponseDoc(_REFUSALS[status], ref("Error")) for status in sorted(known)}
