"""The form that starts a run, the demo, and the failed tasks of a run once more."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import Origin, TaskSelection, from_configurable
from evalwright.contracts.short_names import suite_name
from evalwright.engine.history import read_history
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.plan import limited
from evalwright.engine.runs import read_agent
from evalwright.host.http.errors import ApiError
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.runs.planning import EvalRequest, PlannedEvaluation
from evalwright.host.v1.create import announced, owner_of, reserve_room
from evalwright.host.web.folder_runs import FolderOffer, FolderRuns, FolderSuite
from evalwright.host.web.page import PageCall, page, part, run_address, see
from evalwright.store.protocol import RunFacts, RunFilter

UNPROCESSABLE = 422
MOST_BASELINES = 20
PRICED_RUNS = 5  # by which the cost of another is estimated
MOST_CHOICES = 12  # suites that all stand on the page
MOST_REPEATS = 20
STARTING_SECONDS = 20.0  # that a command has until its run is in the log
LOOK_SECONDS = 0.1
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
_OPTION_FIELDS = {
    "model": "models",
    "agent": "agent",
    "baseline": "baseline",
    "max-cost": "budget",
    "repeat": "repeat",
}


async def show(call: PageCall) -> Response:
    """The form, filled in as the address says; only its details when a choice changes."""
    given: dict[str, Any] = {name: call.asked(name) for name in _SINGLE}
    given |= {name: call.request.query_params.getlist(name) for name in _SEVERAL}
    form = await call.in_reader(lambda: _form(call, given))
    if call.is_part:
        return part(call, "start_details.html", errors={}, is_part=True, **form)
    return page(call, "start.html", title="Start a run", errors={}, is_part=False, **form)


async def start(call: PageCall) -> Response:
    """Start the run, or show what is wrong."""
    given: dict[str, Any] = {name: call.field(name) for name in _SINGLE}
    given |= {name: call.fields(name) for name in _SEVERAL}
    offer = await call.in_reader(call.folder.offer) if call.folder else FolderOffer()
    if given["suite"] in offer.suites:
        answer = await _start_here(call, given, offer)
    else:
        answer = await _start_offered(call, given)
    if isinstance(answer, Response):
        return answer
    form = await call.in_reader(lambda: _form(call, given))
    return page(
        call,
        "start.html",
        title="Start a run",
        status_code=UNPROCESSABLE,
        is_part=False,
        errors=answer,
        **form,
    )


async def _start_offered(call: PageCall, given: dict[str, Any]) -> Response | dict[str, str]:
    """Start a run of what the host offers; returns what is wrong, by field."""
    judges = call.host.settings.judges
    chosen = () if given["judge"] in ("", ALL_JUDGES) else (given["judge"],)
    errors = _problems(given, judges)
    if errors:
        return errors
    options = {
        "evalModes": given["modes"],
        "baselineRunId": given["baseline"],
        "maxCostUsd": _dollars(given["budget"]) if given["budget"] else None,
    }
    configurable = {name: value for name, value in options.items() if value}
    try:
        tags = _tags(given)
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
        return errors or {"form": refusal.message}


async def _start_here(
    call: PageCall, given: dict[str, Any], offer: FolderOffer
) -> Response | dict[str, str]:
    """Start a command in the folder, with nothing but what is offered; or what is wrong."""
    assert call.folder is not None
    errors = _problems(given, ())
    agent = offer.agents.get(given["agent"])
    if agent is None:
        errors["agent"] = "Choose one of the agents of this folder."
    elif agent.needs_model and not given["models"]:
        errors["models"] = "This agent is a manifest: choose the models that it runs on."
    elif given["models"] and not agent.needs_model:
        errors["models"] = "Only a manifest runs on a model of your choice; leave them out."
    if not set(given["models"]) <= set(offer.models):
        errors["models"] = "Choose models that the settings file names."
    repeat = given["repeat"] or "1"
    if not repeat.isdecimal() or not 1 <= int(repeat) <= MOST_REPEATS:
        errors["repeat"] = f"Give a whole number from 1 to {MOST_REPEATS}."
    if given["baseline"] and given["baseline"] not in (
        each[0] for each in await call.in_reader(lambda: _baselines(call, offer, given["suite"]))
    ):
        errors["baseline"] = "Choose one of the runs of this suite."
    least = await call.in_reader(lambda: _least_cost(call, offer, given))
    if given["budget"] and not errors and least > float(given["budget"]):
        errors["budget"] = f"At least {amounts.dollars(least)} was needed for each earlier run."
    if errors:
        return errors
    words = _words(call.folder, given)
    began_us = call.host.clock.now_us()
    process = await asyncio.to_thread(call.folder.begin, words)
    suite = offer.suites[given["suite"]].ref
    for _ in range(round(STARTING_SECONDS / LOOK_SECONDS)):
        has_ended = process.poll() is not None
        found = await call.in_reader(
            lambda: call.log.find_runs(RunFilter(suite=suite, is_evaluation=True), 1)
        )
        if found and found[0].started_us >= began_us:
            return see(run_address(found[0].run_id))
        if has_ended:
            options, said = call.folder.refusal(process)
            fields = (_OPTION_FIELDS[option] for option in options if option in _OPTION_FIELDS)
            return {next(fields, "form"): said}
        await asyncio.sleep(LOOK_SECONDS)
    return see("/runs")


def _words(folder: FolderRuns, given: dict[str, Any]) -> list[str]:
    options = [("agent", given["agent"]), *(("model", each) for each in given["models"])]
    options += [
        ("repeat", given["repeat"] if given["repeat"] != "1" else ""),
        ("max-cost", given["budget"]),
        ("baseline", given["baseline"]),
        *(("tag", tag) for tag in _tags(given)),
    ]
    return folder.words(given["suite"], options)


def _tags(given: dict[str, Any]) -> tuple[str, ...]:
    return tuple(given["tags"].replace(",", " ").split())


_SINGLE = ("suite", "agent", "baseline", "judge", "budget", "tags", "repeat")
_SEVERAL = ("modes", "models")


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
    offer = call.folder.offer() if call.folder else FolderOffer()
    suites = host.catalogue.suite_refs(principal.place)
    chosen = given.get("suite")
    if not chosen:  # that of the latest run
        latest = [run.suite for run in call.log.find_runs(RunFilter(is_evaluation=True), 20)]
        here = {each.ref: path for path, each in offer.suites.items()}
        known = {**{ref: ref for ref in suites}, **here}
        usual = next(iter([*offer.suites, *suites]), "")
        chosen = next((known[suite] for suite in latest if suite in known), usual)
    given = {"judge": ALL_JUDGES, "budget": "", "tags": "", "baseline": "", **given}
    given["suite"] = chosen
    told = _told_here(call, given, offer) if chosen in offer.suites else _told(call, given, suites)
    listed = [_here_listed(call, each) for each in offer.suites.values()]
    few = len(suites) <= MOST_CHOICES
    listed += [
        {
            "value": ref,
            "title": suite_name(ref),
            "last": _last(call, ref) if few else "",
            "sub": ref,
        }
        for ref in suites
    ]
    return {
        "given": given,
        "suites": listed,
        "are_choices": len(listed) <= MOST_CHOICES,
        "limit": host.settings.max_cost_usd_per_suite,
        "is_here": chosen in offer.suites,
        **told,
    }


def _last(call: PageCall, suite: str) -> str:
    """The pass rate of the latest run of a suite."""
    runs = call.log.find_runs(RunFilter(suite=suite, status="completed"), 1)
    figures = call.host.figures.of(call.log, runs[0]) if runs else None
    return f"last {amounts.percent(figures.passed, figures.tasks)}" if figures else ""


def _here_listed(call: PageCall, suite: FolderSuite) -> dict[str, Any]:
    facts = [suite.path]
    if suite.tasks is not None:
        facts.append(f"{suite.tasks:,} {'task' if suite.tasks == 1 else 'tasks'}")
    if suite.bar is not None:
        facts.append(f"bar {amounts.percent(suite.bar)}")
    last = _last(call, suite.ref)
    return {"value": suite.path, "title": suite.title, "last": last, "sub": " · ".join(facts)}


def _told_here(call: PageCall, given: dict[str, Any], offer: FolderOffer) -> dict[str, Any]:
    """What can be chosen for a suite of the folder, and what it would cost."""
    assert call.folder is not None
    suite = offer.suites[given["suite"]]
    if given["agent"] not in offer.agents:
        usual = suite.agent if suite.agent in offer.agents else next(iter(offer.agents), "")
        given["agent"] = usual
    agent = offer.agents.get(given["agent"])
    runs = _priced(call, offer, given)
    models = []
    for model in offer.models if agent and agent.needs_model else ():
        costs = [each.cost_usd for each in runs.get(model, ()) if each.cost_usd is not None]
        words = f"{amounts.dollars(sum(costs) / len(costs))} per run" if costs else ""
        models.append((model, words))
    return {
        "agents": [(ref, "") for ref in offer.agents],
        "models": models,
        "judges": [],
        "modes": [],
        "baselines": _baselines(call, offer, given["suite"]),
        "has_regression": True,
        "estimate": _estimate(suite.tasks, runs, given["models"], given["repeat"]),
        "command": call.folder.typed(_words(call.folder, given)),
    }


def _told(call: PageCall, given: dict[str, Any], suites: list[str]) -> dict[str, Any]:
    """What can be chosen for a suite that the host offers."""
    host, ref = call.host, given["suite"]
    agents = host.catalogue.agents(call.principal.tenant)
    suite = host.catalogue.suite(call.principal.place, ref) if ref in suites else None
    agent = given.get("agent") or (suite.target_agent_id if suite else "") or ""
    if not agent:
        fitting = (each.agent_id for each in agents if each.eval_suite_ref == ref)
        agent = next(fitting, agents[0].agent_id if agents else "")
    given["agent"] = agent
    modes = [mode for mode in suite.modes if mode in host.planner.modes] if suite else []
    found = call.log.find_runs(RunFilter(suite=ref, agent=agent, status="completed"), PRICED_RUNS)
    figures = [each for run in found if (each := _priced_run(call, run)) is not None]
    return {
        "agents": [(each.agent_id, each.label or each.persona) for each in agents],
        "models": [],
        "judges": list(host.settings.judges),
        "modes": [(mode, MODE_WORDS[mode]) for mode in modes if mode != "regression"],
        "baselines": _baselines_of(call, ref) if suite else [],
        "has_regression": "regression" in modes,
        "estimate": _estimate(len(suite.tasks), {"": figures}, (), "") if suite else None,
        "command": "",
    }


def _baselines(call: PageCall, offer: FolderOffer, path: str) -> list[tuple[str, str, int]]:
    return _baselines_of(call, offer.suites[path].ref)


def _baselines_of(call: PageCall, ref: str) -> list[tuple[str, str, int]]:
    agent_of = call.host.figures.agent_of
    return [
        (
            run.run_id,
            f"run {run.number}, {agent_of(call.log, run)}, score {amounts.score(run.score)}",
            run.started_us,
        )
        for run in call.log.find_runs(RunFilter(suite=ref, status="completed"), MOST_BASELINES)
        if run.score is not None
    ]


class PricedRun(NamedTuple):
    """What an earlier run cost, and how long it took."""

    model: str
    cost_usd: float | None
    seconds: float


def _priced_run(call: PageCall, run: RunFacts) -> PricedRun | None:
    figures = call.host.figures.of(call.log, run)
    if figures is None or run.ended_us is None:
        return None
    return PricedRun(figures.model, figures.cost_usd, (run.ended_us - run.started_us) / 1e6)


def _priced(
    call: PageCall, offer: FolderOffer, given: dict[str, Any]
) -> dict[str, list[PricedRun]]:
    """The latest runs of a suite of the folder by this agent, by model."""
    wanted = RunFilter(suite=offer.suites[given["suite"]].ref, status="completed")
    found: dict[str, list[PricedRun]] = {}
    agent = offer.agents.get(given["agent"])
    for run in call.log.find_runs(wanted, MOST_BASELINES):
        by = read_agent(call.log, run.run_id)
        if by is None or by.ref != given["agent"] or (priced := _priced_run(call, run)) is None:
            continue
        found.setdefault(priced.model if agent and agent.needs_model else "", []).append(priced)
    return {model: runs[:PRICED_RUNS] for model, runs in found.items()}


def _least_cost(call: PageCall, offer: FolderOffer, given: dict[str, Any]) -> float:
    """What the cheapest of the earlier runs cost, of the dearest model that is chosen."""
    runs = _priced(call, offer, given)
    costs = [
        min((each.cost_usd for each in runs.get(model, ()) if each.cost_usd is not None), default=0)
        for model in given["models"] or [""]
    ]
    return max(costs, default=0.0)


def _estimate(
    tasks: int | None,
    runs: Mapping[str, Sequence[PricedRun]],
    models: Sequence[str],
    repeat: str,
) -> dict[str, Any]:
    """What the run will cost and how long it will take, by what the log has of such runs."""
    times = int(repeat) if repeat.isdecimal() and repeat != "0" else 1
    factors = [f"{len(models)} models"] if len(models) > 1 else []
    factors += [str(times)] if times > 1 else []
    count = "" if tasks is None else f"{tasks:,}"
    pairs = [("Tasks", " \N{MULTIPLICATION SIGN} ".join([count, *factors]))] if count else []
    noun = "task" if tasks == 1 else "tasks"
    told = {
        "pairs": pairs,
        "figure": "",
        "spread": "",
        "basis": f"{count} {noun}. No run of this agent has had a known cost yet."
        if count
        else "No run of this agent has had a known cost yet.",
    }
    chosen = [runs.get(model, ()) for model in models or [""]]
    costs = [[each.cost_usd for each in of if each.cost_usd is not None] for of in chosen]
    if any(chosen) and all(chosen):
        seconds = sum(sum(each.seconds for each in of) / len(of) for of in chosen) * times
        took = f"{max(1, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        pairs.append(("Time", f"about {took}"))
    if not all(costs):
        return told
    means = [sum(each) / len(each) for each in costs]
    if len(models) > 1:
        named = zip(models, means, strict=True)
        pairs[1:1] = [(model, amounts.dollars(mean * times)) for model, mean in named]
    spread = times * sum(max(each) - min(each) for each in costs) / 2
    known = sum(map(len, costs))
    basis = "one earlier run" if known == 1 else f"{known} earlier runs"
    return told | {
        "figure": amounts.dollars(sum(means) * times),
        "spread": f"± {amounts.dollars(spread)}" if spread else "",
        "basis": f"From the costs of {basis} in this log.",
    }


async def demo(call: PageCall) -> Response:
    """Run the bundled suite against the bundled agent."""
    catalogue, tenant = call.host.catalogue, call.principal.tenant
    agent = await call.in_reader(lambda: catalogue.agent(tenant, BUNDLED_AGENT))
    if agent is None or agent.eval_suite_ref is None:
        raise ApiError(404, "not_found", "this host does not offer the demo")
    return await _start(call, agent.eval_suite_ref, agent.agent_id, {}, tags=("demo",))


async def again(call: PageCall) -> Response:
    """Run the tasks of a run that did not pass, or one, again with the same agent and settings."""
    planned = await asyncio.to_thread(_planned_again, call, call.path["runId"], call.field("task"))
    return await _begin(call, planned)


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
    await reserve_room(call, planned)
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


def _planned_again(call: PageCall, run_id: str, only: str) -> PlannedEvaluation:
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
    by = f"failed in {run_id}"
    if only:
        left, by = [task for task in tasks if task.task_id == only], f"one task of {run_id}"
        if not left:
            raise ApiError(404, "not_found", "the run has no such task")
    if not left:
        raise ApiError(409, "conflict", "every task of this run has passed")
    if len(left) < len(tasks):
        whole = plan.selection.of if plan.selection else len(tasks)
        plan = msgspec.structs.replace(
            plan,
            suite=msgspec.structs.replace(plan.suite, tasks=left),
            modes=[mode for mode in plan.modes if mode != "regression"],
            baseline=None,
            selection=TaskSelection(whole, [by]),
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
