"""What this host can do, for clients; and for its operator, whether it is alive, ready and well."""

import hashlib
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.errors import StoreError
from evalwright.host.access.keys import SCOPES
from evalwright.host.deployments.model import LATEST, STATES
from evalwright.host.host import Host
from evalwright.host.http.errors import unavailable
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.http.settings import ApprovalSettings
from evalwright.host.telemetry.metrics import CONTENT_TYPE
from evalwright.host.v1.runs import IF_NONE_MATCH, LOG_SCHEMA_VERSION, MOST_CANCELLED
from evalwright.host.v1.schemas import OBJECT, TEXT, Routes, opened

PROTOCOL_VERSION = "1.1"
RETRY_SECONDS = 1
ROUTES = Routes("discovery")

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
    approval = settings.deployments.approval or ApprovalSettings()
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
        "authorization": {
            "supported": True,
            "failClosed": True,
            "roles": [
                {
                    "role": "deployer",
                    "scopes": sorted(scope for scope in SCOPES if scope.startswith("deploy:")),
                },
                {"role": "approver", "scopes": [approval.scope]},
            ],
        },
        "agents": {
            "supported": True,
            "manifestRuntime": {
                "supported": True,
                "handoffValidation": True,
                "installScope": "tenant",
            },
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
        },
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


@ROUTES.add(
    "GET",
    "/.well-known/openwop",
    "getCapabilities",
    is_open=True,
    parameters=(IF_NONE_MATCH,),
    answers={
        200: ResponseDoc(
            "The capabilities.",
            opened({"protocolVersion": TEXT, "limits": OBJECT}, ("protocolVersion",)),
        ),
        304: ResponseDoc("Not changed."),
    },
)
async def discover(call: ApiCall) -> Response:
    """What this host can do."""
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


@ROUTES.add(
    "GET",
    "/v1/host/healthz",
    "healthz",
    tag="operations",
    is_open=True,
    answers={200: ResponseDoc("The process answers.", _STATUS)},
)
async def is_alive(_call: ApiCall) -> Response:
    """Whether the process answers."""
    return json_response({"status": "ok"})


@ROUTES.add(
    "GET",
    "/v1/host/readyz",
    "readyz",
    tag="operations",
    is_open=True,
    answers={200: ResponseDoc("The host is ready.", _STATUS)},
)
async def is_ready(call: ApiCall) -> Response:
    """Whether requests can be served."""
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


@ROUTES.add(
    "GET",
    "/v1/host/metrics",
    "metrics",
    tag="operations",
    is_open=True,
    answers={200: ResponseDoc("The metrics.", TEXT, "text/plain")},
)
async def metrics(call: ApiCall) -> Response:
    """Metrics for Prometheus."""
    rendered, fleet = call.host.telemetry.metrics.render(), call.host.fleet
    if fleet is not None:
        rendered += await fleet.metrics()
    return Response(rendered, media_type=CONTENT_TYPE)
