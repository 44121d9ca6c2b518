"""Trends: score, pass rate, cost and p95 of a suite over versions and models, and its tasks."""

from collections.abc import Callable, Mapping, Sequence
from math import hypot
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import PageCall, href_html, in_time, page, part, run_address
from evalwright.host.web.pages.runs import run_title
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
from evalwright.reports.formats.html import Html, as_markup, text_html
from evalwright.scoring.statistics import wilson
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
        "verdict": _verdict(points),
        "kind_chips": [
            {
                "key": key or "all",
                "words": words[0].upper() + words[1:],
                "count": None,
                "shape": "",
                "icon": "",
                "address": asked.address(tasks=key, page=""),
                "chosen": key == asked.tasks,
            }
            for key, words in KINDS.items()
        ],
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


def _verdict(points: Sequence[TrendPoint]) -> dict[str, str]:
    """How the latest run stands beside the ones before it."""
    rated = [each for each in points if each.rate is not None and each.rate_band is not None]
    if not rated:
        return {"kind": "open", "heading": "No run has a rate yet", "why": ""}
    last = rated[-1]
    share = amounts.percent(last.rate or 0.0)
    if len(rated) == 1:
        why = f"It passes {share}; run it again to see whether it stays there."
        return {"kind": "unsure", "heading": "One run is not a trend yet", "why": why}
    rows = [row for each in rated[:-1] for row in each.run.tasks.rows if row.score is not None]
    passed, scored = sum(row.passed is True for row in rows), len(rows)
    rate, mean = last.rate or 0.0, passed / scored
    (low, high), (mean_low, mean_high) = last.rate_band or (0.0, 1.0), wilson(passed, scored)
    told = (
        f"The latest run passes {share}, the {len(rated) - 1:,} before it {amounts.percent(mean)}"
    )
    # Both sides are uncertain, the runs before as well.
    margin = (
        hypot(high - rate, mean - mean_low) if rate < mean else hypot(rate - low, mean_high - mean)
    )
    if abs(rate - mean) <= margin:
        return {"kind": "none", "heading": "Within what chance explains", "why": f"{told}."}
    is_worse = rate < mean
    heading = "The latest run is worse than before" if is_worse else "The latest run is better"
    why = f"{told}; chance does not explain that."
    return {"kind": "fail" if is_worse else "pass", "heading": heading, "why": why}


def _takes(kind: str, task: TaskHistory) -> bool:
    return {"broke": bool(task.breaks), "flaky": task.is_flaky}.get(kind, True)


def _chart(measure: Measure, points: Sequence[TrendPoint]) -> dict[str, Any] | None:
    """A measure over the runs, oldest first; None if nothing is known to draw."""
    values = [measure.value(each) for each in points]
    known = [value for value in values if value is not None]
    if not known:
        return None
    bands = [measure.band(each) for each in points]
    edges = [edge for band in bands if band is not None for edge in band]
    low, high = min(*known, *edges, known[0]), max(*known, *edges, known[0])
    low = min(low, 0.0) if low <= 0 or high / max(low, 1e-12) > 10 else low
    spread = (high - low) or abs(high) or 1.0
    low, high = low - 0.08 * spread if low > 0 else low, high + 0.08 * spread
    width = 556 / max(1, len(points) - 1)

    def at(place: int, value: float) -> tuple[str, str]:
        x = 320.0 if len(points) == 1 else 44 + width * place
        return f"{x:.1f}", f"{170 - 150 * (value - low) / (high - low):.1f}"

    def named(value: float) -> str:
        if measure.unit == "$":
            return amounts.dollars(value)
        return f"{value:.3g}{' ' if measure.unit == 'ms' else ''}{measure.unit}"

    parts = []
    for value in (low, (low + high) / 2, high):
        y, words = text_html(at(0, value)[1]), text_html(named(value))
        parts.append(
            Html(
                f'<line class="grid" x1="0" x2="600" y1="{y}" y2="{y}"/>'
                f'<text x="0" y="{y}" dy="-4">{words}</text>'
            )
        )
    lines = list(dict.fromkeys(each.line for each in points))[:MOST_LINES]
    for line in lines:
        places = [
            at(place, value)
            for place, (each, value) in enumerate(zip(points, values, strict=True))
            if each.line == line and value is not None
        ]
        drawn = text_html(" ".join(",".join(place) for place in places))
        parts.append(Html(f'<polyline class="line" points="{drawn}"/>'))
    for place, (each, found, band) in enumerate(zip(points, values, bands, strict=True)):
        if found is None:
            continue
        x, y = map(text_html, at(place, found))
        if band is not None:
            top, bottom = (text_html(at(place, edge)[1]) for edge in reversed(band))
            parts.append(
                Html(f'<line class="whisker" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
            )
        tone = text_html("in" if each.line == lines[-1] or len(lines) == 1 else "other")
        told = text_html(f"{run_title(each.run.facts)}, {' '.join(each.line)}: {named(found)}")
        href = href_html(run_address(each.run.facts.run_id))
        parts.append(
            Html(
                f'<a href="{href}" aria-label="{told}"><title>{told}</title>'
                f'<circle class="{tone}" cx="{x}" cy="{y}" r="4"/></a>'
            )
        )
    svg = Html(f'<svg class="chart half" viewBox="0 0 620 190">{Html("".join(parts))}</svg>')
    return {"name": measure.name, "drawn": as_markup(svg)}


def _row(call: PageCall, point: TrendPoint) -> dict[str, Any]:
    facts = point.run.facts
    return {
        "run_id": facts.run_id,
        "suite": facts.suite,
        "version": (facts.suite or "").partition("@")[2],
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
        "rate": f"{task.passed.count(True):,} of {len(task.passed) - task.passed.count(None):,}",
        "broke_us": broke.started_us if broke else 0,
        "cells": [{True: "p", False: "f", None: "x"}[each] for each in task.passed],
    }
