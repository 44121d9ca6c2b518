"""Seams of agents: one invocation outside of any evaluation, recorded as a run.

The run is written as one unit after the invocation, so that none is left open.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.agents.manifest import Contract
from evalwright.agents.protocol import Agent, AgentFailure, Invocation, Surroundings
from evalwright.agents.toolbox import ToolError
from evalwright.contracts.errors import BadInput, Problem
from evalwright.contracts.events import (
    InvocationCompleted,
    Payload,
    Reasoned,
    RunCompleted,
    RunFailure,
)
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.schema import ValueSchema
from evalwright.contracts.suite import Expected, Match, Task
from evalwright.engine.clock import Clock
from evalwright.engine.invocation import Invoker, TaskAnswer, invocation_id
from evalwright.engine.recorder import Recorder
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.http.routing import ApiCall, Schema, json_response
from evalwright.host.library.catalogue import BUNDLED_AGENT, RegisteredAgent
from evalwright.host.runs.handle import RunHandle
from evalwright.host.v1.create import run_started
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    NAME,
    OBJECT,
    TEXT,
    closed,
    listed,
    opened,
)
from evalwright.store.protocol import NewEvent
from evalwright_conformance.evaluations import GREETING
from evalwright_conformance.seams import seam

WORKFLOW_ID = "evalwright.invocation"
STRICT = "conformance-strict-handoff"

_ANYTHING = Expected("golden", Match("contains", ""))
_STRICT_RETURN: Schema = {"type": "string", "minLength": 1}


class HeldRecorder(Recorder):
    """Records a run in memory, to be written as one unit when it is complete."""

    def __init__(self, run: RunHandle, clock: Clock, redactor: Redactor) -> None:
        super().__init__(run.log, run.run_id, clock, redactor)
        self._run = run
        self.held: list[NewEvent] = []

    def record(
        self, task_id: str | None, *payloads: Payload, facts: Sequence[NewEvent] = ()
    ) -> None:
        """Hold payloads, in order."""
        self.held += self._events(task_id, payloads, facts)

    def note(self, task_id: str, payload: Payload) -> None:
        """Hold a payload like any other: nothing of such a run outlives this process."""
        self.record(task_id, payload)

    def hold(self, task_id: str, payload: Payload) -> None:
        """Keep a payload like all others."""
        self.record(task_id, payload)

    async def write(self) -> None:
        """Write everything as one unit."""
        await self._run.append(self.held)


class Staging(msgspec.Struct, frozen=True):
    """What a scenario makes an agent do in addition."""

    attempt_tool: str | None = None
    is_strict: bool = False  # its output must match a schema
    answers_wrongly: bool = False  # its output does not match it


class StagedAgent:
    """An agent that does what a scenario asks for, under the rules of every agent."""

    def __init__(self, agent: Agent, registered: RegisteredAgent, staging: Staging) -> None:
        self.agent_id = agent.agent_id
        self.ref = agent.ref
        self.model_class = agent.model_class
        self.is_outside = agent.is_outside
        self.reads_memory = agent.reads_memory
        self.converses = agent.converses
        self.holds_state = agent.holds_state
        self.allowed_tools: frozenset[str] | None = frozenset(registered.tool_allowlist)
        self._agent = agent
        self._staging = staging
        self._contract = Contract(_STRICT_RETURN, ValueSchema(_STRICT_RETURN, STRICT))

    async def invoke(self, invocation: Invocation) -> Any:
        """Do what the scenario asks for, then invoke the agent."""
        staging = self._staging
        invocation.record(Reasoned(self.agent_id, "", "off"))
        if staging.attempt_tool is not None:
            with suppress(ToolError):
                await invocation.use_tool(staging.attempt_tool)
        output = await self._agent.invoke(invocation)
        if not staging.is_strict:
            return output
        return self._checked(None if staging.answers_wrongly else output, invocation)

    def _checked(self, output: Any, invocation: Invocation) -> Any:
        broken = self._contract.broken_by(output)
        invocation.schema_valid = broken is None
        if broken:
            raise AgentFailure("schema_invalid", f"the output does not match {STRICT}: {broken}")
        return output

    async def close(self) -> None:
        """Release the agent."""
        await self._agent.close()


class Invoked(msgspec.Struct, frozen=True):
    """The result of an invocation."""

    run_id: str
    completed: InvocationCompleted
    events: list[dict[str, str]]  # type and agentId of the agent's events


async def invoke(call: ApiCall, agent_id: str, task_input: Any, staging: Staging) -> Invoked:
    """Invoke an agent once."""
    catalogue, tenant = call.host.catalogue, call.principal.tenant
    registered = await call.read_soon(lambda: catalogue.agent(tenant, agent_id))
    if registered is None:
        raise ApiError(404, "not_found", "no such agent")
    try:
        loaded = await call.read_soon(lambda: catalogue.load(tenant, registered))
    except BadInput as error:
        raise invalid([Problem("$.agentId", str(error))]) from None
    agent = StagedAgent(loaded, registered, staging)
    draft = HeldRecorder(await call.new_run(), call.host.clock, call.host.redactor)
    draft.record(None, run_started(call.principal, WORKFLOW_ID, {"agentId": agent_id}))
    try:
        answer, ending = await _invoker(call, agent, registered, draft).invoke(
            Task("invocation", task_input, _ANYTHING), invocation_id(0, 1)
        )
    finally:
        await agent.close()
    return await _written(draft, answer, ending)


def _invoker(
    call: ApiCall, agent: Agent, registered: RegisteredAgent, draft: HeldRecorder
) -> Invoker:
    facts = AgentFacts(agent.agent_id, f"host:{registered.key}", version=registered.version)
    return Invoker(
        agent,
        facts,
        draft,
        call.host.clock,
        Surroundings(redactor=call.host.redactor),
        call.host.settings.task_timeout_s,
        keep_deeds=False,
    )


async def _written(draft: HeldRecorder, answer: TaskAnswer, ending: list[Payload]) -> Invoked:
    completed = ending[-1]
    assert isinstance(completed, InvocationCompleted)
    draft.record(answer.task.task_id, *ending)
    taken_ms = answer.latency_ms
    draft.record(
        None, RunFailure(answer.error, taken_ms) if answer.error else RunCompleted({}, taken_ms)
    )
    events = [
        {"type": event.type, "agentId": completed.agent_id}
        for event in draft.held
        if event.type.startswith("agent.")
    ]
    await draft.write()
    return Invoked(draft.run_id, completed, events)


async def live_invoke(call: ApiCall) -> Response:
    """Invoke an agent, which breaks a rule if the request asks for it."""
    body = call.body
    staging = Staging(
        body.get("attemptTool"),
        "returnSchemaRef" in body,
        body.get("forceInvalidResult", False),
    )
    done = await invoke(call, body.get("agentId", BUNDLED_AGENT), GREETING, staging)
    completed = done.completed
    return json_response(
        {
            "runId": done.run_id,
            "invocationId": completed.invocation_id,
            "outcome": completed.outcome,
        }
    )


async def dispatch(call: ApiCall) -> Response:
    """Hand a task to an agent; returns the events of the invocation."""
    agent_id = call.path["agentId"]
    done = await invoke(call, agent_id, call.body.get("task") or GREETING, Staging())
    answer = {
        "agentId": agent_id,
        "runId": done.run_id,
        "status": done.completed.outcome,
        "events": done.events,
    }
    return json_response(answer)


_OUTCOME: Schema = {"enum": ["completed", "handed-off", "escalated", "refused", "failed"]}

ROUTES = [
    seam(
        "agents/live-invoke",
        live_invoke,
        "driveLiveInvocation",
        "Invoke an agent once, by default the bundled one.",
        closed(
            {
                "agentId": NAME,
                "source": {"enum": ["run-api"]},
                "returnSchemaRef": {"enum": [STRICT]},
                "forceInvalidResult": FLAG,
                "attemptTool": NAME,
            }
        ),
        closed({"runId": ID, "invocationId": ID, "outcome": _OUTCOME}, ("runId", "invocationId")),
    ),
    seam(
        "agents/{agentId}/dispatch",
        dispatch,
        "dispatchAgent",
        "Hand a task to an agent.",
        opened({"task": OBJECT}),
        closed(
            {
                "agentId": TEXT,
                "runId": ID,
                "status": _OUTCOME,
                "events": listed(closed({"type": TEXT, "agentId": TEXT}, ("type", "agentId"))),
            },
            ("agentId", "status", "events"),
        ),
    ),
]
