"""Creating runs: of suites and workflows, replayed from a record, or branched at an event."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts.errors import Problem, RunNotFound
from evalwright.contracts.events import RunStarted
from evalwright.contracts.run_plan import Origin, Owner, from_configurable
from evalwright.engine.isolation import EXPLANATIONS
from evalwright.host.access.idempotency import in_flight
from evalwright.host.access.keys import Principal
from evalwright.host.access.quotas import RUN
from evalwright.host.http.errors import ApiError, invalid, shown_problem, try_again
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.runs.forks import ForkRequest, Overlay
from evalwright.host.runs.handle import ENDED, RunHandle
from evalwright.host.runs.planning import ALL_MODES, EvalRequest, PlannedEvaluation
from evalwright.host.telemetry.facts import ForkOrigin
from evalwright.host.telemetry.telemetry import RunOrigin
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    NAME,
    OBJECT,
    STATUSES,
    TEXT,
    WHOLE,
    Routes,
    Schema,
    closed,
    listed,
    opened,
    whole,
)
from evalwright.store.records import ANY, RecordChange, RecordConflict

MOST_METADATA_BYTES = 8192
MOST_METADATA_DEPTH = 4
RETRY_SECONDS = 5
SCOPE_KIND = "scope"
ROUTES = Routes("runs")

# They would change what is evaluated; recording them without effect would be wrong.
_NOT_HONOURED = ("model", "temperature", "maxTokens", "promptOverrides")
# Options that the facts copied by a branch depend on.
_FIXED = ("evalModes", "baselineRunId", "agentVersion", "agentChannel", "allowMismatch")

TAGS = listed({"type": "string", "minLength": 1, "maxLength": 256}, maxItems=100)
CREATE_BODY = closed(
    {
        "mode": {"enum": ["eval"]},
        "evalSuiteRef": {"type": "string", "minLength": 1, "maxLength": 512},
        "agentId": NAME,
        "workflowId": NAME,
        "inputs": OBJECT,
        "tenantId": TEXT,
        "scopeId": ID,
        "callbackUrl": TEXT,
        "configurable": opened(
            {
                "evalModes": listed({"enum": list(ALL_MODES)}, minItems=1, uniqueItems=True),
                "baselineRunId": ID,
                "agentVersion": {"type": "string", "minLength": 1, "maxLength": 64},
                "agentChannel": {"type": "string", "minLength": 1, "maxLength": 64},
                "allowMismatch": FLAG,
                "concurrency": whole(1, 10_000),
                "runTimeoutMs": {"type": "integer", "minimum": 1},
                "taskTimeoutMs": {"type": "integer", "minimum": 1},
                "maxCostUsd": {"type": "number", "exclusiveMinimum": 0},
                "taskCostUsd": {"type": "number", "exclusiveMinimum": 0},
                "maxTokensTotal": {"type": "integer", "minimum": 1},
                "seed": {"type": "integer"},
            }
        ),
        "tags": TAGS,
        "metadata": OBJECT,
    }
) | {
    "if": {"properties": {"mode": {"const": "eval"}}, "required": ["mode"]},
    "then": {"required": ["evalSuiteRef", "agentId"]},
    "else": {"required": ["workflowId"]},
}
_DEDUP = {
    "in": "header",
    "name": "X-Dedup",
    "required": False,
    "schema": {"enum": ["enforce"]},
    "description": "Refuse the run while another one with the same scopeId is active.",
}
_ENGINE_VERSION = {
    "in": "header",
    "name": "X-Force-Engine-Version",
    "required": False,
    "schema": TEXT,
    "description": "Only with a test key.",
}
CREATED = opened(
    {
        "runId": ID,
        "status": {
            "enum": ["pending", "running", "waiting-approval", "waiting-input", "waiting-external"]
        },
        "eventsUrl": TEXT,
        "statusUrl": TEXT,
        "warnings": listed(OBJECT),
    },
    ("runId", "status", "eventsUrl"),
)


@ROUTES.add(
    "POST",
    "/v1/runs",
    "createRun",
    "runs:create",
    parameters=(_DEDUP, _ENGINE_VERSION),
    body=CREATE_BODY,
    answers={201: ResponseDoc("The run is created and being executed.", CREATED)},
    refuses=(404, 409, 501),
    stores=RUN,
)
async def create(call: ApiCall) -> Response:
    """Create a run; with mode eval, evaluate an agent by a suite."""
    body = call.body
    check_tenant(call, body.get("tenantId"))
    if "x-force-engine-version" in call.request.headers and not call.principal.is_test:
        message = "only a test key may set X-Force-Engine-Version"
        raise ApiError(403, "force_engine_version_forbidden", message)
    if "callbackUrl" in body:
        message = "callbacks for single runs are not supported; register a webhook"
        raise invalid([Problem("$.callbackUrl", message)])
    check_metadata(body.get("metadata"))
    configurable: dict[str, Any] = body.get("configurable") or {}
    check_configurable(call, configurable)
    scope = ScopeClaim(call)
    await scope.refuse_active()
    if body.get("mode") != "eval":
        body = call.body
        workflow = call.host.extension.workflows.get(body["workflowId"])
        if workflow is None:
            raise ApiError(404, "not_found", "no such workflow; this host runs mode eval")
        inputs = body.get("inputs") or {}
        problem = workflow.problem(inputs)
        if problem is not None:
            raise invalid([problem])
        started = run_started(
            call.principal,
            body["workflowId"],
            workflow.used(inputs),
            tags=[tag for tag in body.get("tags") or () if tag not in EXPLANATIONS] or None,
            metadata=body.get("metadata"),
            configurable=body.get("configurable") or None,
        )
        run = await call.new_run()
        response = created(run)
        with announced(call, run):
            await call.host.runs.start_workflow(run, started, call.completion(response))
        return response
    version, channel = configurable.get("agentVersion"), configurable.get("agentChannel")
    if channel is not None:
        resolve, tenant = call.host.deployments.resolve, call.principal.tenant
        share = random.random()  # noqa: S311 - no secret
        version = await call.read_soon(lambda: resolve(tenant, body["agentId"], channel, share))
    request = EvalRequest(
        suite_ref=body["evalSuiteRef"],
        agent_id=body["agentId"],
        origin=Origin(
            owner=owner_of(call.principal),
            metadata=body.get("metadata"),
            configurable=configurable or None,
            traceparent=call.trace.traceparent,
        ),
        options=from_configurable(configurable, body.get("tags") or ()),
        agent_version=version,
        agent_channel=channel,
    )
    planned = await asyncio.to_thread(
        call.host.planner.plan, call.log, call.principal.partition, request
    )
    await reserve_room(call, planned)
    run = await call.new_run()
    response = created(run, planned.warnings)
    changes = [*call.completion(response), *scope.changes(run.run_id)]
    with announced(call, run):
        try:
            await call.host.runs.start(run, planned, changes)
        except RecordConflict:
            raise await scope.lost() from None
    return response


async def reserve_room(call: ApiCall, planned: PlannedEvaluation) -> None:
    """Take the room for the start of a run, which holds its suite; raises `ApiError` 403."""
    await call.room.need(len(msgspec.json.encode(planned.plan.suite)))


@contextmanager
def announced(call: ApiCall, run: RunHandle, fork: ForkOrigin | None = None) -> Iterator[None]:
    """Tell telemetry the origin of a run that is created in this context."""
    telemetry = call.host.telemetry
    telemetry.expect(run.run_id, run.tenant, RunOrigin(call.correlation_id, call.trace, fork))
    try:
        yield
    except BaseException:
        telemetry.forget(run.run_id)
        raise


def created(run: RunHandle, warnings: Sequence[Problem] = ()) -> Response:
    """The response to a request that creates a run."""
    run_id = run.run_id
    warned = {"warnings": [shown_problem(each) for each in warnings]} if warnings else {}
    body = {
        "runId": run_id,
        "status": "running",
        "eventsUrl": f"/v1/runs/{run_id}/events",
        "statusUrl": f"/v1/runs/{run_id}",
        **warned,
    }
    return json_response(body, 201, {"Location": f"/v1/runs/{run_id}"})


def run_started(
    principal: Principal, workflow_id: str, inputs: dict[str, Any], **more: Any
) -> RunStarted:
    """The first event of a run of a workflow."""
    return RunStarted(
        workflow_id,
        inputs or None,
        transport="rest",
        engine_version=__version__,
        owner=owner_of(principal),
        **more,
    )


def owner_of(principal: Principal) -> Owner:
    """The owner of the runs that a principal creates."""
    return Owner(principal.tenant, principal.workspace, principal.principal)


# What a request for a run must not ask for.


def check_tenant(call: ApiCall, given: str | None) -> None:
    """Refuse a tenant other than the key's own."""
    if given not in (None, call.principal.tenant):
        message = "the key does not belong to this tenant"
        raise ApiError(403, "tenant_membership_required", message)


def check_configurable(call: ApiCall, configurable: dict[str, Any]) -> None:
    """Refuse options that would change the agent, which is evaluated as registered."""
    if "mockProvider" in configurable:
        if not call.principal.is_test:
            raise ApiError(403, "mock_provider_forbidden", "only a test key may use mockProvider")
        raise ApiError(400, "unsupported_mock_provider", "this host does not support mockProvider")
    refused = [name for name in configurable if name in _NOT_HONOURED or name.startswith("ai.")]
    if refused:
        message = "not supported: an agent is evaluated as registered; register another version"
        raise invalid([Problem(f"$.configurable.{name}", message) for name in refused])
    if "agentVersion" in configurable and "agentChannel" in configurable:
        message = "give agentVersion or agentChannel, not both"
        raise invalid([Problem("$.configurable", message)])


def check_metadata(metadata: Any) -> None:
    """Refuse metadata that is too long or nested too deeply."""
    if metadata is None:
        return
    if len(msgspec.json.encode(metadata)) > MOST_METADATA_BYTES:
        message = f"longer than {MOST_METADATA_BYTES} bytes"
        raise invalid([Problem("$.metadata", message)])
    if _depth(metadata) > MOST_METADATA_DEPTH:
        message = f"nested more than {MOST_METADATA_DEPTH} levels deep"
        raise invalid([Problem("$.metadata", message)])


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, members), default=0)


class ScopeClaim:
    """The scope of a new run, if its request names one; with `X-Dedup`, only if it is free."""

    def __init__(self, call: ApiCall) -> None:
        self._scope: str | None = call.body.get("scopeId")
        self._partition = call.principal.partition
        enforced = call.request.headers.get("x-dedup")
        if enforced not in (None, "enforce"):
            raise invalid([Problem("X-Dedup", "must be `enforce`")])
        if enforced and self._scope is None:
            message = "required with `X-Dedup`"
            raise invalid([Problem("$.scopeId", message)])
        self._call = call
        self._is_enforced = bool(enforced)
        self._before: bytes | None = None

    async def refuse_active(self) -> None:
        """Raise `ApiError` 409 while another run of the scope is active."""
        if self._is_enforced:
            self._before = await self._call.read_soon(self._holder)
        if self._before is None:
            return
        run_id = self._before.decode()
        try:
            status = await self._call.host.runs.status(self._call.run_with(run_id))
        except RunNotFound:
            return
        if status not in ENDED:
            raise already_active(run_id)

    def _holder(self) -> bytes | None:
        assert self._scope is not None
        return self._call.host.records.get(SCOPE_KIND, self._partition, self._scope)

    def changes(self, run_id: str) -> list[RecordChange]:
        """The changes to write with the creation of the run."""
        if self._scope is None:
            return []
        taken = run_id.encode()
        expected = self._before if self._is_enforced else ANY
        return [RecordChange(SCOPE_KIND, self._partition, self._scope, taken, expected)]

    async def lost(self) -> ApiError:
        """The error if the run could not be created because another request was first."""
        holder = await self._call.read_soon(self._holder) if self._is_enforced else None
        return in_flight() if holder in (None, self._before) else already_active(holder.decode())


def already_active(run_id: str) -> ApiError:
    """The error for a second active run of a scope."""
    details = {"activeRunId": run_id, "activeHost": "cloud"}
    message = "a run of this scope is active"
    return try_again(409, "run_already_active", message, RETRY_SECONDS, details)


# Forks.

_MODE: Schema = {"enum": ["replay", "branch"]}
FORK_BODY: Schema = closed(
    {
        "mode": _MODE,
        "fromSeq": WHOLE,
        "runOptionsOverlay": closed(
            {
                "configurable": CREATE_BODY["properties"]["configurable"],
                "tags": TAGS,
                "metadata": OBJECT,
            }
        ),
    },
    ("mode",),
) | {
    "if": {"properties": {"mode": {"const": "branch"}}, "required": ["mode"]},
    "then": {"required": ["fromSeq"]},
    "else": {"properties": {"runOptionsOverlay": {"maxProperties": 0}}},
}
FORKED: Schema = opened(
    {
        "runId": ID,
        "sourceRunId": ID,
        "fromSeq": WHOLE,
        "mode": _MODE,
        "status": {"enum": list(STATUSES)},
        "eventsUrl": TEXT,
    },
    ("runId", "sourceRunId", "fromSeq", "mode", "status", "eventsUrl"),
)


@ROUTES.add(
    "POST",
    "/v1/runs/{runId}:fork",
    "forkRun",
    "runs:create",
    "runs:read",
    all_scopes=True,
    body=FORK_BODY,
    answers={201: ResponseDoc("The new run.", FORKED)},
    refuses=(404, 409, 422, 501),
    stores=RUN,
)
async def fork_run(call: ApiCall) -> Response:
    """Replay a run from its record, or branch it at an event."""
    body, source = call.body, call.path["runId"]
    given = body.get("runOptionsOverlay") or {}
    configurable = given.get("configurable", {})
    check_configurable(call, configurable)
    check_metadata(given.get("metadata"))
    message = "cannot be changed in a branch: its copied facts depend on it; start a new run"
    problems = [
        Problem(f"$.runOptionsOverlay.configurable.{name}", message)
        for name in _FIXED
        if name in configurable
    ]
    if problems:
        raise invalid(problems)
    request = ForkRequest(
        source=source,
        mode=body["mode"],
        from_sequence=body.get("fromSeq", 0),
        caller=owner_of(call.principal),
        overlay=Overlay(
            configurable=configurable,
            tags=given.get("tags"),
            metadata=given.get("metadata"),
            settings=from_configurable(configurable),
        ),
        traceparent=call.trace.traceparent,
    )
    is_replay = request.mode == "replay"
    status = await call.host.runs.status(call.run) if is_replay else "running"
    await call.room.need(await call.in_reader(lambda: call.log.facts(source).bytes))
    run = await call.new_run()
    forked = {
        "runId": run.run_id,
        "sourceRunId": source,
        "fromSeq": request.from_sequence,
        "mode": request.mode,
        "status": status,
        "eventsUrl": f"/v1/runs/{run.run_id}/events",
    }
    response = json_response(forked, 201, {"Location": f"/v1/runs/{run.run_id}"})
    fork = ForkOrigin(source, request.from_sequence, request.mode)
    with call.host.exports.hold(run.tenant), announced(call, run, fork):
        await call.host.forks.fork(run, request, call.completion(response))
    return response
