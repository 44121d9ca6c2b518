"""Starting runs from pages: a new one, the demo, and the failed tasks of another once more."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import Origin, TaskSelection, from_configurable
from evalwright.engine.history import History, read_history
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.plan import Plan, limited
from evalwright.host.http.errors import ApiError
from evalwright.host.http.settings import HostSettings
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.runs.planning import EvalRequest, PlannedEvaluation
from evalwright.host.v1.create import announced, owner_of, take_room
from evalwright.host.web.page import PageCall


async def start_run(
    call: PageCall,
    suite_ref: str,
    agent_id: str,
    configurable: Mapping[str, Any],
    judges: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> str:
    """Plan a run and start it; returns its id. Raises `ApiError` if it is not possible."""
    request = EvalRequest(
        suite_ref=suite_ref,
        agent_id=agent_id,
        origin=_origin(call, configurable),
        options=from_configurable(configurable, tags),
        judges=judges,
    )
    partition, planner = call.principal.partition, call.host.planner
    planned = await asyncio.to_thread(planner.plan, call.log, partition, request)
    return await _begin(call, planned)


async def start_demo(call: PageCall) -> str:
    """Run the bundled suite against the bundled agent."""
    catalogue, tenant = call.host.catalogue, call.principal.tenant
    agent = await call.in_reader(lambda: catalogue.agent(tenant, BUNDLED_AGENT))
    if agent is None or agent.eval_suite_ref is None:
        raise ApiError(404, "not_found", "this host does not offer the demo")
    return await start_run(call, agent.eval_suite_ref, agent.agent_id, {}, tags=("demo",))


async def start_again(call: PageCall, run_id: str) -> str:
    """Run the tasks of a run that did not pass once more, with the same agent and settings."""
    planned = await asyncio.to_thread(_planned_again, call, run_id)
    return await _begin(call, planned)


async def _begin(call: PageCall, planned: PlannedEvaluation) -> str:
    await take_room(call, planned)
    run = await call.new_run()
    with announced(call, run):
        await call.host.runs.start(run, planned)
    return run.run_id


def _origin(call: PageCall, configurable: Mapping[str, Any]) -> Origin:
    return Origin(
        owner=owner_of(call.principal),
        transport="ui",
        configurable=dict(configurable) or None,
        traceparent=call.trace.headers().get("traceparent"),
    )


def _planned_again(call: PageCall, run_id: str) -> PlannedEvaluation:
    history = read_history(call.log, run_id)
    before = history.plan
    if before.origin is None:
        message = "this run was started from a command line; start it there again"
        raise ApiError(409, "conflict", message)
    plan = _within(_part_of(history, run_id), call.host.settings)
    origin = _origin(call, before.origin.configurable or {})
    plan = msgspec.structs.replace(plan, origin=origin)
    try:
        agent = call.host.planner.agent_of(call.principal.tenant, plan)
    except BadInput as error:
        raise ApiError(409, "conflict", f"the run cannot be repeated: {error}") from None
    return PlannedEvaluation(plan, agent)


def _within(plan: Plan, settings: HostSettings) -> Plan:
    """The plan within what is allowed here now; a log may come from elsewhere."""
    for judge in plan.panel.judges if plan.panel else ():
        if judge not in settings.judges:
            message = f"the run cannot be repeated: the judge {judge} is not offered here"
            raise ApiError(409, "conflict", message)
    return msgspec.structs.replace(plan, settings=limited(plan.settings, settings.limits))


def _part_of(history: History, run_id: str) -> Plan:
    """The plan of a run with those of its tasks that did not pass, or have no score."""
    plan = history.plan
    passed = {each.task_id for each in history.tally.results.values() if each.passed}
    left = [task for task in plan.suite.tasks if task.task_id not in passed]
    if not left:
        raise ApiError(409, "conflict", "every task of this run has passed")
    if len(left) == len(plan.suite.tasks):
        return plan
    whole = plan.selection.of if plan.selection else len(plan.suite.tasks)
    return msgspec.structs.replace(
        plan,
        suite=msgspec.structs.replace(plan.suite, tasks=left),
        modes=[mode for mode in plan.modes if mode != "regression"],
        baseline=None,
        selection=TaskSelection(whole, [f"failed in {run_id}"]),
        tags=list(dict.fromkeys([*plan.tags, PARTIAL])),
    )
