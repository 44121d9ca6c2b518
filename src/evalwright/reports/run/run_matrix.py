"""Two to eight runs side by side: tasks by run, the answer in each cell, quality over cost.

A page of a host and a file draw the same matrix; each says where its runs are read and linked to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil, floor, log10
from typing import Any, NamedTuple

from evalwright.contracts import amounts
from evalwright.contracts.run_plan import FIRST_RULE
from evalwright.engine.task_names import TaskName
from evalwright.engine.task_names import asked as asked_of
from evalwright.reports.formats.figures import points, rate_gauge
from evalwright.reports.formats.text import shortened
from evalwright.reports.run.bars import rate_bar, score_so_far
from evalwright.reports.run.conversation import readable
from evalwright.reports.run.task_details import CELL, KINDS, WORDS, status_of
from evalwright.reports.run.task_list import RunFrame, TaskList
from evalwright.reports.run.task_records import TaskRecord
from evalwright.scoring.statistics import PairedChange, p_in_words, paired_change
from evalwright.scoring.thresholds import p95, pass_score

LEAST, MOST = 2, 8  # runs
FEW = 4  # columns that fit a page; more scroll in their box
SHOWS = {
    "": "Runs disagree",
    "all": "All tasks",
    "none": "None passes",
    "findings": "With findings",
}
_MOST_PAIRS = 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 376, 14, 136  # of the chart


class MatrixRun(NamedTuple):
    """A run as a column: what it came to, and where it and its tasks are."""

    frame: RunFrame
    tasks: TaskList
    title: str  # where neither model nor agent tells it apart
    kind: str  # pass or fail, or another status
    word: str
    address: str
    read: Callable[[Sequence[str]], Mapping[str, TaskRecord]]  # tasks as they may be shown
    address_of: Callable[[str], str]  # of a task, by its name

    @property
    def cost_usd(self) -> float | None:
        return self.tasks.totals.total_cost_usd if self.tasks.totals else None

    @property
    def quality(self) -> dict[str, Any]:
        """The pass rate with its interval and bar; where the bar is one of the score, that."""
        thresholds, counts = self.frame.suite.thresholds, self.tasks.counts
        found = rate_gauge(
            counts["passed"], len(self.tasks.rows) - counts["open"], rate_bar(thresholds)
        )
        of_score = thresholds.pass_score
        if of_score is None and self.frame.scoring == FIRST_RULE and thresholds.pass_rate is None:
            of_score = pass_score(thresholds)
        tone = self.kind if self.kind in ("pass", "fail") else ""
        if of_score is None or thresholds.pass_rate is not None:
            return found | {"tone": tone, "is_score": False}
        score = score_so_far(self.tasks)
        return {
            "figure": amounts.score(score),
            "share": score,
            "low": None,
            "high": None,
            "bar": of_score,
            "tone": tone,
            "words": f"score {amounts.score(score)}, bar {amounts.bar(of_score)}",
            "is_score": True,
        }


class MatrixLimits(NamedTuple):
    """What a reader asks of a run, beside its own bars."""

    least: float | None = None  # share of the tasks
    most_usd: float | None = None


class RunMatrix:
    """The matrix of some runs; `earlier` has what others of the suite cost and how many passed."""

    def __init__(
        self,
        runs: Sequence[MatrixRun],
        earlier: Sequence[tuple[float, float]] = (),
        limits: MatrixLimits = MatrixLimits(),  # noqa: B008 - it does not change
    ) -> None:
        self.runs = runs
        self.earlier = earlier
        self.limits = limits
        self.passed: dict[str, list[bool | None]] = {}
        self._with_findings = set[str]()
        for place, run in enumerate(runs):
            for row in run.tasks.rows:
                self.passed.setdefault(row.task_id, [None] * len(runs))[place] = row.passed
                if row.safety_findings:
                    self._with_findings.add(row.task_id)

    @cached_property
    def names(self) -> list[str]:
        """What tells the runs apart: their models, else their agents, else the runs themselves."""
        agents = [run.frame.agent for run in self.runs]
        for names in (
            [agent.model or str(agent.model_class or "") for agent in agents],
            [agent.name for agent in agents],
        ):
            if all(names) and len(set(names)) == len(names):
                return names
        return [run.title for run in self.runs]

    def tasks(self, show: str) -> list[str]:
        """The tasks that are shown, those first on which the runs disagree."""
        passed = self.passed
        disagree = [task for task, each in passed.items() if len(set(each)) > 1]
        if show == "":
            return disagree
        if show == "none":
            return [task for task, each in passed.items() if True not in each]
        listed = dict.fromkeys([*disagree, *passed])
        return [task for task in listed if show == "all" or task in self._with_findings]

    def shown(self, tasks: Sequence[str]) -> dict[str, Any]:
        """The verdict, the chart, the heads of the columns, and the rows of some tasks."""
        return {
            "verdict": self._verdict(),
            "chart": self._chart(),
            "columns": [
                self._column(run, name) for run, name in zip(self.runs, self.names, strict=True)
            ],
            "rows": self._rows(tasks),
            "is_wide": len(self.runs) > FEW,
        }

    def _column(self, run: MatrixRun, name: str) -> dict[str, Any]:
        thresholds, facts = run.frame.suite.thresholds, []
        for words, value, limit, form in (
            ("{} per run", run.cost_usd, thresholds.max_cost_usd, amounts.dollars),
            (
                "p95 {}",
                p95(run.tasks.latencies) if run.tasks.latencies else None,
                thresholds.max_p95_latency_ms,
                amounts.span,
            ),
        ):
            if value is not None:
                told = words.format(form(value))
                told += "" if limit is None else f", bar {form(limit)}"
                facts.append((told, limit is not None and value > limit))
        return {
            "name": name,
            "address": run.address,
            "kind": run.kind,
            "word": {"Passed": "May ship", "Failed": "Do not ship"}.get(run.word, run.word),
            "rate": run.quality,
            "facts": facts,
        }

    # What the runs come to beside each other.

    def _verdict(self) -> dict[str, Any]:
        """Which runs may ship, and whether the best is better than the next by more than chance."""
        runs, names = self.runs, self.names
        good = [name for name, run in zip(names, runs, strict=True) if run.kind == "pass"]
        if not good:
            kind, heading = "fail", "None of these may ship"
        elif len(good) == len(names):
            kind, heading = "pass", f"All {len(names)} may ship"
        else:
            only = "Only " if len(good) == 1 else ""
            listed = f"{', '.join(good[:-1])} and {good[-1]}" if len(good) > 1 else good[0]
            kind, heading = "pass", f"{only}{listed} may ship"
        order = sorted(range(len(runs)), key=lambda place: -runs[place].tasks.counts["passed"])
        changes = {place: self._change(place, order[0]) for place in order[1:]}
        pairs = [
            (
                f"{names[order[0]]} over {names[place]}",
                points(change.difference),
                f"({points(change.low).removesuffix(' points')} to {points(change.high)})",
            )
            for place, change in changes.items()
            if change is not None
        ]
        prices = [
            (name, run.cost_usd / run.tasks.counts["passed"])
            for name, run in zip(names, runs, strict=True)
            if run.cost_usd and run.tasks.counts["passed"]
        ]
        if len(prices) > 1:
            told = [f"{amounts.dollars(price)} {name}" for name, price in prices]
            pairs = [*pairs[:_MOST_PAIRS], ("Cost per passing task", "", ", ".join(told))]
        if self.limits != MatrixLimits():
            pairs.insert(0, self._within())
        why = self._why(order[0], order[1], changes[order[1]])
        return {"kind": kind, "heading": heading, "why": why, "pairs": pairs[: _MOST_PAIRS + 1]}

    def _within(self) -> tuple[str, str, str]:
        """Which runs keep to the limits of the reader."""
        least, most = self.limits
        asked = [f"at least {amounts.percent(least)}"] if least is not None else []
        asked += [f"at most {amounts.dollars(most)}"] if most is not None else []
        kept = [
            name
            for name, run in zip(self.names, self.runs, strict=True)
            if least is None or run.quality["share"] >= least
            if most is None or (run.cost_usd is not None and run.cost_usd <= most)
        ]
        words = ", ".join(asked)
        return f"{words[0].upper()}{words[1:]}", ", ".join(kept) or "none of these", ""

    def _change(self, before: int, after: int) -> PairedChange | None:
        """How the pass rate differs over the tasks that both runs have."""
        ids = [{row.task_id for row in self.runs[place].tasks.rows} for place in (before, after)]
        both = [
            (self.passed[task][before] is True, self.passed[task][after] is True)
            for task in ids[0] & ids[1]
        ]
        return paired_change(
            both.count((True, True)),
            both.count((True, False)),
            both.count((False, True)),
            both.count((False, False)),
        )

    def _why(self, best: int, second: int, change: PairedChange | None) -> str:
        runs, names = self.runs, self.names
        if change is None:
            return "These runs have no task in common."
        more = runs[best].tasks.counts["passed"] - runs[second].tasks.counts["passed"]
        if not more:
            why = f"{names[best]} and {names[second]} pass as many tasks"
        else:
            noun = "task" if more == 1 else "tasks"
            chance = "more than chance" if change.significant else "which chance may explain"
            why = (
                f"{names[best]} passes {more:,} {noun} more than {names[second]}, {chance} "
                f"({p_in_words(change.p_value)})"
            )
        costs = runs[best].cost_usd, runs[second].cost_usd
        if costs[0] is None or costs[1] is None or costs[0] == costs[1]:
            return f"{why}."
        dearer = costs[0] - costs[1]
        if dearer < 0:
            return f"{why}, for {amounts.dollars(-dearer)} less per run."
        times = f"{costs[0] / costs[1]:.1f} times the price: " if costs[1] else ""
        return f"{why}, for {times}{amounts.dollars(dearer)} more per run."

    # The tasks.

    def _rows(self, tasks: Sequence[str]) -> list[dict[str, Any]]:
        records = [
            run.read([task_id for task_id in tasks if task_id in run.tasks.places])
            for run in self.runs
        ]
        return [self._row(task_id, [each.get(task_id) for each in records]) for task_id in tasks]

    def _row(self, task_id: str, records: Sequence[TaskRecord | None]) -> dict[str, Any]:
        passed = self.passed[task_id]
        having = next(run for run in self.runs if task_id in run.tasks.places)
        called: TaskName = having.frame.names.of(task_id)
        task = having.frame.task(task_id, having.tasks.places[task_id])
        alone = {
            value: self.names[passed.index(value)]
            for value in (True, False)
            if passed.count(value) == 1 and None not in passed and len(passed) > LEAST
        }
        value, odd = next(iter(alone.items())) if len(alone) == 1 else (None, "")
        return {
            "task_id": called.name,
            "title": called.subtitle or called.name,
            "note": f"Only {odd} {'passes' if value else 'fails'}" if odd else "",
            "input": shortened(asked_of(task.input), CELL) if task else "",
            "cells": list(self._cells(task_id, called.name, odd, records)),
        }

    def _cells(
        self, task_id: str, called: str, odd: str, records: Sequence[TaskRecord | None]
    ) -> Iterator[dict[str, Any]]:
        passed = self.passed[task_id]
        for run, name, came, record in zip(self.runs, self.names, passed, records, strict=True):
            if task_id not in run.tasks.places:
                yield {"column": name, "kind": "", "odd": ""}
                continue
            status, said = {True: "passed", False: "failed", None: "open"}[came], ""
            if record is not None:
                status = status_of(record)
                said = record.error.get("message", "") if record.error else readable(record.output)
            yield {
                "column": name,
                "kind": KINDS[status],
                "word": WORDS[status],
                "answer": shortened(said, CELL) if said else "",
                "address": run.address_of(called),
                "odd": ("odd-pass" if came else "odd") if name == odd else "",
            }

    # The chart.

    def _chart(self) -> dict[str, Any] | None:
        """Quality over cost, with intervals, the bars, and the frontier of what nothing beats."""
        known = [
            (name, run.cost_usd, run.quality, run.kind)
            for name, run in zip(self.names, self.runs, strict=True)
            if run.cost_usd and run.tasks.rows
        ]
        if len(known) < LEAST:
            return None
        budget = self.limits.most_usd or self.runs[0].frame.suite.thresholds.max_cost_usd
        past = [] if known[0][2]["is_score"] else [each for each in self.earlier if each[0] > 0]
        costs = [cost for _, cost, _, _ in known] + ([budget] if budget else [])
        costs += [cost for cost, _ in past]
        low, high = log10(min(costs)), log10(max(costs))
        low, high = (low - 0.2, high + 0.2) if high - low > 0.01 else (low - 0.5, high + 0.5)
        lows = (rate["share"] if rate["low"] is None else rate["low"] for _, _, rate, _ in known)
        base: float = floor(10 * min(0.5, *lows, *(share for _, share in past))) / 10
        bar = known[0][2]["bar"] if self.limits.least is None else self.limits.least

        def x(cost: float) -> float:
            return round(_LEFT + (_RIGHT - _LEFT) * (log10(cost) - low) / (high - low), 1)

        def y(share: float) -> float:
            return round(_BOTTOM - (_BOTTOM - _TOP) * (share - base) / (1 - base), 1)

        frontier, best = list[str](), -1.0
        for _, cost, rate, _ in sorted(known, key=lambda each: (each[1], -each[2]["share"])):
            if rate["share"] > best:
                best = rate["share"]
                frontier.append(f"{x(cost)} {y(best)}")
        told = [
            f"{name} {rate['words']}, {amounts.dollars(cost)} per run"
            for name, cost, rate, _ in known
        ]
        return {
            "words": "; ".join([*told, *([f"budget {amounts.dollars(budget)}"] if budget else [])]),
            "shares": [(y(each), f"{100 * each:.0f}") for each in (base, (1 + base) / 2, 1.0)],
            "prices": [(x(price), amounts.dollars(price)) for price in _prices(low, high)],
            "bar": None if bar is None or bar < base else y(bar),
            "budget": x(budget) if budget else None,
            "frontier": " L".join(frontier),
            "past": [(x(cost), y(share)) for cost, share in past],
            "points": [
                {
                    "name": shortened(name, 30),
                    "kind": kind,
                    "x": x(cost),
                    "y": y(rate["share"]),
                    "span": None if rate["low"] is None else (y(rate["high"]), y(rate["low"])),
                    "is_right": x(cost) > 0.65 * _RIGHT,
                }
                for name, cost, rate, kind in known
            ],
        }


def _prices(low: float, high: float) -> list[float]:
    """Round prices between two powers of ten, or both ends where there are none."""
    powers = range(floor(low), ceil(high) + 1)
    found = [each * 10.0**power for power in powers for each in (1, 3)]
    within = [price for price in found if low <= log10(price) <= high]
    if len(within) < LEAST:
        return [10**low, 10**high]
    return within[:: ceil(len(within) / 5)]
