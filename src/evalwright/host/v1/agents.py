"""Agents: listed, read and registered."""

import asyncio
from typing import Any, get_args

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.manifest import parse_manifest
from evalwright.contracts.suite import ModelClass
from evalwright.host.access.egress import EgressRefused
from evalwright.host.access.quotas import BYTES
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.library.catalogue import RegisteredAgent, described
from evalwright.host.v1.schemas import (
    AGENT_ID,
    IDEMPOTENCY_KEY,
    OBJECT,
    TEXT,
    closed,
    listed,
    refusals,
)

TAG = "agents"
RESERVED = ("roster", "org-chart")

_AGENT_ID = {
    "type": "string",
    "maxLength": 256,
    "pattern": r"^(core|vendor|community|private|local)\.[a-z0-9-]+(\.[a-z0-9-]+)+$",
}
_VERSION = {"type": "string", "pattern": r"^\d{1,9}\.\d{1,9}\.\d{1,9}$"}
_CLASS = {"enum": list(get_args(ModelClass))}
_SHORT = {"type": "string", "minLength": 1, "maxLength": 512}
_REGISTRATION = {  # not `oneOf`, whose errors only say that no alternative matches
    "type": "object",
    "if": {"required": ["manifest"]},
    "then": closed({"version": _VERSION, "manifest": OBJECT}, ("version", "manifest")),
    "else": closed(
        {
            "agentId": _AGENT_ID,
            "version": _VERSION,
            "url": {"type": "string", "minLength": 1, "maxLength": 2048},
            "modelClass": _CLASS,
            "persona": _SHORT,
            "label": _SHORT,
            "description": _SHORT,
        },
        ("agentId", "version", "url"),
    ),
}
_ENTRY = closed(
    {
        "agentId": TEXT,
        "persona": TEXT,
        "label": TEXT,
        "description": TEXT,
        "modelClass": TEXT,
        "packName": TEXT,
        "packVersion": TEXT,
        "toolAllowlist": listed(TEXT),
        "hasHandoffSchemas": {"type": "boolean"},
        "memoryShape": OBJECT,
        "confidenceThreshold": {"type": "number"},
    },
    (
        "agentId",
        "persona",
        "label",
        "modelClass",
        "packName",
        "packVersion",
        "toolAllowlist",
        "hasHandoffSchemas",
    ),
)


def _entry(agent: RegisteredAgent) -> dict[str, Any]:
    """The public description of an agent: never its prompt, its schemas or its address."""
    entry: dict[str, Any] = {
        "agentId": agent.agent_id,
        "persona": agent.persona,
        "label": agent.label or agent.persona,
        "modelClass": agent.model_class,
        "packName": agent.pack_name,
        "packVersion": agent.version,
        "toolAllowlist": agent.tool_allowlist,
        "hasHandoffSchemas": agent.has_handoff_schemas,
    }
    if agent.description is not None:
        entry["description"] = agent.description
    if agent.memory_shape is not None:
        entry["memoryShape"] = msgspec.to_builtins(agent.memory_shape)
    if agent.confidence_threshold is not None:
        entry["confidenceThreshold"] = agent.confidence_threshold
    return entry


async def list_agents(call: ApiCall) -> Response:
    """The agents that the caller can run, in their latest versions."""
    found = await asyncio.to_thread(call.host.catalogue.agents, call.principal.tenant)
    agents = [_entry(agent) for agent in found]
    return json_response({"agents": agents, "total": len(agents)})


async def read(call: ApiCall) -> Response:
    """One agent."""
    agent_id = call.path["agentId"]
    agent = await call.read_soon(lambda: call.host.catalogue.agent(call.principal.tenant, agent_id))
    if agent is None or agent_id in RESERVED:
        raise ApiError(404, "not_found", "no such agent")
    return json_response(_entry(agent))


async def register(call: ApiCall) -> Response:
    """Register an agent: a manifest, or an HTTP agent by its URL."""
    agent = _from_manifest(call) if "manifest" in call.body else _from_url(call)
    is_new = await call.host.catalogue.register(call.principal.tenant, agent)
    if is_new is None:
        message = f"{agent.key} is already registered with other content; use a new version"
        raise ApiError(409, "conflict", message)
    headers = {"Location": f"/v1/agents/{agent.agent_id}"}
    return json_response(_entry(agent), 201 if is_new else 200, headers)


def _from_manifest(call: ApiCall) -> RegisteredAgent:
    document = call.body["manifest"]
    try:
        manifest = parse_manifest(msgspec.json.encode(document), "manifest")
    except InvalidDocument as error:
        raise invalid([problem.below("$.manifest") for problem in error.problems]) from None
    refs = [manifest.system_prompt_ref, manifest.eval_suite_ref]
    refs += [manifest.handoff.task_schema_ref, manifest.handoff.return_schema_ref]
    if any(refs):
        message = "refers to files, which a manifest alone does not have; install a pack instead"
        raise invalid([Problem("$.manifest", message)])
    return described(manifest, call.body["version"], manifest=document)


def _from_url(call: ApiCall) -> RegisteredAgent:
    body = call.body
    try:
        call.host.egress.check_url(body["url"], https_only=True)
    except EgressRefused as refusal:
        raise invalid([Problem("$.url", str(refusal))]) from None
    return RegisteredAgent(
        agent_id=body["agentId"],
        version=body["version"],
        persona=body.get("persona") or body["agentId"],
        model_class=body.get("modelClass", "general"),
        label=body.get("label"),
        description=body.get("description"),
        url=body["url"],
    )


ROUTES = [
    Route(
        "GET",
        "/v1/agents",
        list_agents,
        ApiOperation(
            id="listAgents",
            summary="The agents that the caller can run.",
            tag=TAG,
            answers={
                200: ResponseDoc(
                    "Agents by id.",
                    closed(
                        {"agents": listed(_ENTRY), "total": {"type": "integer"}},
                        ("agents", "total"),
                    ),
                ),
                **refusals(),
            },
        ),
        ("agents:read",),
    ),
    Route(
        "POST",
        "/v1/agents",
        register,
        ApiOperation(
            id="registerAgent",
            summary="Register an agent by its manifest or its URL.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY,),
            body=_REGISTRATION,
            answers={
                200: ResponseDoc("The agent was already registered with this content.", _ENTRY),
                201: ResponseDoc("The agent is registered.", _ENTRY),
                **refusals(409, with_body=True),
            },
        ),
        ("agents:write",),
        stores=BYTES,
    ),
    Route(
        "GET",
        "/v1/agents/{agentId}",
        read,
        ApiOperation(
            id="getAgent",
            summary="One agent.",
            tag=TAG,
            parameters=(AGENT_ID,),
            answers={200: ResponseDoc("The agent.", _ENTRY), **refusals(404)},
        ),
        ("agents:read",),
    ),
]
