"""The form that starts a run; what is wrong with it is said at the field."""

from typing import Any

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.suite import Suite
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import PageCall, page, part, run_address, see
from evalwright.host.web.pages.run_starts import start_again, start_demo, start_run
from evalwright.store.protocol import EventLog, RunFilter

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
        return part(call, "start_details.html", errors={}, **form)
    return page(call, "start.html", title="Start a run", errors={}, **form)


async def start(call: PageCall) -> Response:
    """Start the run, or show what is wrong."""
    given: dict[str, Any] = {name: call.field(name) for name in _SINGLE}
    given["modes"] = call.fields("modes")
    judges = call.host.settings.judges
    chosen = () if given["judge"] in ("", ALL_JUDGES) else (given["judge"],)
    errors = _problems(given, judges)
    if not errors:
        try:
            configurable = _configurable(given)
            tags = tuple(tag for tag in given["tags"].replace(",", " ").split() if tag)
            run_id = await start_run(
                call, given["suite"], given["agent"], configurable, chosen, tags
            )
            return see(run_address(run_id))
        except ApiError as refusal:
            if refusal.status != 400:
                raise
            errors = _at_fields(refusal)
    form = await call.in_reader(lambda: _form(call, given))
    return page(
        call, "start.html", title="Start a run", status_code=UNPROCESSABLE, errors=errors, **form
    )


_SINGLE = ("suite", "agent", "baseline", "judge", "budget", "tags")


def _problems(given: dict[str, Any], judges: tuple[str, ...]) -> dict[str, str]:
    """What the form alone shows to be wrong."""
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


def _configurable(given: dict[str, Any]) -> dict[str, Any]:
    """The options of the run, by the names that the API has for them."""
    chosen = {
        "evalModes": given["modes"],
        "baselineRunId": given["baseline"],
        "maxCostUsd": _dollars(given["budget"]) if given["budget"] else None,
    }
    return {name: value for name, value in chosen.items() if value}


def _at_fields(refusal: ApiError) -> dict[str, str]:
    """The problems of a plan, each at its field; what has none is at the top."""
    errors: dict[str, str] = {}
    for problem in (refusal.details or {}).get("problems", ()):
        field = _FIELDS.get(problem["path"], "form")
        place = "" if field != "form" or problem["path"] == "$" else f"{problem['path']}: "
        errors.setdefault(field, f"{place}{problem['message']}")
    return errors or {"form": refusal.message}


def _form(call: PageCall, given: dict[str, Any]) -> dict[str, Any]:
    host, principal = call.host, call.principal
    suites = host.catalogue.suite_refs(principal.place)
    agents = host.catalogue.agents(principal.tenant)
    suite_ref = given.get("suite") or _usual_suite(call, suites)
    suite = host.catalogue.suite(principal.place, suite_ref) if suite_ref in suites else None
    agent = given.get("agent") or (suite.target_agent_id if suite else "") or ""
    if not agent:
        fitting = (each.agent_id for each in agents if each.eval_suite_ref == suite_ref)
        agent = next(fitting, agents[0].agent_id if agents else "")
    chosen = {"judge": ALL_JUDGES, "budget": "", "tags": "", "baseline": "", "modes": []}
    return {
        "given": {**chosen, **given, "suite": suite_ref, "agent": agent},
        "suites": suites,
        "agents": [(each.agent_id, each.label or each.persona) for each in agents],
        "judges": list(host.settings.judges),
        "limit": host.settings.max_cost_usd_per_suite,
        **_details(call, suite, suite_ref, agent),
    }


def _usual_suite(call: PageCall, suites: list[str]) -> str:
    latest = (run.suite for run in call.log.find_runs(RunFilter(is_evaluation=True), 20))
    return next((suite for suite in latest if suite in suites), suites[0] if suites else "")


def _details(call: PageCall, suite: Suite | None, ref: str, agent: str) -> dict[str, Any]:
    """What depends on the suite and the agent: modes, baselines, an estimate of the cost."""
    able = call.host.planner.modes
    modes = [mode for mode in suite.modes if mode in able] if suite else []
    wanted = RunFilter(suite=ref, status="completed")
    done = call.log.find_runs(wanted, MOST_BASELINES) if suite else []
    return {
        "modes": [(mode, MODE_WORDS[mode]) for mode in modes if mode != "regression"],
        "baselines": [
            (
                run.run_id,
                f"{call.host.figures.agent_of(call.log, run)}, score {amounts.score(run.score)}",
                run.started_us,
            )
            for run in done
            if run.score is not None
        ],
        "has_regression": "regression" in modes,
        "estimate": _estimate(call, call.log, suite, RunFilter(suite=ref, agent=agent)),
    }


def _estimate(call: PageCall, log: EventLog, suite: Suite | None, wanted: RunFilter) -> str:
    if suite is None:
        return ""
    runs = log.find_runs(wanted._replace(status="completed"), PRICED_RUNS)
    found = [call.host.figures.of(log, run) for run in runs]
    costs = [each.cost_usd for each in found if each is not None and each.cost_usd is not None]
    tasks = f"{len(suite.tasks):,} {'task' if len(suite.tasks) == 1 else 'tasks'}."
    if not costs:
        return f"{tasks} No run of this agent has had a known cost yet."
    if len(costs) == 1:
        return f"{tasks} The last run cost {amounts.dollars(costs[0])}."
    low, high = amounts.dollars(min(costs)), amounts.dollars(max(costs))
    return f"{tasks} The last {len(costs)} runs cost {low} to {high} each."


async def demo(call: PageCall) -> Response:
    """Start the demo."""
    return see(run_address(await start_demo(call)))


async def again(call: PageCall) -> Response:
    """Run the failed tasks of a run once more."""
    return see(run_address(await start_again(call, call.path["runId"])))
