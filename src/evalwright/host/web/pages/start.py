"""The form that starts a run, the demo, and the failed tasks of a run once more."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import Origin, TaskSelection, from_configurable
from evalwright.contracts.suite import Suite
from evalwright.engine.history import read_history
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.plan import limited
from evalwright.host.http.errors import ApiError
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.runs.planning import EvalRequest, PlannedEvaluation
from evalwright.host.v1.create import announced, owner_of, take_room
from evalwright.host.web.page import PageCall, page, part, run_address, see
from evalwright.store.protocol import RunFilter

UNPROCESSABLE = 422
MOST_BASELINES = 20
PRICED_RUNS = 5  # by which the cost of another is estimated
ALL_JUDGES = "all"
MODE_WORDS = {
    "golden": "compare with expected answers",
    "rubric": "have answers judged",
    "adversarial": "look for safety findings",
    "regression": "compare with a baseline",
    "live-shadow": "call live tools",
}
_FIELDS = {
    "$.evalSuiteRef": "suite",
    "$.agentId": "agent",
    "$.configurable.evalModes": "modes",
    "$.configurable.baselineRunId": "baseline",
}


async def show(call: PageCall) -> Response:
    """The form, filled in as the address says; only its details when suite or agent change."""
    given: dict[str, Any] = {name: call.asked(name) for name in _SINGLE}
    given["modes"] = call.request.query_params.getlist("modes")
    given["judge"] = given["judge"] or ALL_JUDGES
    form = await call.in_reader(lambda: _form(call, given))
    if call.is_part:
        return part(call, "start_details.html", errors={}, is_part=True, **form)
    return page(call, "start.html", title="Start a run", errors={}, is_part=False, **form)


async def start(call: PageCall) -> Response:
    """Start the run, or show what is wrong."""
    given: dict[str, Any] = {name: call.field(name) for name in _SINGLE}
    given["modes"] = call.fields("modes")
    judges = call.host.settings.judges
    chosen = () if given["judge"] in ("", ALL_JUDGES) else (given["judge"],)
    errors = _problems(given, judges)
    if not errors:
        try:
            options = {
                "evalModes": given["modes"],
                "baselineRunId": given["baseline"],
                "maxCostUsd": _dollars(given["budget"]) if given["budget"] else None,
            }
            configurable = {name: value for name, value in options.items() if value}
            tags = tuple(given["tags"].replace(",", " ").split())
            return await _start(call, given["suite"], given["agent"], configurable, chosen, tags)
        except ApiError as refusal:
            if refusal.status != 400:
                raise
            # The problems of a plan, each at its field; what has none is at the top.
            for problem in (refusal.details or {}).get("problems", ()):
                field = _FIELDS.get(problem["path"], "form")
                is_placed = field != "form" or problem["path"] == "$"
                place = "" if is_placed else f"{problem['path']}: "
                errors.setdefault(field, f"{place}{problem['message']}")
            errors = errors or {"form": refusal.message}
    form = await call.in_reader(lambda: _form(call, given))
    return page(
        call,
        "start.html",
        title="Start a run",
        status_code=UNPROCESSABLE,
        is_part=False,
        errors=errors,
        **form,
    )


_SINGLE = ("suite", "agent", "baseline", "judge", "budget", "tags")


def _problems(given: dict[str, Any], judges: tuple[str, ...]) -> dict[str, str]:
    errors = {}
    for name in ("suite", "agent"):
        if not given[name]:
            errors[name] = f"Choose {'an agent' if name == 'agent' else 'a suite'}."
    if given["budget"] and _dollars(given["budget"]) is None:
        errors["budget"] = "Give an amount of dollars above 0, such as 0.50."
    if given["judge"] not in ("", ALL_JUDGES, *judges):
        errors["judge"] = "This host does not have this judge."
    return errors


def _dollars(text: str) -> float | None:
    try:
        amount = float(text)
    except ValueError:
        return None
    return amount if 0 < amount < float("inf") else None


def _form(call: PageCall, given: dict[str, Any]) -> dict[str, Any]:
    host, principal = call.host, call.principal
    suites = host.catalogue.suite_refs(principal.place)
    agents = host.catalogue.agents(principal.tenant)
    suite_ref = given.get("suite")
    if not suite_ref:  # that of the latest run
        latest = (run.suite for run in call.log.find_runs(RunFilter(is_evaluation=True), 20))
        usual = suites[0] if suites else ""
        suite_ref = next((suite for suite in latest if suite in suites), usual)
    suite = host.catalogue.suite(principal.place, suite_ref) if suite_ref in suites else None
    agent = given.get("agent") or (suite.target_agent_id if suite else "") or ""
    if not agent:
        fitting = (each.agent_id for each in agents if each.eval_suite_ref == suite_ref)
        agent = next(fitting, agents[0].agent_id if agents else "")
    modes = [mode for mode in suite.modes if mode in host.planner.modes] if suite else []
    wanted = RunFilter(suite=suite_ref, status="completed")
    done = call.log.find_runs(wanted, MOST_BASELINES) if suite else []
    chosen = {"judge": ALL_JUDGES, "budget": "", "tags": "", "baseline": "", "modes": []}
    return {
        "given": {**chosen, **given, "suite": suite_ref, "agent": agent},
        "suites": suites,
        "agents": [(each.agent_id, each.label or each.persona) for each in agents],
        "judges": list(host.settings.judges),
        "limit": host.settings.max_cost_usd_per_suite,
        "modes": [(mode, MODE_WORDS[mode]) for mode in modes if mode != "regression"],
        "baselines": [
            (
                run.run_id,
                f"{host.figures.agent_of(call.log, run)}, score {amounts.score(run.score)}",
                run.started_us,
            )
            for run in done
            if run.score is not None
        ],
        "has_regression": "regression" in modes,
        "estimate": _estimate(call, suite, wanted._replace(agent=agent)) if suite else "",
    }


def _estimate(call: PageCall, suite: Suite, wanted: RunFilter) -> str:
    runs = call.log.find_runs(wanted, PRICED_RUNS)
    found = [call.host.figures.of(call.log, run) for run in runs]
    costs = [each.cost_usd for each in found if each is not None and each.cost_usd is not None]
    tasks = f"{len(suite.tasks):,} {'task' if len(suite.tasks) == 1 else 'tasks'}."
    if not costs:
        return f"{tasks} No run of this agent has had a known cost yet."
    if len(costs) == 1:
        return f"{tasks} The last run cost {amounts.dollars(costs[0])}."
    low, high = amounts.dollars(min(costs)), amounts.dollars(max(costs))
    return f"{tasks} The last {len(costs)} runs cost {low} to {high} each."


async def demo(call: PageCall) -> Response:
    """Run the bundled suite against the bundled agent."""
    catalogue, tenant = call.host.catalogue, call.principal.tenant
    agent = await call.in_reader(lambda: catalogue.agent(tenant, BUNDLED_AGENT))
    if agent is None or agent.eval_suite_ref is None:
        raise ApiError(404, "not_found", "this host does not offer the demo")
    return await _start(call, agent.eval_suite_ref, agent.agent_id, {}, tags=("demo",))


async def again(call: PageCall) -> Response:
    """Run the tasks of a run that did not pass once more, with the same agent and settings."""
    return await _begin(call, await asyncio.to_thread(_planned_again, call, call.path["runId"]))


async def _start(
    call: PageCall,
    suite_ref: str,
    agent_id: str,
    configurable: Mapping[str, Any],
    judges: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> Response:
    request = EvalRequest(
        suite_ref=suite_ref,
        agent_id=agent_id,
        origin=_origin(call, configurable),
        options=from_configurable(configurable, tags),
        judges=judges,
    )
    plan, partition = call.host.planner.plan, call.principal.partition
    return await _begin(call, await asyncio.to_thread(plan, call.log, partition, request))


async def _begin(call: PageCall, planned: PlannedEvaluation) -> Response:
    await take_room(call, planned)
    run = await call.new_run()
    with announced(call, run):
        await call.host.runs.start(run, planned)
    return see(run_address(run.run_id))


def _origin(call: PageCall, configurable: Mapping[str, Any]) -> Origin:
    return Origin(
        owner=owner_of(call.principal),
        transport="ui",
        configurable=dict(configurable) or None,
        traceparent=call.trace.traceparent,
    )


def _planned_again(call: PageCall, run_id: str) -> PlannedEvaluation:
    """The plan of a run with those of its tasks that did not pass, within what is allowed here now.

    A log may come from elsewhere.
    """
    history, settings = read_history(call.log, run_id), call.host.settings
    plan, before = history.plan, history.plan.origin
    if before is None:
        message = "this run was started from a command line; start it there again"
        raise ApiError(409, "conflict", message)
    passed = {each.task_id for each in history.tally.results.values() if each.passed}
    tasks = plan.suite.tasks
    left = [task for task in tasks if task.task_id not in passed]
    if not left:
        raise ApiError(409, "conflict", "every task of this run has passed")
    if len(left) < len(tasks):
        whole = plan.selection.of if plan.selection else len(tasks)
        plan = msgspec.structs.replace(
            plan,
            suite=msgspec.structs.replace(plan.suite, tasks=left),
            modes=[mode for mode in plan.modes if mode != "regression"],
            baseline=None,
            selection=TaskSelection(whole, [f"failed in {run_id}"]),
            tags=list(dict.fromkeys([*plan.tags, PARTIAL])),
        )
    for judge in plan.panel.judges if plan.panel else ():
        if judge not in settings.judges:
            message = f"the run cannot be repeated: the judge {judge} is not offered here"
            raise ApiError(409, "conflict", message)
    plan = msgspec.structs.replace(
        plan,
        settings=limited(plan.settings, settings.limits),
        origin=_origin(call, before.configurable or {}),
    )
    try:
        agent = call.host.planner.agent_of(call.principal.tenant, plan)
    except BadInput as error:
        raise ApiError(409, "conflict", f"the run cannot be repeated: {error}") from None
    return PlannedEvaluation(plan, agent)
