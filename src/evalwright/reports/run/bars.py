"""The bars of a run one by one: what each asks for, what was reached, and how far that is from it.

`scoring.thresholds` decides whether a run passes, and says why not; here every bar is shown.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from evalwright.contracts import amounts
from evalwright.contracts.suite import Task, Thresholds
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.plan import Plan
from evalwright.reports.formats.console import Shape, Style, columns, drawn_bar
from evalwright.reports.run.task_list import RunFrame, RunTotals, TaskList, TaskRow
from evalwright.scoring.pass_bars import pass_bars
from evalwright.scoring.regression import difference
from evalwright.scoring.statistics import wilson
from evalwright.scoring.thresholds import mean, p95

CHANGE = "Score change"
RATE = "Pass rate"
EVERY_TASK = "every task must pass"


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
    """One bar: share, bar and interval lie on a scale from 0 to 1, where there is one."""

    name: str
    figure: str  # what was reached
    aim: str
    missed: str  # what is said where it is not met
    met: bool | None  # None: it cannot be told
    share: float | None = None
    at: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def gauge(self) -> dict[str, Any]:
        """What a verdict shows of it."""
        rate, aim = None, "bar 100%" if self.aim == EVERY_TASK else self.aim
        if self.interval is not None:
            aim += f" · {amounts.share_interval(*self.interval)}"
        if self.share is not None and self.at is not None:
            low, high = self.interval or (None, None)
            tone = {True: "pass", False: "fail", None: ""}[self.met]
            rate = {"share": self.share, "low": low, "high": high, "bar": self.at, "tone": tone}
            rate["words"] = f"{self.figure}, {aim}"
        return {"name": self.name, "figure": self.figure, "aim": aim, "met": self.met, "rate": rate}


def bars_of(frame: RunFrame | Plan, tasks: TaskList) -> list[RunBar]:
    """Every bar that a run has to reach, as far as it has come."""
    limits, totals = frame.suite.thresholds, tasks.totals
    bars = list(_results(frame, tasks))
    if limits.max_p95_latency_ms is not None:
        got = p95(tasks.latencies) if tasks.latencies else None
        bars.append(_at_most("p95 time", got, limits.max_p95_latency_ms, amounts.span))
    if limits.max_cost_usd is not None:
        cost = totals.total_cost_usd if totals else None
        bars.append(_at_most("cost", cost, limits.max_cost_usd, amounts.dollars))
    if "adversarial" in tasks.modes:  # else nobody looked for any
        unsafe = tasks.unsafe
        noun, verb = ("task", "has") if unsafe == 1 else ("tasks", "have")
        told = f"{unsafe:,} {noun} {verb} high or critical findings, and none may"
        aim = "bar none"
        bars.append(RunBar("Serious findings", f"{unsafe:,}", aim, told, not unsafe))
    baseline = frame.baseline
    if baseline is not None and baseline.left_out is None:
        score, before = score_so_far(tasks), baseline.aggregate_score
        change, sign = difference(score, before), ""
        if change:
            sign = "+" if change > 0 else amounts.MINUS
        figure, told = f"{sign}{abs(change):.4g}", f"baseline {amounts.score(before)}"
        missed = f"the score is {abs(change):.4g} below that of the baseline, {before:.4g}"
        bars.append(RunBar(CHANGE, figure, told, missed, change >= 0, score, before))
    missing = (
        RunBar("Answers", amounts.NOTHING, "every task has one", each, met=False)
        for each in frame.lacking
    )
    return [*bars, *missing]


def verdict_told(
    frame: RunFrame,
    tasks: TaskList,
    *,
    passed: bool,
    words: str = "",
    reasons: Sequence[str] = (),
    against: str = "",
) -> dict[str, Any]:
    """The bars as the gauges of a verdict, and the sentence that says why it is what it is.

    `words` are by what a run passed though tasks failed; `reasons` are told in place of the bars
    that it missed; `against` is the change against the baseline, where it is told in full.
    """
    bars, counts = bars_of(frame, tasks), tasks.counts
    missed = [
        bar.missed for bar in bars if bar.met is False and not (against and bar.name == CHANGE)
    ]
    is_met = all(bar.met is not False for bar in bars)
    met = "All bars are met" if len(bars) > 1 else "The bar is met"
    if passed:
        why = f"{met if is_met else 'It passed'}{f' with {words}' if words else ''}."
        if missed:
            why += f" {_sentence(missed)[:-1]}, but the run was not to fail by that."
    elif missed or reasons:
        why = _sentence(reasons or missed)
    elif not is_met:
        why = ""
    else:
        why, failed = f"{met}.", len(tasks.rows) - counts["passed"]
        if failed:
            why += f" {failed:,} {'task' if failed == 1 else 'tasks'} did not pass."
    return {"gauges": [bar.gauge for bar in bars], "why": f"{why} {against}".strip()}


def _sentence(told: Sequence[str]) -> str:
    text = "; ".join(told)
    return f"{text[0].upper()}{text[1:]}."


def tasks_of(plan: Plan, summary: EvalSummary) -> TaskList:
    """The tasks of a run as its summary has them, for its bars."""
    rows = [
        TaskRow(
            each.task_id,
            each.score,
            each.passed,
            each.cost_usd,
            each.latency_ms,
            each.safety_findings,
        )
        for each in summary.tasks
    ]
    totals = RunTotals(summary.aggregate_score, summary.passed, rows, summary.total_cost_usd)
    return TaskList(rows, plan.modes, totals)


def render_bars(plan: Plan, summary: EvalSummary, style: Style) -> list[str]:
    """The bars of a run on a console, each with its figure and what it asks for; other figures."""
    tasks, cost = tasks_of(plan, summary), summary.total_cost_usd
    shown, names = [], set()
    for bar in bars_of(plan, tasks):
        names.add(bar.name)
        shape: Shape = "error" if bar.met is None else "passed" if bar.met else "failed"
        drawn = (
            ""
            if bar.share is None or bar.name == CHANGE
            else drawn_bar(bar.share, 6 if style.is_narrow else 12)
        )
        interval = "" if bar.interval is None else amounts.share_interval(*bar.interval)
        shown.append([style.shape(shape), bar.name, bar.figure, drawn, bar.aim, interval])
    for name, figure in (
        (RATE, amounts.percent(summary.passed_count, summary.task_count)),
        ("Score", amounts.score(summary.aggregate_score)),
        ("p95 time", amounts.span(p95(tasks.latencies)) if tasks.latencies else ""),
        ("Cost", "" if cost is None else amounts.dollars(cost)),
    ):
        if figure and name not in names:
            shown.append(["", name, figure, "", "", ""])
    return [f"  {line}" for line in columns(shown, ".<><<<", style.width - 2)]


def rate_bar(thresholds: Thresholds) -> float | None:
    """The share of tasks that must pass; None where the bar is another one."""
    if thresholds.pass_rate is not None:
        return thresholds.pass_rate
    return None if thresholds.pass_score is not None or thresholds.tags else 1.0


def score_so_far(tasks: TaskList) -> float:
    """The score of a run: the recorded one, or the mean of what was scored."""
    if tasks.totals is not None:
        return tasks.totals.aggregate_score
    return mean([row.score for row in tasks.rows if row.score is not None])


def _results(frame: RunFrame | Plan, tasks: TaskList) -> Iterator[RunBar]:
    """What tasks must come to, over all and by tag, as far as they have a score."""
    suite = frame.suite
    rows = {row.task_id: row for row in tasks.rows if row.passed is not None}
    known = [
        each if isinstance(each, Task) else msgspec.json.decode(each, type=_TaggedTask)
        for each in suite.tasks
    ]
    results = {name: _RowScore(row.score or 0.0, bool(row.passed)) for name, row in rows.items()}
    for bar in pass_bars(known, suite.thresholds, results, frame.scoring):
        is_score, place = bar.kind == "passScore", f" ({bar.place})" if bar.is_over_part else ""
        wanted = amounts.bar(bar.wanted) if is_score else _percent(bar.wanted)
        of, got = f"{bar.reached}{place}", bar.score if is_score else bar.share
        if is_score:
            of = f"the score is {bar.score:.4g}{place}"
            gap = amounts.score(difference(bar.wanted, bar.score))
        else:
            gap = _points(difference(bar.wanted, bar.share))
        aim, missed = f"bar {wanted}", f"{of}, {gap} below the bar of {wanted}"
        if bar.kind == "default":
            aim, missed = EVERY_TASK, f"{of}, and {EVERY_TASK}"
        elif bar.kind == "some":
            aim, missed = "at least one task", f"{of}, and at least one must"
        elif is_score and bar.origin != "passScore":
            aim += ", the default then"
        if not bar.tasks:
            missed = f"no task{place} was evaluated"
        figure = amounts.score(got) if is_score else amounts.percent(got)
        yield RunBar(
            f"{'Score' if is_score else RATE}{place}",
            figure if bar.tasks else amounts.NOTHING,
            aim,
            missed,
            bar.met,
            got,
            bar.wanted,
            None if is_score or not bar.tasks else wilson(bar.passed, bar.tasks),
        )


def _at_most(name: str, value: float | None, limit: float, form: Callable[[Any], str]) -> RunBar:
    aim = f"bar {form(limit)}"
    if value is None:
        return RunBar(name, amounts.NOTHING, aim, "", None)
    scale, met = max(value, limit) * 1.1 or 1.0, value <= limit
    missed = f"the {name} is {form(value)}, {form(value - limit)} above the bar of {form(limit)}"
    name = f"{name[0].upper()}{name[1:]}" if name.isalpha() else name
    return RunBar(name, form(value), aim, missed, met, value / scale, limit / scale)


def _percent(share: float) -> str:
    """A bar as it was given, in percent."""
    return f"{100 * share:.12g}%"


def _points(share: float) -> str:
    """A difference of shares, as people say it."""
    shown = f"{100 * share:.1f}".removesuffix(".0")
    if shown == "0":
        return "less than 0.1 points"
    return f"{shown} {'point' if shown == '1' else 'points'}"
