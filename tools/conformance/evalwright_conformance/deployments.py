"""Seams of deployments: scenarios played with the host's own deployment service.

The caller's key decides what is allowed, as everywhere.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from evalwright.host.access.keys import Principal
from evalwright.host.deployments.model import (
    DEFAULT_CHANNEL,
    DEPLOYMENT,
    LATEST,
    DeploymentRefusal,
    NoActiveDeployment,
    TransitionRequest,
)
from evalwright.host.deployments.service import Transitioned
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, json_response
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.v1.deployments import RECORD
from evalwright.host.v1.schemas import FLAG, ID, NAME, TEXT, closed
from evalwright.store.records import RecordChange
from evalwright_conformance.evaluations import evaluate, golden_suite, unmet_suite
from evalwright_conformance.seams import seam


class Subject(NamedTuple):
    """The version that a scenario concerns."""

    agent_id: str
    version: str
    channel: str


Result = dict[str, Any]


async def transition(call: ApiCall) -> Response:
    """Play a scenario; a refusal by the host is part of the response."""
    subject = await call.read_soon(lambda: _subject(call))
    try:
        result = await _SCENARIOS[call.body["scenario"]](call, subject)
    except DeploymentRefusal as refusal:
        if "runId" not in refusal.details:
            raise
        run_id = refusal.details["runId"]
        result = {"runId": run_id, "allowed": False, "error": refusal.code}
    return json_response(result)


def _subject(call: ApiCall) -> Subject:
    body = call.body
    agent_id, version = body.get("agentId", BUNDLED_AGENT), body.get("version")
    agent = call.host.catalogue.agent(call.principal.tenant, agent_id, version)
    if agent is None:
        raise ApiError(404, "not_found", "no such agent")
    return Subject(agent_id, agent.version, body.get("channel", DEFAULT_CHANNEL))


async def _begin_anew(call: ApiCall, subject: Subject) -> None:
    """Remove the deployments of the bundled agent, as if no scenario had been played."""
    if "agentId" in call.body or not call.principal.may("deploy:promote"):
        return
    records, tenant = call.host.records, call.principal.tenant
    kept = await call.read_soon(lambda: records.list(DEPLOYMENT, tenant, f"{subject.agent_id}@"))
    changes = [RecordChange(DEPLOYMENT, tenant, each.key, None) for each in kept]
    await asyncio.wrap_future(records.write(changes))


async def _promote(call: ApiCall, subject: Subject) -> Result:
    """Promote the version with a passed evaluation until it is active."""
    await _begin_anew(call, subject)
    eval_run_id = call.body.get("evalRunId")
    if eval_run_id is None:
        run = await evaluate(call, subject.agent_id, golden_suite(), version=subject.version)
        eval_run_id = run.run_id
    done = await _promote_by(call, subject, eval_run_id)
    return {"runId": done.run_id, "allowed": True, "record": done.record}


async def _promote_by(call: ApiCall, subject: Subject, eval_run_id: str) -> Transitioned:
    while True:
        done = await _ask(call, call.principal, subject, eval_run_id)
        if done.status != "completed" or done.record.state == "active":
            return done


async def _ask(
    call: ApiCall, principal: Principal, subject: Subject, eval_run_id: str | None = None
) -> Transitioned:
    """Request the next state."""
    host, (agent_id, version, channel) = call.host, subject
    records = await host.deployments.list(principal.tenant, agent_id)
    state = next((record.state for record in records if record.version == version), None)
    named = channel if state in ("staged", "active") and channel != LATEST else None
    request = TransitionRequest(
        version=version, transition="promote", channel=named, eval_run_id=eval_run_id
    )
    return await host.deployments.request(principal, agent_id, request)


async def _ask_without_scopes(call: ApiCall, subject: Subject) -> Result:
    """Request a promotion with a key without scopes."""
    nobody = msgspec.structs.replace(call.principal, scopes=frozenset())
    done = await _ask(call, nobody, subject)
    return {"runId": done.run_id, "allowed": True, "record": done.record}


async def _promote_unmet(call: ApiCall, subject: Subject) -> Result:
    """Promote the version with an evaluation that did not pass."""
    await _begin_anew(call, subject)
    eval_run_id = call.body.get("evalRunId")
    if eval_run_id is None:
        run = await evaluate(call, subject.agent_id, unmet_suite(), version=subject.version)
        eval_run_id = run.run_id
    done = await _ask(call, call.principal, subject, eval_run_id)
    return {"runId": done.run_id, "allowed": True, "record": done.record}


async def _pin(call: ApiCall, subject: Subject) -> Result:
    """Run the version that serves a channel."""
    try:
        version = await _resolve(call, subject)
    except NoActiveDeployment:
        await _promote(call, subject)
        version = await _resolve(call, subject)
    run = await evaluate(
        call, subject.agent_id, golden_suite(1), version=version, channel=subject.channel
    )
    return {"runId": run.run_id, "allowed": True, "resolvedAgentVersion": version}


async def _resolve(call: ApiCall, subject: Subject) -> str:
    draw = random.random()
    resolve, tenant = call.host.deployments.resolve, call.principal.tenant
    return await call.read_soon(lambda: resolve(tenant, subject.agent_id, subject.channel, draw))


_SCENARIOS: dict[str, Callable[[ApiCall, Subject], Awaitable[Result]]] = {
    "promote": _promote,
    "unauthorized": _ask_without_scopes,
    "eval-gate-unmet": _promote_unmet,
    "channel-pin": _pin,
}

ROUTES = [
    seam(
        "agents/deployment-transition",
        transition,
        "driveDeploymentTransition",
        "Play a scenario with deployments of an agent, by default the bundled one.",
        closed(
            {
                "scenario": {"enum": list(_SCENARIOS)},
                "agentId": NAME,
                "version": ID,
                "channel": {"type": "string", "minLength": 1, "maxLength": 64},
                "evalRunId": ID,
            },
            ("scenario",),
        ),
        closed(
            {
                "runId": ID,
                "allowed": FLAG,
                "record": RECORD,
                "error": TEXT,
                "resolvedAgentVersion": TEXT,
            },
            ("runId", "allowed"),
        ),
    )
]
