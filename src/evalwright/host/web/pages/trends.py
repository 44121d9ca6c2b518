"""Trends: score, pass rate, cost and p95 of a suite over versions and models, and its tasks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.host.web.page import PageCall, in_time, page, part
from evalwright.host.web.pages.repeats import dots_html
from evalwright.host.web.pages.scorecard import number_of
from evalwright.host.web.pages.suite_trends import (
    MOST_RUNS,
    Band,
    TaskHistory,
    TrendPoint,
    histories,
    known_ids,
    model_of,
    point_of,
    runs_of,
)
from evalwright.host.web.recent_runs import RecentRuns, refuse_slow, with_tasks
from evalwright.host.web.run_views import add_names, views_of
from evalwright.reports.formats.html import as_markup
from evalwright.store.protocol import RunFacts

AT_ONCE = 15  # tasks
MOST_LINES = 6  # in a chart
KINDS = {"": "broken or flaky", "broke": "ever broke", "flaky": "flaky"}


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


class TrendsAsked(NamedTuple):
    """The filters in an address."""

    suite: str = ""
    agent: str = ""
    model: str = ""
    tag: str = ""
    tasks: str = ""
    page: str = ""

    @classmethod
    def of(cls, call: PageCall) -> "TrendsAsked":
        """Those of a request; what is not known counts as not given."""
        asked = cls(*map(call.asked, cls._fields))
        return asked._replace(tasks=asked.tasks if asked.tasks in KINDS else "")

    def address(self, **changed: str) -> str:
        """The address of the same filters, but for what is changed."""
        given = {name: value for name, value in (self._asdict() | changed).items() if value}
        return f"/trends?{urlencode(given)}" if given else "/trends"


async def show(call: PageCall) -> Response:
    """The page, or what its filters change."""
    asked = TrendsAsked.of(call)
    suites = await call.in_reader(lambda: known_ids(call.log))
    if not asked.suite and suites:
        asked = asked._replace(suite=next(iter(suites)))
    versions = suites.get(asked.suite) or [asked.suite]
    facts = await call.in_reader(lambda: runs_of(call.log, versions, asked.agent, asked.tag))
    values = await in_time(call, _read(call, asked, facts))
    values = values or {
        "asked": asked._asdict(),
        "rows": None,
        "models": list(filter(None, [asked.model])),
    }
    values |= {"suites": list(suites), "kinds": list(KINDS.items())}
    if call.is_part:
        return part(call, "trends_shown.html", **values)
    return page(call, "trends.html", title="Trends", **values)


async def _read(call: PageCall, asked: TrendsAsked, facts: Sequence[RunFacts]) -> dict[str, Any]:
    refuse_slow(call, views_of(call.host), facts)
    models = {run.run_id: await model_of(call, run) for run in facts}
    wanted = [run for run in facts if asked.model in ("", models[run.run_id])]
    recent = await with_tasks(call, wanted)
    shown = await call.in_reader(lambda: _shown(call, asked, recent, models))
    await add_names(call, shown["tasks"])
    return {**shown, "models": sorted(set(filter(None, models.values())))}


def _shown(
    call: PageCall, asked: TrendsAsked, recent: RecentRuns, models: Mapping[str, str]
) -> dict[str, Any]:
    points = [point_of(run, models[run.facts.run_id]) for run in reversed(recent.runs)]
    wanted = [each for each in histories(points) if _takes(asked.tasks, each)]
    pages = max(1, -(-len(wanted) // AT_ONCE))
    number = min(max(1, int(number_of(asked.page) or 1)), pages)
    part_of = wanted[(number - 1) * AT_ONCE : number * AT_ONCE]
    return {
        "asked": asked._asdict(),
        "charts": [chart for each in MEASURES if (chart := _chart(each, points)) is not None],
        "rows": [_row(call, each) for each in reversed(points)],
        "tasks": [_task(each, points) for each in part_of],
        "found": len(wanted),
        "number": number,
        "last_page": pages,
        "before": asked.address(page=str(number - 1)) if number > 1 else "",
        "after": asked.address(page=str(number + 1)) if number < pages else "",
        "most_runs": MOST_RUNS,
        "left_out": recent.left_out,
    }


def _takes(kind: str, task: TaskHistory) -> bool:
    return {"broke": bool(task.breaks), "flaky": task.is_flaky}.get(kind, True)


def _chart(measure: Measure, points: Sequence[TrendPoint]) -> dict[str, str] | None:
    """The lines of a chart as the script wants them; None if nothing is known to draw."""
    if not any(measure.value(each) is not None for each in points):
        return None
    lines = list(dict.fromkeys(each.line for each in points))[:MOST_LINES]
    values: list[list[float | None]] = [
        [_short(measure.value(each)) if each.line == line else None for each in points]
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
    """A number with as many digits as a chart shows."""
    return None if number is None else float(f"{number:.5g}")


def _row(call: PageCall, point: TrendPoint) -> dict[str, Any]:
    facts = point.run.facts
    return {
        "run_id": facts.run_id,
        "suite": facts.suite,
        "agent": call.host.figures.agent_of(call.log, facts),
        "model": point.model,
        "started_us": facts.started_us,
        "score": None if point.score is None else amounts.score(point.score),
        "score_band": _between(point.score_band),
        "rate": point.rate,
        "rate_band": "" if point.rate_band is None else amounts.share_interval(*point.rate_band),
        "cost": point.cost,
        "p95": None if point.p95_ms is None else amounts.span(point.p95_ms),
    }


def _between(band: Band | None) -> str:
    return "" if band is None else f"{band[0]:.2f}\N{EN DASH}{band[1]:.2f}"


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
