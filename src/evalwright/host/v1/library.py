"""What tenants keep: suites, agents, results of prompts, annotations on runs."""

import asyncio
from typing import Any, get_args

import msgspec
from starlette.responses import Response

from evalwright.contracts.annotation import ANNOTATION_KIND, Annotation, AnnotationTarget, Signal
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.manifest import parse_manifest
from evalwright.contracts.schema import SUITE
from evalwright.contracts.suite import ModelClass, weight_warnings
from evalwright.host.access.egress import EgressRefused
from evalwright.host.access.quotas import BYTES, FREE, Stores
from evalwright.host.http.errors import MOST_PROBLEMS, ApiError, invalid, shown_problem
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.library.catalogue import RegisteredAgent, described
from evalwright.host.library.prompts import LONGEST_PATH, MOST_RESULTS, read_results
from evalwright.host.streams.feed import Notice
from evalwright.host.v1.schemas import (
    ID,
    OBJECT,
    TEXT,
    TIME,
    WHOLE,
    Routes,
    Schema,
    closed,
    embedded,
    listed,
    opened,
    query,
    whole,
)
from evalwright.store.protocol import RunFilter

MOST_LISTED = 1000

AFTER = query("after", TEXT, "The `next` of the previous page.")

# Suites: each version is published once and never changes.

SUITE_ROUTES = Routes("suites")

_PUBLISHED = opened(
    {"suiteId": TEXT, "version": TEXT, "evalSuiteRef": TEXT, "warnings": listed(OBJECT)},
    ("suiteId", "version", "evalSuiteRef"),
)


def _named(ref: str) -> dict[str, str]:
    suite_id, _, version = ref.rpartition("@")
    return {"suiteId": suite_id, "version": version, "evalSuiteRef": ref}


@SUITE_ROUTES.add(
    "POST",
    "/v1/suites",
    "publishSuite",
    "suites:write",
    body={"anyOf": [embedded(SUITE), {"type": "object", "required": ["evalwright"]}]},
    answers={
        200: ResponseDoc("The same suite was already published.", _PUBLISHED),
        201: ResponseDoc("The suite is published.", _PUBLISHED),
    },
    refuses=(409,),
    stores=Stores("suites", asks=True),
)
async def publish(call: ApiCall) -> Response:
    """Publish the suite in the body."""
    call.body = None  # as a suite it is read from the text; others wait with theirs meanwhile
    catalogue, principal = call.host.catalogue, call.principal
    suite = await call.parse(lambda: catalogue.read_suite(principal.place, call.raw, "body"))
    most = call.host.settings.max_tasks_per_suite
    ref = f"{suite.suite_id}@{suite.version}"
    if await asyncio.to_thread(catalogue.suite_source, principal.place, ref) is None:
        await call.room.need(len(call.raw), "suites")
    is_new = await catalogue.publish(principal.place, call.raw, suite)
    if is_new is None:
        message = f"{ref} is already published with other content; use a new version"
        raise ApiError(409, "conflict", message, {"evalSuiteRef": ref})
    named = {**_named(ref), "taskCount": len(suite.tasks), "maxTasksPerSuite": most}
    warnings = weight_warnings(suite)[:MOST_PROBLEMS]
    warned = {"warnings": [shown_problem(each) for each in warnings]} if warnings else {}
    location = {"Location": f"/v1/suites/{ref}"}
    return json_response({**named, **warned}, 201 if is_new else 200, location)


@SUITE_ROUTES.add(
    "GET",
    "/v1/suites",
    "listSuites",
    "suites:read",
    parameters=(
        query("limit", whole(1, MOST_LISTED), "The maximum number of suites; 100 by default."),
        AFTER,
    ),
    answers={
        200: ResponseDoc("Suites by name.", opened({"suites": listed(_PUBLISHED)}, ("suites",)))
    },
    refuses=(400,),
)
async def list_suites(call: ApiCall) -> Response:
    """The suites that the caller can run."""
    limit, after = call.query.get("limit", 100), call.query.get("after", "")
    refs = await asyncio.to_thread(
        call.host.catalogue.suite_refs, call.principal.place, after, limit + 1
    )
    rest = {"next": refs[limit - 1]} if len(refs) > limit else {}
    return json_response({"suites": [_named(ref) for ref in refs[:limit]], **rest})


@SUITE_ROUTES.add(
    "GET",
    "/v1/suites/{suiteId}@{version}",
    "getSuite",
    "suites:read",
    answers={200: ResponseDoc("The suite.", OBJECT)},
    refuses=(404,),
)
async def read_suite(call: ApiCall) -> Response:
    """A suite as published."""
    ref = f"{call.path['suiteId']}@{call.path['version']}"
    source = await asyncio.to_thread(
        call.host.catalogue.suite_source, call.principal.place, ref
    )  # it may be long
    if source is None:
        raise ApiError(404, "not_found", "no such suite")
    return Response(source, media_type="application/json")


@SUITE_ROUTES.add(
    "DELETE",
    "/v1/suites/{suiteId}@{version}",
    "deleteSuite",
    "suites:write",
    answers={204: ResponseDoc("The suite is deleted.")},
    refuses=(400, 404, 409),
    stores=FREE,
)
async def remove_suite(call: ApiCall) -> Response:
    """Delete a published suite."""
    catalogue, principal = call.host.catalogue, call.principal
    ref = f"{call.path['suiteId']}@{call.path['version']}"

    def why_needed() -> str | None:
        if catalogue.is_bundled(ref):
            return "it belongs to the host"
        if ref in catalogue.pack_suites(principal.tenant):
            return "it belongs to an installed pack"
        for is_test in (False, True):
            partition = msgspec.structs.replace(principal, is_test=is_test).partition
            log = call.host.log.for_tenant(partition)
            for run in log.find_runs(RunFilter(suite=ref, has_ended=False), limit=1):
                return f"run {run.run_id} has not ended"
        return None

    needed = await asyncio.to_thread(why_needed)
    if needed is not None:
        message = f"the suite cannot be deleted: {needed}"
        raise ApiError(409, "conflict", message, {"reason": needed})
    if not await catalogue.unpublish(principal.place, ref):
        raise ApiError(404, "not_found", "no such suite")
    call.audit("suites.delete", "suites:write", f"suite:{ref}")
    return Response(status_code=204)


# Agents.

AGENT_ROUTES = Routes("agents")
RESERVED = ("roster", "org-chart")

_VERSION = {"type": "string", "pattern": r"^\d{1,9}\.\d{1,9}\.\d{1,9}$"}
_SHORT = {"type": "string", "minLength": 1, "maxLength": 512}
_REGISTRATION = {  # not `oneOf`, whose errors only say that no alternative matches
    "type": "object",
    "if": {"required": ["manifest"]},
    "then": closed({"version": _VERSION, "manifest": OBJECT}, ("version", "manifest")),
    "else": closed(
        {
            "agentId": {
                "type": "string",
                "maxLength": 256,
                "pattern": r"^(core|vendor|community|private|local)\.[a-z0-9-]+(\.[a-z0-9-]+)+$",
            },
            "version": _VERSION,
            "url": {"type": "string", "minLength": 1, "maxLength": 2048},
            "modelClass": {"enum": list(get_args(ModelClass))},
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


@AGENT_ROUTES.add(
    "GET",
    "/v1/agents",
    "listAgents",
    "agents:read",
    answers={
        200: ResponseDoc(
            "Agents by id.",
            closed({"agents": listed(_ENTRY), "total": {"type": "integer"}}, ("agents", "total")),
        )
    },
)
async def list_agents(call: ApiCall) -> Response:
    """The agents that the caller can run."""
    found = await asyncio.to_thread(call.host.catalogue.agents, call.principal.tenant)
    agents = [_entry(agent) for agent in found]
    return json_response({"agents": agents, "total": len(agents)})


@AGENT_ROUTES.add(
    "POST",
    "/v1/agents",
    "registerAgent",
    "agents:write",
    body=_REGISTRATION,
    answers={
        200: ResponseDoc("The agent was already registered with this content.", _ENTRY),
        201: ResponseDoc("The agent is registered.", _ENTRY),
    },
    refuses=(409,),
    stores=BYTES,
)
async def register(call: ApiCall) -> Response:
    """Register an agent by its manifest or its URL."""
    body = call.body
    if "manifest" in body:
        try:
            manifest = parse_manifest(msgspec.json.encode(body["manifest"]), "manifest")
        except InvalidDocument as error:
            raise invalid([problem.below("$.manifest") for problem in error.problems]) from None
        refs = [manifest.system_prompt_ref, manifest.eval_suite_ref]
        refs += [manifest.handoff.task_schema_ref, manifest.handoff.return_schema_ref]
        if any(refs):
            message = "refers to files, which a manifest alone does not have"
            raise invalid([Problem("$.manifest", f"{message}; install a pack instead")])
        agent = described(manifest, body["version"], manifest=body["manifest"])
    else:
        try:
            call.host.egress.check_url(body["url"], https_only=True)
        except EgressRefused as refusal:
            raise invalid([Problem("$.url", str(refusal))]) from None
        agent = RegisteredAgent(
            agent_id=body["agentId"],
            version=body["version"],
            persona=body.get("persona") or body["agentId"],
            model_class=body.get("modelClass", "general"),
            label=body.get("label"),
            description=body.get("description"),
            url=body["url"],
        )
    is_new = await call.host.catalogue.register(call.principal.tenant, agent)
    if is_new is None:
        message = f"{agent.key} is already registered with other content; use a new version"
        raise ApiError(409, "conflict", message)
    headers = {"Location": f"/v1/agents/{agent.agent_id}"}
    return json_response(_entry(agent), 201 if is_new else 200, headers)


@AGENT_ROUTES.add(
    "GET",
    "/v1/agents/{agentId}",
    "getAgent",
    "agents:read",
    answers={200: ResponseDoc("The agent.", _ENTRY)},
    refuses=(404,),
)
async def read_agent(call: ApiCall) -> Response:
    """One agent."""
    agent_id = call.path["agentId"]
    agent = await call.read_soon(lambda: call.host.catalogue.agent(call.principal.tenant, agent_id))
    if agent is None or agent_id in RESERVED:
        raise ApiError(404, "not_found", "no such agent")
    return json_response(_entry(agent))


# Results of prompts: pushed here by `prompteval --push`, and shown on the pages.

PROMPT_ROUTES = Routes("prompts")


@PROMPT_ROUTES.add(
    "GET",
    "/v1/prompts",
    "listPrompts",
    "prompts:read",
    parameters=(
        query("limit", whole(1, MOST_LISTED), "The maximum number of prompts; 100 by default."),
        AFTER,
    ),
    answers={
        200: ResponseDoc("Prompts by path.", opened({"prompts": listed(OBJECT)}, ("prompts",)))
    },
    refuses=(400,),
)
async def list_prompts(call: ApiCall) -> Response:
    """The prompts whose results were pushed, each with its latest evaluation."""
    limit, after = call.query.get("limit", 100), call.query.get("after", "")
    found = await call.in_reader(
        lambda: call.host.prompts.some(call.principal.partition, after, limit + 1)
    )
    more = len(found) > limit
    rest = {"next": msgspec.json.decode(found[limit - 1])["path"]} if more else {}
    return json_response({"prompts": found[:limit], **rest})


@PROMPT_ROUTES.add(
    "POST",
    "/v1/prompts/results",
    "pushPromptResults",
    "prompts:write",
    body=closed(
        {
            "results": listed(OBJECT, minItems=1, maxItems=MOST_RESULTS),
            "texts": {
                "type": "object",
                "additionalProperties": TEXT,
                "propertyNames": {"maxLength": LONGEST_PATH},
                "maxProperties": MOST_RESULTS,
            },
        },
        ("results",),
    ),
    answers={
        200: ResponseDoc(
            "How many results and files were kept.",
            closed({"results": WHOLE, "files": WHOLE}, ("results", "files")),
        )
    },
    stores=BYTES,
)
async def push(call: ApiCall) -> Response:
    """Keep results of `prompteval`, with the texts of their files."""
    try:
        results = await call.parse(lambda: read_results(call.body["results"]))
    except InvalidDocument as error:
        raise invalid(error.problems) from None
    files = await asyncio.to_thread(
        call.host.prompts.keep, call.principal.partition, results, call.body.get("texts", {})
    )
    return json_response({"results": len(results), "files": files})


# Annotations on runs: ratings, labels, flags, and corrections of scores.

ANNOTATION_ROUTES = Routes("annotations")
ANNOTATED = "run.annotated"


def _signal(label: Schema, correction: Schema) -> Schema:
    """The field named like a kind is required for this kind and forbidden for others."""
    fields = {
        "kind": {"enum": ["rating", "correction", "label", "flag"]},
        "rating": whole(1, 5),
        "label": label,
        "correction": correction,
    }
    pairs = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": {"required": [kind]},
            "else": {"properties": {kind: False}},
        }
        for kind in ("rating", "label", "correction")
    ]
    return closed(fields, ("kind",)) | {"allOf": pairs}


ANNOTATION: Schema = closed(
    {
        "annotationId": ID,
        "target": closed({"runId": ID, "eventId": ID, "nodeId": TEXT}, ("runId",)),
        "signal": _signal(TEXT, TEXT),
        "actor": closed({"principalRef": ID}, ("principalRef",)),
        "note": TEXT,
        "createdAt": TIME,
    },
    ("annotationId", "target", "signal", "actor", "createdAt"),
)


@ANNOTATION_ROUTES.add(
    "POST",
    "/v1/runs/{runId}/annotations",
    "createAnnotation",
    "runs:annotate",
    body=closed(
        {
            "target": closed({"eventId": ID, "nodeId": {"type": "string", "minLength": 1}}),
            "signal": _signal(
                {"type": "string", "minLength": 1, "maxLength": 256},
                {"type": "string", "maxLength": 4096},
            ),
            "note": {"type": "string", "maxLength": 2048},
        },
        ("signal",),
    ),
    answers={201: ResponseDoc("The annotation, with secrets masked.", ANNOTATION)},
    refuses=(404, 409),
    stores=Stores("annotations"),
)
async def annotate(call: ApiCall) -> Response:
    """Annotate a run; a correction of an eval.scored event overrides its score."""
    run, body = call.run, call.body
    target = body.get("target", {})
    annotation = call.host.annotations.new(
        AnnotationTarget(run.run_id, target.get("eventId"), target.get("nodeId")),
        msgspec.convert(body["signal"], Signal),
        call.principal.principal,
        body.get("note"),
    )
    response = json_response(annotation, 201)
    await call.host.annotations.add(run, [annotation], call.completion(response))
    publish_annotation(call, annotation)
    return response


def publish_annotation(call: ApiCall, annotation: Annotation) -> None:
    """Notify the followers of the run, and write the audit log."""
    notice_id, body = annotation.annotation_id, msgspec.json.encode(annotation)
    notice = Notice(notice_id, ANNOTATED, call.host.clock.now_us(), body)
    call.host.feed.notify(call.path["runId"], notice)
    call.audit("runs.annotate", "runs:annotate", f"{ANNOTATION_KIND}:{notice_id}")


@ANNOTATION_ROUTES.add(
    "GET",
    "/v1/runs/{runId}/annotations",
    "listAnnotations",
    "runs:read",
    answers={
        200: ResponseDoc(
            "Annotations, oldest first.",
            closed({"annotations": listed(ANNOTATION)}, ("annotations",)),
        )
    },
    refuses=(404,),
)
async def list_annotations(call: ApiCall) -> Response:
    """The annotations of a run."""
    found = await asyncio.to_thread(call.host.annotations.of_run, call.run)
    return json_response({"annotations": found})


ROUTES = [*SUITE_ROUTES, *AGENT_ROUTES, *PROMPT_ROUTES, *ANNOTATION_ROUTES]
