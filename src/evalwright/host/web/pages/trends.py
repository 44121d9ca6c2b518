"""Trends: score, pass rate, cost and p95 of a suite over versions and models, and its tasks."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.short_names import agent_id_of
from evalwright.engine.runs import read_agent
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import PageCall, in_time, page, part
from evalwright.host.web.pages.repeated_runs import dots_html
from evalwright.host.web.recent_runs import (
    KNOWN_FROM,
    RecentRun,
    RecentRuns,
    refuse_slow,
    with_tasks,
)
from evalwright.host.web.run_views import add_names, views_of
from evalwright.reports.formats.html import as_markup
from evalwright.scoring.statistics import Z, wilson
from evalwright.scoring.thresholds import p95
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

AT_ONCE = 15  # tasks
MOST_LINES = 6  # in a chart
MOST_RUNS = 50  # of a trend
MOST_VERSIONS = 10
KINDS = {"": "broken or flaky", "broke": "ever broke", "flaky": "flaky"}

Band: TypeAlias = tuple[float, float]
Line: TypeAlias = tuple[str | None, str, str]  # a series: suite, agent, model


class TrendPoint(NamedTuple):
    """One run of a suite."""

    run: RecentRun
    model: str
    score: float | None
    score_band: Band | None  # within which the score of other tasks of this kind would be
    rate: float | None
    rate_band: Band | None
    cost: float | None
    p95_ms: int | None

    @property
    def line(self) -> Line:
        return self.run.facts.suite, self.run.facts.agent or "", self.model


class TaskHistory(NamedTuple):
    """A task over the runs of a suite, oldest first; None where it was not scored."""

    task_id: str
    passed: list[bool | None]
    breaks: list[int]  # the runs in which it failed after it had passed in the one before
    is_flaky: bool  # it came out differently with the same version, agent and model

    @property
    def is_broken(self) -> bool:
        """Whether it failed in the last run that it was in."""
        known = [each for each in self.passed if each is not None]
        return bool(known) and not known[-1]


class Measure(NamedTuple):
    """What a chart shows."""

    name: str
    unit: str  # of the numbers of the chart
    value: Callable[[TrendPoint], float | None]
    band: Callable[[TrendPoint], Band | None]


MEASURES = (
    Measure("Score", "", lambda each: each.score, lambda each: each.score_band),
    Measure(
        "Pass rate",
        "%",
        lambda each: None if each.rate is None else 100 * each.rate,
        lambda each: each.rate_band and (100 * each.rate_band[0], 100 * each.rate_band[1]),
    ),
    Measure("Cost", "$", lambda each: each.cost, lambda _: None),
    Measure("p95 latency", "ms", lambda each: each.p95_ms, lambda _: None),
)


class TrendsAsked(Filters, frozen=True):
    """The filters in an address."""

    PATH = "/trends"
    CHOICES: ClassVar = {"tasks": KINDS}

    suite: str = ""
    agent: str = ""
    model: str = ""
    tag: str = ""
    tasks: str = ""
    page: str = ""


async def show(call: PageCall) -> Response:
    """The page, or what its filters change."""
    asked = TrendsAsked.of(call)
    suites = await call.in_reader(lambda: known_ids(call.log))
    if not asked.suite and suites:
        asked = asked.replace(suite=next(iter(suites)))
    versions = suites.get(asked.suite) or [asked.suite]
    facts = await call.in_reader(lambda: runs_of(call.log, versions, asked.agent, asked.tag))
    values = await in_time(call, _read(call, asked, facts))
    values = values or {
        "asked": asked.values(),
        "rows": None,
        "models": list(filter(None, [asked.model])),
    }
    values |= {"suites": list(suites), "kinds": list(KINDS.items())}
    if call.is_part:
        return part(call, "trends_shown.html", **values)
    return page(call, "trends.html", title="Trends", **values)


async def _read(call: PageCall, asked: TrendsAsked, facts: Sequence[RunFacts]) -> dict[str, Any]:
    refuse_slow(call, views_of(call.host), facts)
    models = {run.run_id: await _model_of(call, run) for run in facts}
    wanted = [run for run in facts if asked.model in ("", models[run.run_id])]
    recent = await with_tasks(call, wanted)
    shown = await call.in_reader(lambda: _shown(call, asked, recent, models))
    await add_names(call, shown["tasks"])
    return {**shown, "models": sorted(set(filter(None, models.values())))}


async def _model_of(call: PageCall, facts: RunFacts) -> str:
    """The model of the agent of a run, or its class; empty where the run does not say."""

    def read() -> str:
        agent = read_agent(call.log, facts.run_id)
        if agent is None:
            return ""
        return f"{agent.model or agent.model_class or ''} {agent.version or ''}".strip()

    async def make() -> tuple[int, str, bool]:
        return 1, await call.in_reader(read), True

    return await views_of(call.host).models.get((call.principal.partition, facts.run_id), make)


def _shown(
    call: PageCall, asked: TrendsAsked, recent: RecentRuns, models: Mapping[str, str]
) -> dict[str, Any]:
    points = [point_of(run, models[run.facts.run_id]) for run in reversed(recent.runs)]
    wanted = [
        each
        for each in histories(points)
        if {"broke": bool(each.breaks), "flaky": each.is_flaky}.get(asked.tasks, True)
    ]
    shown, around = asked.page_of(wanted, AT_ONCE)
    return {
        "asked": asked.values(),
        "charts": [chart for each in MEASURES if (chart := _chart(each, points)) is not None],
        "rows": [_row(call, each) for each in reversed(points)],
        "tasks": [_task(each, points) for each in shown],
        "found": len(wanted),
        "most_runs": MOST_RUNS,
        "left_out": recent.left_out,
        **around,
    }


def _chart(measure: Measure, points: Sequence[TrendPoint]) -> dict[str, str] | None:
    """The lines of a chart as the script wants them; None if nothing is known to draw."""
    if not any(measure.value(each) is not None for each in points):
        return None
    lines = list(dict.fromkeys(each.line[1:] for each in points))[:MOST_LINES]
    values: list[list[float | None]] = [
        [_short(measure.value(each)) if each.line[1:] == line else None for each in points]
        for line in lines
    ]
    bands = [measure.band(each) for each in points]
    drawn = {
        "name": measure.name,
        "unit": measure.unit,
        "x": [round(each.run.facts.started_us / 1_000_000, 2) for each in points],
        "lines": [
            {"name": " ".join(line).strip(), "y": y} for line, y in zip(lines, values, strict=True)
        ],
        "low": [None if each is None else _short(each[0]) for each in bands],
        "high": [None if each is None else _short(each[1]) for each in bands],
    }
    return {"name": measure.name, "data": msgspec.json.encode(drawn).decode()}


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.5g}")


def _row(call: PageCall, point: TrendPoint) -> dict[str, Any]:
    facts, band = point.run.facts, point.score_band
    return {
        "run_id": facts.run_id,
        "suite": facts.suite,
        "agent": call.host.figures.agent_of(call.log, facts),
        "model": point.model,
        "started_us": facts.started_us,
        "score": None if point.score is None else amounts.score(point.score),
        "score_band": "" if band is None else f"{band[0]:.2f}\N{EN DASH}{band[1]:.2f}",
        "rate": point.rate,
        "rate_band": "" if point.rate_band is None else amounts.share_interval(*point.rate_band),
        "cost": point.cost,
        "p95": None if point.p95_ms is None else amounts.span(point.p95_ms),
    }


def _task(task: TaskHistory, points: Sequence[TrendPoint]) -> dict[str, Any]:
    broke = points[task.breaks[-1]].run.facts if task.breaks else None
    last = next(
        points[place].run.facts.run_id
        for place in range(len(points) - 1, -1, -1)
        if task.passed[place] is not None
    )
    return {
        "task_id": task.task_id,
        "run_id": last,
        "is_broken": task.is_broken,
        "is_flaky": task.is_flaky,
        "breaks": len(task.breaks),
        "broke_in": broke.run_id if broke else "",
        "broke_us": broke.started_us if broke else 0,
        "dots": as_markup(dots_html(task.passed, are_repeats=False)),
    }


# How a suite came out over its runs.


def suite_id_of(suite: str) -> str:
    """A suite without its version."""
    return suite.rpartition("@")[0] or suite


def known_ids(log: EventLog) -> dict[str, list[str]]:
    """The suites of the latest runs with their versions, those that ran last first."""
    found: dict[str, list[str]] = {}
    for run in log.find_runs(RunFilter(is_evaluation=True, has_ended=True), KNOWN_FROM):
        versions = found.setdefault(suite_id_of(run.suite or ""), [])
        if run.suite and run.suite not in versions:
            versions.append(run.suite)
    return found


def runs_of(log: EventLog, versions: Sequence[str], agent: str, tag: str) -> list[RunFacts]:
    """The latest runs of a suite in these versions, newest first."""
    found = [
        run
        for version in versions[:MOST_VERSIONS]
        for run in log.find_runs(
            RunFilter(
                suite=version, agent=agent_id_of(agent) or None, tag=tag or None, status="completed"
            ),
            MOST_RUNS,
        )
    ]
    return sorted(found, key=lambda run: run.started_us, reverse=True)[:MOST_RUNS]


def point_of(run: RecentRun, model: str) -> TrendPoint:
    """The figures of a run."""
    rows = [row for row in run.tasks.rows if row.score is not None]
    scores = [row.score for row in rows if row.score is not None]
    passed = sum(row.passed is True for row in rows)
    totals = run.tasks.totals
    latencies = run.tasks.latencies
    return TrendPoint(
        run=run,
        model=model,
        score=run.facts.score,
        score_band=_around(run.facts.score, scores),
        rate=passed / len(rows) if rows else None,
        rate_band=wilson(passed, len(rows)) if rows else None,
        cost=totals.total_cost_usd if totals else None,
        p95_ms=p95(latencies) if latencies else None,
    )


def _around(middle: float | None, scores: Sequence[float]) -> Band | None:
    """The 95 % interval of a mean; that of a share where all scores are 0 or 1."""
    if middle is None or not scores:
        return None
    if all(score in (0, 1) for score in scores):
        return wilson(int(sum(scores)), len(scores))
    if len(scores) < 2:
        return None
    mean = sum(scores) / len(scores)
    spread = sum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
    half = Z * sqrt(spread / len(scores))
    return max(0.0, middle - half), min(1.0, middle + half)


def histories(points: Sequence[TrendPoint]) -> list[TaskHistory]:
    """The tasks that ever broke or are flaky; points are oldest first."""
    outcomes: dict[str, list[bool | None]] = {}
    for place, point in enumerate(points):
        for row in point.run.tasks.rows:
            outcomes.setdefault(row.task_id, [None] * len(points))[place] = row.passed
    found = [_history(name, passed, points) for name, passed in outcomes.items()]
    return sorted(
        (each for each in found if each.breaks or each.is_flaky),
        key=lambda each: (not each.is_broken, -len(each.breaks), each.task_id),
    )


def _history(
    task_id: str, outcomes: list[bool | None], points: Sequence[TrendPoint]
) -> TaskHistory:
    by_line: dict[Line, set[bool]] = {}
    last: dict[str, bool] = {}  # by agent
    breaks = []
    for place, (passed, point) in enumerate(zip(outcomes, points, strict=True)):
        if passed is None:
            continue
        by_line.setdefault(point.line, set()).add(passed)
        agent = point.line[1]
        if last.get(agent) and not passed:
            breaks.append(place)
        last[agent] = passed
    is_flaky = any(len(found) > 1 for found in by_line.values())
    return TaskHistory(task_id, outcomes, breaks, is_flaky)
