"""What this host can do, for clients; and for its operator, whether it is alive, ready and well."""

import hashlib
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.errors import StoreError
from evalwright.host.access.scopes import SCOPES
from evalwright.host.deployments.model import LATEST, STATES
from evalwright.host.host import Host
from evalwright.host.http.errors import unavailable
from evalwright.host.http.routing import (
    ApiCall,
    ApiOperation,
    Handler,
    ResponseDoc,
    Route,
    json_response,
)
from evalwright.host.http.settings import ApprovalSettings
from evalwright.host.telemetry import CONTENT_TYPE
from evalwright.host.v1.runs import MOST_CANCELLED
from evalwright.host.v1.schemas import OBJECT, TEXT, opened, refusals
from evalwright.host.v1.shapes import LOG_SCHEMA_VERSION

PROTOCOL_VERSION = "1.1"
TAG = "discovery"
OPERATIONS_TAG = "operations"
RETRY_SECONDS = 1


_ALWAYS: dict[str, Any] = {
    "protocolVersion": PROTOCOL_VERSION,
    "implementation": {"name": "evalwright", "version": __version__, "vendor": "evalwright"},
    "engineVersion": 1,
    "eventLogSchemaVersion": LOG_SCHEMA_VERSION,
    "minClientVersion": "1.0",
    "supportedTransports": ["rest"],
    "supportedEnvelopes": [],
    "schemaVersions": {},
    "replay": {"supported": True, "modes": ["replay", "branch"]},
    "feedback": {
        "supported": True,
        "targets": ["run", "event", "node"],
        "signals": ["rating", "correction", "label", "flag"],
    },
    "providerUsage": {"supported": True, "costEstimates": True, "currency": "USD"},
    "debugBundle": {"supported": True},
    "runs": {
        "pauseResume": {"supported": True, "drainPolicies": ["drain-current-node"]},
        "bulkCancel": {"supported": True, "maxRunIds": MOST_CANCELLED},
    },
}


# Suites with `evalwright: 1` are taken, without what would run or read something of the host's.
_WIDE_SUITES = {"supported": True, "versions": [1], "refused": ["agent", "file", "python"]}


def capabilities(host: Host) -> dict[str, Any]:
    """The discovery document."""
    settings = host.settings
    return {
        **_ALWAYS,
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxNodeExecutions": settings.max_tasks_per_suite,
            "maxRunDurationMs": max(1000, round(settings.run_timeout_s * 1000)),
            "maxRequestBodyBytes": settings.max_body_bytes,
        },
        "authorization": {"supported": True, "failClosed": True, "roles": _roles(host)},
        "agents": _agents(host),
        "webhooks": {
            "supported": True,
            "signatureAlgorithms": ["v1"],
            "durable": True,
            "retryPolicy": {
                "maxAttempts": settings.webhooks.max_attempts,
                "backoff": "exponential",
            },
        },
        "x-evalwright": {"wideSuites": _WIDE_SUITES},
        **host.extension.capabilities,
    }


def _roles(host: Host) -> list[dict[str, Any]]:
    approval = host.settings.deployments.approval or ApprovalSettings()
    deploying = sorted(scope for scope in SCOPES if scope.startswith("deploy:"))
    return [
        {"role": "deployer", "scopes": deploying},
        {"role": "approver", "scopes": [approval.scope]},
    ]


def _agents(host: Host) -> dict[str, Any]:
    settings = host.settings
    return {
        "supported": True,
        "manifestRuntime": {"supported": True, "handoffValidation": True, "installScope": "tenant"},
        "liveRuntime": {
            "supported": True,
            "structuredOutput": True,
            "confidenceEscalation": False,
            "sources": ["run-api"],
        },
        "evalSuite": {
            "supported": True,
            "modes": host.planner.modes,
            "maxTasksPerSuite": settings.max_tasks_per_suite,
            "maxCostUsdPerSuite": settings.max_cost_usd_per_suite,
        },
        "deployment": {
            "supported": True,
            "channels": [*settings.deployments.channels, LATEST],
            "canary": True,
            "rollback": True,
            "states": STATES,
        },
    }


async def discover(call: ApiCall) -> Response:
    """The discovery document; 304 if the ETag matches."""
    body = msgspec.json.encode(capabilities(call.host))
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        "Cache-Control": "public, max-age=300",
        "ETag": tag,
        "Capabilities-Etag": tag.strip('"'),
    }
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


_STATUS = opened({"status": TEXT}, ("status",))


async def is_alive(_call: ApiCall) -> Response:
    """Whether the process answers."""
    return json_response({"status": "ok"})


async def is_ready(call: ApiCall) -> Response:
    """Whether the store can be read and written, and the host is started and not stopping."""
    if not call.host.is_ready:
        raise unavailable("the host is not ready", RETRY_SECONDS)
    try:
        await call.in_reader(lambda: call.host.log.run_ids(1))
    except StoreError:
        raise unavailable("the store cannot be read", RETRY_SECONDS) from None
    problem = await call.host.store_check.problem()
    if problem is not None:
        raise unavailable(f"the store cannot be written: {problem}", RETRY_SECONDS)
    return json_response({"status": "ready"})


async def metrics(call: ApiCall) -> Response:
    """The metrics in the Prometheus text format; none of them identifies a tenant."""
    rendered, fleet = call.host.telemetry.metrics.render(), call.host.fleet
    if fleet is not None:
        rendered += await fleet.metrics()
    return Response(rendered, media_type=CONTENT_TYPE)


def _open(path: str, handler: Handler, operation: ApiOperation) -> Route:
    return Route("GET", path, handler, operation, is_open=True)


ROUTES = [
    Route(
        "GET",
        "/.well-known/openwop",
        discover,
        ApiOperation(
            id="getCapabilities",
            summary="What this host can do.",
            tag=TAG,
            parameters=(
                {"in": "header", "name": "If-None-Match", "required": False, "schema": TEXT},
            ),
            answers={
                200: ResponseDoc(
                    "The capabilities.",
                    opened({"protocolVersion": TEXT, "limits": OBJECT}, ("protocolVersion",)),
                ),
                304: ResponseDoc("Not changed."),
                **refusals(is_open=True),
            },
        ),
        is_open=True,
    ),
    _open(
        "/v1/host/healthz",
        is_alive,
        ApiOperation(
            id="healthz",
            summary="Whether the process answers.",
            tag=OPERATIONS_TAG,
            answers={200: ResponseDoc("The process answers.", _STATUS), **refusals(is_open=True)},
        ),
    ),
    _open(
        "/v1/host/readyz",
        is_ready,
        ApiOperation(
            id="readyz",
            summary="Whether requests can be served.",
            tag=OPERATIONS_TAG,
            answers={200: ResponseDoc("The host is ready.", _STATUS), **refusals(is_open=True)},
        ),
    ),
    _open(
        "/v1/host/metrics",
        metrics,
        ApiOperation(
            id="metrics",
            summary="Metrics for Prometheus.",
            tag=OPERATIONS_TAG,
            answers={
                200: ResponseDoc("The metrics.", TEXT, "text/plain"),
                **refusals(is_open=True),
            },
        ),
    ),
]
