"""What this host can do: the document that clients read first. It promises nothing more."""

import hashlib
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.host.deployments.record import LATEST, STATES
from evalwright.host.host import Host
from evalwright.host.routing import Answer, Call, Operation, Route
from evalwright.host.scopes import SCOPES
from evalwright.host.settings import ApprovalSettings
from evalwright.host.v1.schemas import OBJECT, TEXT, opened, refusals
from evalwright.host.v1.shapes import LOG_SCHEMA_VERSION
from evalwright.host.workflows import WORKFLOWS

PROTOCOL_VERSION = "1.1"
TAG = "discovery"


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
    "webhooks": {"supported": True, "signatureAlgorithms": ["v1"]},
}


def capabilities(host: Host) -> dict[str, Any]:
    """The capabilities, as they are now."""
    settings = host.settings
    document = {
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
    }
    if host.is_conformance:
        document["fixtures"] = list(WORKFLOWS)
    return document


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


async def discover(call: Call) -> Response:
    """The capabilities; with their ETag, only if they have changed."""
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


ROUTES = [
    Route(
        "GET",
        "/.well-known/openwop",
        discover,
        Operation(
            id="getCapabilities",
            summary="What this host can do.",
            tag=TAG,
            parameters=(
                {"in": "header", "name": "If-None-Match", "required": False, "schema": TEXT},
            ),
            answers={
                200: Answer(
                    "The capabilities.",
                    opened({"protocolVersion": TEXT, "limits": OBJECT}, ("protocolVersion",)),
                ),
                304: Answer("They have not changed."),
                **refusals(is_open=True),
            },
        ),
        is_open=True,
    )
]
