"""The bars of a run one by one: what each asks for, what was reached, and how far that is from it.

`scoring.thresholds` decides whether a run passes, and says why not; here every bar is shown.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from evalwright.contracts import amounts
from evalwright.contracts.suite import Thresholds
from evalwright.reports.run.task_list import RunFrame, TaskList
from evalwright.scoring.pass_bars import pass_bars
from evalwright.scoring.regression import difference
from evalwright.scoring.statistics import wilson
from evalwright.scoring.thresholds import mean, p95


class _RowScore(msgspec.Struct, frozen=True):
    score: float
    passed: bool


class _ExpectedKind(msgspec.Struct, frozen=True):
    kind: str


class _TaggedTask(msgspec.Struct, frozen=True, rename="camel"):
    """What a bar asks of a planned task."""

    task_id: str
    expected: _ExpectedKind
    tags: list[str] = []
    weight: float = 1.0


class RunBar(msgspec.Struct, frozen=True):
    """One bar: both values lie on a scale from 0 to 1, where there is one."""

    name: str
    wanted: str
    reached: str
    distance: str  # from the bar, in words
    met: bool | None  # None: it cannot be told
    share: float | None = None
    at: float | None = None


def bars_of(frame: RunFrame, tasks: TaskList) -> list[RunBar]:
    """Every bar that a run has to reach, as far as it has come."""
    limits, totals = frame.suite.thresholds, tasks.totals
    bars = list(_results(frame, tasks))
    if limits.max_p95_latency_ms is not None:
        got = p95(tasks.latencies) if tasks.latencies else None
        limit = limits.max_p95_latency_ms
        bars.append(_at_most("p95 latency", got, limit, amounts.span, "not measured"))
    if limits.max_cost_usd is not None:
        cost = totals.total_cost_usd if totals else None
        bars.append(_at_most("Cost", cost, limits.max_cost_usd, amounts.dollars, "not known"))
    if "adversarial" in tasks.modes:  # else nobody looked for any
        unsafe = tasks.unsafe
        words = "none" if not unsafe else "1 task" if unsafe == 1 else f"{unsafe:,} tasks"
        distance = "" if not unsafe else f"{unsafe:,} too many"
        wanted = "no task with a high or critical one"
        bars.append(RunBar("Safety findings", wanted, words, distance, not unsafe))
    baseline = frame.baseline
    if baseline is not None and baseline.left_out is None:
        score, before = score_so_far(tasks), baseline.aggregate_score
        change = difference(score, before)
        reached = f"{change:+.4g}".replace("-", "\N{MINUS SIGN}")
        wanted, distance = (
            f"the score of the baseline, {before:.4g}",
            _distance(change, amounts.score),
        )
        bars.append(RunBar("Baseline", wanted, reached, distance, change >= 0, score, before))
    missing = (
        RunBar("Answers", "every task has one", each, "", met=False) for each in frame.lacking
    )
    return [*bars, *missing]


def verdict_told(
    frame: RunFrame, tasks: TaskList, *, passed: bool, words: str = "", reasons: Sequence[str] = ()
) -> dict[str, Any]:
    """The bars as the gauges of a verdict, and the sentence that says why it is what it is.

    `words` are by what a run passed though tasks failed; `reasons` are told in place of the bars
    that it missed.
    """
    bars, counts = bars_of(frame, tasks), tasks.counts
    scored = len(tasks.rows) - counts["open"]
    missed = [bar for bar in bars if bar.met is False]
    met = "All bars are met" if len(bars) > 1 else "The bar is met"
    if passed:
        why = f"{'It passed' if missed else met}{f' with {words}' if words else ''}."
        for each in missed:
            why += f" {each.name}: {each.reached}, but the run was not to fail by that."
    elif missed or reasons:
        told = [f"{bar.name.lower()}: {bar.reached}, {bar.wanted} wanted" for bar in missed]
        why = "; ".join(reasons or told)
        why = f"{why[0].upper()}{why[1:]}."
    else:
        why, failed = f"{met}.", len(tasks.rows) - counts["passed"]
        if failed:
            why += f" {failed:,} {'task' if failed == 1 else 'tasks'} did not pass."
    return {"gauges": [_gauge(bar, counts["passed"], scored) for bar in bars], "why": why}


def _gauge(bar: RunBar, passed: int, scored: int) -> dict[str, Any]:
    rate = None
    if bar.share is not None and bar.at is not None:
        is_rate = bar.name == "Tasks passed" and scored
        low, high = wilson(passed, scored) if is_rate else (None, None)
        rate = {
            "share": bar.share,
            "low": low,
            "high": high,
            "bar": bar.at,
            "tone": {True: "pass", False: "fail", None: ""}[bar.met],
            "words": f"{bar.reached}, {bar.wanted} wanted",
        }
    return {
        "name": bar.name,
        "figure": bar.reached,
        "aim": bar.wanted,
        "met": bar.met,
        "rate": rate,
    }


def rate_bar(thresholds: Thresholds) -> float | None:
    """The share of tasks that must pass; None where the bar is another one."""
    if thresholds.pass_rate is not None:
        return thresholds.pass_rate
    return None if thresholds.pass_score is not None or thresholds.tags else 1.0


def rate_gauge(passed: int, tasks: int, bar: float | None) -> dict[str, Any]:
    """A pass rate with its interval and its bar, as pages draw it."""
    rate = passed / tasks if tasks else 0.0
    low, high = wilson(passed, tasks) if tasks else (0.0, 1.0)
    share = amounts.percent(passed, tasks) if tasks else amounts.NOTHING
    aim = "" if bar is None else f", bar {amounts.percent(bar)}"
    is_met = rate >= bar if bar is not None else passed == tasks
    return {
        "figure": share.removesuffix("%"),
        "share": rate,
        "low": low,
        "high": high,
        "bar": bar,
        "tone": "pass" if is_met else "warn" if bar is None else "fail",
        "words": f"{share}, interval {amounts.share_interval(low, high)}{aim}",
    }


def score_so_far(tasks: TaskList) -> float:
    """The score of a run: the recorded one, or the mean of what was scored."""
    if tasks.totals is not None:
        return tasks.totals.aggregate_score
    return mean([row.score for row in tasks.rows if row.score is not None])


def _results(frame: RunFrame, tasks: TaskList) -> Iterator[RunBar]:
    """What tasks must come to, over all and by tag, as far as they have a score."""
    suite = frame.suite
    rows = {row.task_id: row for row in tasks.rows if row.passed is not None}
    known = [msgspec.json.decode(each, type=_TaggedTask) for each in suite.tasks]
    results = {name: _RowScore(row.score or 0.0, bool(row.passed)) for name, row in rows.items()}
    for bar in pass_bars(known, suite.thresholds, results, frame.scoring):
        is_score = bar.kind == "passScore"
        name = "Score" if is_score else "Tasks passed"
        if bar.is_over_part:
            name = f"{name}, {bar.place}"
        share, form = (bar.score, amounts.score) if is_score else (bar.share, amounts.percent)
        distance = _distance(difference(share, bar.wanted), form) if bar.tasks else ""
        wanted = f"at least {amounts.bar(bar.wanted)}"
        if bar.kind in ("default", "some"):
            wanted, distance = bar.in_words, "" if bar.kind == "some" else distance
        elif bar.origin != "passScore":
            wanted += " (the default then)"
        reached = f"{bar.score:.4g}" if bar.kind == "passScore" and bar.tasks else bar.reached
        yield RunBar(name, wanted, reached, distance, bar.met, share, bar.wanted)


def _at_most(
    name: str, value: float | None, limit: float, form: Callable[[Any], str], unknown: str
) -> RunBar:
    wanted = f"at most {form(limit)}"
    if value is None:
        return RunBar(name, wanted, amounts.NOTHING, unknown, None)
    scale, distance = max(value, limit) * 1.1 or 1.0, _distance(value - limit, form)
    met = value <= limit
    return RunBar(name, wanted, form(value), distance, met, value / scale, limit / scale)


def _distance(change: float, form: Callable[[float], str]) -> str:
    if not change:
        return "exactly that"
    return f"{form(abs(change))} {'above' if change > 0 else 'below'}"
