"""Trends: score, pass rate, cost and p95 of a suite over versions and models, and its tasks."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import PageCall, in_time, page, part, run_address
from evalwright.host.web.pages.runs import run_title
from evalwright.host.web.pages.suite_trends import (
    MOST_RUNS,
    Band,
    TaskHistory,
    TrendPoint,
    known_ids,
    point_of,
    rates_by_chance,
    runs_of,
    task_histories,
    values_by_chance,
)
from evalwright.host.web.recent_runs import RecentRuns, refuse_slow, with_tasks
from evalwright.host.web.run_figures import baselines_of, provenance_of
from evalwright.host.web.run_views import add_names, views_of
from evalwright.reports.formats.text import shortened
from evalwright.store.protocol import RunFacts

AT_ONCE = 15  # tasks
MOST_LINES = 6  # in a chart
GUTTER = 68  # left of a chart, for the names of values
WORDS_WIDE = 120  # that a mark in a chart needs for its words
KINDS = {"": "broken or flaky", "broke": "ever broke", "flaky": "flaky"}


class Measure(NamedTuple):
    """What a chart shows."""

    name: str
    unit: str  # of the numbers of the chart
    value: Callable[[TrendPoint], float | None]
    band: Callable[[TrendPoint], Band | None]
    more_is_better: bool = True

    def named(self, value: float) -> str:
        if self.unit == "$":
            return amounts.dollars(value)
        if self.unit == "ms":
            return amounts.span(value)
        return f"{value:.3g}{self.unit}"


MEASURES = (
    Measure(
        "Pass rate",
        "%",
        lambda each: None if each.rate is None else 100 * each.rate,
        lambda each: each.rate_band and (100 * each.rate_band[0], 100 * each.rate_band[1]),
    ),
    Measure("Score", "", lambda each: each.score, lambda each: each.score_band),
    Measure("Cost per run", "$", lambda each: each.cost, lambda _: None, more_is_better=False),
    Measure("p95 time", "ms", lambda each: each.p95_ms, lambda _: None, more_is_better=False),
)


class Mark(NamedTuple):
    """What happened at a run of a chart: the baseline, a change of the suite, a branch."""

    place: int
    words: str
    is_baseline: bool = False


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
    views = views_of(call.host)
    models = {
        run.run_id: (await views.setup(call.run_with(run.run_id), run)).model for run in facts
    }
    wanted = [run for run in facts if asked.model in ("", models[run.run_id])]
    recent = await with_tasks(call, wanted)
    shown = await call.in_reader(lambda: _shown(call, asked, recent))
    await add_names(call, shown["tasks"])
    return {**shown, "models": sorted(set(filter(None, models.values())))}


def _shown(call: PageCall, asked: TrendsAsked, recent: RecentRuns) -> dict[str, Any]:
    points = [point_of(run) for run in reversed(recent.runs)]
    histories = task_histories([point.run for point in points])
    wanted = [each for each in histories if _takes(asked.tasks, each)]
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
        "charts": _charts(call, points),
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


def _charts(call: PageCall, points: Sequence[TrendPoint]) -> list[dict[str, Any]]:
    """The pass rate, then the rest; the score where it is another figure."""
    figures = call.host.figures.of(call.log, points[-1].run.facts) if points else None
    bar = None if figures is None or figures.bar is None else 100 * figures.bar
    is_same = all(each.score == each.rate for each in points)
    marks = list(_marks(call, points))
    drawn = (
        _chart(each, points, marks, bar if each.unit == "%" else None)
        for each in MEASURES
        if each.name != "Score" or not is_same
    )
    return [chart for chart in drawn if chart is not None]


def _marks(call: PageCall, points: Sequence[TrendPoint]) -> Iterator[Mark]:
    """What happened at runs, the most important first."""
    named, known = {*baselines_of(call.log).values()}, rates_of_line(points)
    for place, each in enumerate(points):
        if each.run.facts.run_id in named:
            yield Mark(place, f"Baseline {each.run.setup.commit[:7]}".strip(), is_baseline=True)
    for place, each in enumerate(points):
        if known is not None and each.rate is not None and each.rate < known[0]:
            started = provenance_of(call.log, each.run.facts.run_id)
            if words := started.branch or started.title or each.run.setup.commit[:7]:
                yield Mark(place, shortened(words, 24))
    for place, (before, after) in enumerate(pairwise(points), 1):
        tasks = len(after.run.tasks.rows) - len(before.run.tasks.rows)
        if tasks:
            noun = "task" if abs(tasks) == 1 else "tasks"
            yield Mark(place, f"{abs(tasks):,} {noun} {'more' if tasks > 0 else 'fewer'}")
        elif before.run.setup.suite != after.run.setup.suite:
            yield Mark(place, f"version {after.run.setup.suite.rpartition('@')[2]}")


def rates_of_line(points: Sequence[TrendPoint]) -> Band | None:
    """The pass rates of the latest run that chance explains, by its agent and model."""
    line = [each for each in points if each.line == points[-1].line]
    return rates_by_chance(line) if line else None


def _verdict(points: Sequence[TrendPoint]) -> dict[str, str]:
    """How the latest run stands beside the ones before it."""
    rated = [each for each in points if each.rate is not None and each.rate_band is not None]
    if not rated:
        return {"kind": "open", "heading": "No run has a rate yet", "why": ""}
    last, known = rated[-1], rates_of_line(rated)
    rate, name = last.rate or 0.0, run_title(last.run.facts)
    told = f"It passes {amounts.percent(rate)}"
    if known is None:
        whose = "" if len(rated) == 1 else " as the first of this agent and model"
        why = f"{told}{whose}; run it again to see whether it stays there."
        return {"kind": "unsure", "heading": "One run is not a trend yet", "why": why}
    before = sum(each.line == last.line for each in rated) - 1
    runs = "the run before it" if before == 1 else f"the {before:,} runs before it"
    why = f"{told}; chance explains {amounts.share_interval(*known)}, by {runs}."
    if known[0] <= rate <= known[1]:
        heading = f"{name} is within what chance explains"
        return {"kind": "none", "heading": heading, "why": why}
    if rate < known[0]:
        return {"kind": "fail", "heading": f"{name} fell further than chance explains", "why": why}
    return {"kind": "pass", "heading": f"{name} is better than chance explains", "why": why}


def _takes(kind: str, task: TaskHistory) -> bool:
    broke = bool(task.breaks)
    return {"broke": broke, "flaky": task.is_flaky}.get(kind, broke or task.is_flaky)


class ChartScale(NamedTuple):
    """Where runs and values lie in a drawing."""

    width: int
    tall: int
    top: int
    runs: int
    low: float
    high: float

    @property
    def right(self) -> int:
        return self.width - 20

    @property
    def foot(self) -> int:
        return self.tall + self.top

    def x(self, place: int) -> str:
        """The run at a place, of which the oldest is on the left; a single one in the middle."""
        share = place / (self.runs - 1) if self.runs > 1 else 0.5
        return f"{GUTTER + (self.right - GUTTER) * share:.1f}"

    def y(self, value: float) -> str:
        return f"{self.foot - self.tall * (value - self.low) / (self.high - self.low):.1f}"


def _chart(
    measure: Measure, points: Sequence[TrendPoint], marks: Sequence[Mark], bar: float | None
) -> dict[str, Any] | None:
    """A measure over the runs, oldest first; None if nothing is known to draw."""
    values, is_rate = [measure.value(each) for each in points], measure.unit == "%"
    known = [value for value in values if value is not None]
    if not known or not (is_rate or max(known)):  # or nothing is told of what it cost
        return None
    bands = [measure.band(each) for each in points]
    of_line = [
        value
        for each, value in zip(points, values, strict=True)
        if each.line == points[-1].line and value is not None
    ]
    chance = values_by_chance(of_line)
    if is_rate and (rates := rates_of_line(points)) is not None:
        chance = 100 * rates[0], 100 * rates[1]
    edges = [*known, *(edge for band in bands if band is not None for edge in band)]
    edges += [bar] if bar is not None else []
    edges += chance or []
    ticks = _ticks(min(edges), max(edges), 100.0 if is_rate else None)
    size = (1240, 190, 24) if is_rate else (620, 150, 12)
    scale = ChartScale(*size, len(points), ticks[0], ticks[-1])
    often = max(1, -(-len(points) // (12 if is_rate else 6)))
    numbers = range(len(points) - 1, -1, -often)
    lines = list(dict.fromkeys(each.line for each in points))[-MOST_LINES:]
    shown = [
        (place, each, found, band)
        for place, (each, found, band) in enumerate(zip(points, values, bands, strict=True))
        if found is not None
    ]
    chart = {
        "box": f"0 0 {scale.width} {scale.foot + (40 if is_rate else 28)}",
        "left": GUTTER - 14,
        "right": scale.right + 8,
        "foot": scale.foot + 18,
        "ticks": [(scale.y(tick), float(scale.y(tick)) + 4, measure.named(tick)) for tick in ticks],
        "bar": None if bar is None else scale.y(bar),
        "chance": chance and (scale.y(chance[1]), f"{_height(scale, chance):.1f}"),
        "numbers": [
            (
                float(scale.x(place)),
                points[place].run.facts.number,
                points[place].run.setup.commit[:7] if is_rate else "",
            )
            for place in numbers
        ],
        "marks": [
            (float(scale.x(each.place)), each.words if is_rate else "", each.is_baseline)
            for each in _apart(scale, marks)
            if is_rate or each.is_baseline
        ],
        "lines": [
            " ".join(
                f"{scale.x(place)},{scale.y(y)}" for place, of, y, _ in shown if of.line == line
            )
            for line in lines
        ],
        "points": [
            {
                "x": float(scale.x(place)),
                "y": float(scale.y(found)),
                "band": None if band is None else [scale.y(edge) for edge in reversed(band)],
                "tone": "other"
                if each.line != points[-1].line
                else _tone(measure, found, chance, bar),
                "words": f"{run_title(each.run.facts)}, {' '.join(each.line)}: "
                f"{measure.named(found)}",
                "address": run_address(each.run.facts.run_id),
            }
            for place, each, found, band in shown
        ],
    }
    now = f"{measure.named(known[-1])} now"
    now += "" if bar is None else f", bar {measure.named(bar)}"
    return {"name": measure.name, "now": now, "is_wide": is_rate, **chart}


def _height(scale: ChartScale, band: Band) -> float:
    return max(1.0, float(scale.y(band[0])) - float(scale.y(band[1])))


def _tone(measure: Measure, value: float, chance: Band | None, bar: float | None) -> str:
    """Whether a value is worse than chance explains; where that is not known, than its bar."""
    if chance is None:
        return "out" if bar is not None and value < bar else "in"
    is_worse = value < chance[0] if measure.more_is_better else value > chance[1]
    return "out" if is_worse else "in"


def _apart(scale: ChartScale, marks: Sequence[Mark]) -> list[Mark]:
    """The marks whose words do not run into those of a more important one."""
    shown = list[Mark]()
    for mark in marks:
        x = float(scale.x(mark.place))
        if all(abs(x - float(scale.x(each.place))) >= WORDS_WIDE for each in shown):
            shown.append(mark)
    return shown


def _ticks(low: float, high: float, most: float | None) -> list[float]:
    """Three to seven round values around all others; up to `most`, where a scale has an end."""
    spread = (high - low) or abs(high) or 1.0
    rough = spread / 4
    power = 10.0 ** floor(log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough)
    first, last = max(0, floor(low / step)), ceil(high / step)
    if most is not None:
        last = min(last, round(most / step))
    first, last = (first - 1 if first else 0, last + 1) if first >= last else (first, last)
    return [float(f"{each * step:.10g}") for each in range(first, last + 1)]


def _row(call: PageCall, point: TrendPoint) -> dict[str, Any]:
    facts = point.run.facts
    started = provenance_of(call.log, facts.run_id)
    return {
        "run_id": facts.run_id,
        "number": facts.number,
        "title": started.title or run_title(facts),
        "branch": started.branch or "",
        "commit": (started.commit or "")[:7],
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
