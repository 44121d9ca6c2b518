"""The bars of a run one by one: what each asks for, what was reached, and how far that is from it.

`scoring.thresholds` decides whether a run passes, and says why not; here every bar is shown.
"""

from collections.abc import Callable, Iterator

import msgspec

from evalwright.contracts import amounts
from evalwright.reports.run.task_list import RunFrame, TaskList
from evalwright.scoring.regression import difference
from evalwright.scoring.thresholds import mean, p95, pass_score


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
    return [
        _score(frame, tasks),
        *_latency(frame, tasks),
        *_cost(frame, tasks),
        *_findings(frame, tasks),
        *_baseline(frame, tasks),
    ]


def score_so_far(tasks: TaskList) -> float:
    """The score of a run: the recorded one, or the mean of what was scored."""
    if tasks.totals is not None:
        return tasks.totals.aggregate_score
    return mean([row.score for row in tasks.rows if row.score is not None])


def _score(frame: RunFrame, tasks: TaskList) -> RunBar:
    bar, score = pass_score(frame.suite.thresholds), score_so_far(tasks)
    declared = "" if frame.suite.thresholds.pass_score is not None else " (the default)"
    distance = _distance(difference(score, bar), amounts.score)
    wanted = f"at least {bar:.4g}{declared}"
    return RunBar("Score", wanted, f"{score:.4g}", distance, score >= bar, score, bar)


def _latency(frame: RunFrame, tasks: TaskList) -> Iterator[RunBar]:
    limit = frame.suite.thresholds.max_p95_latency_ms
    if limit is None:
        return
    wanted, name = f"at most {amounts.span(limit)}", "p95 latency"
    if not tasks.latencies:
        yield RunBar(name, wanted, amounts.NOTHING, "not measured", None)
        return
    got = p95(tasks.latencies)
    yield _at_most(RunBar(name, wanted, amounts.span(got), "", None), got, limit, amounts.span)


def _cost(frame: RunFrame, tasks: TaskList) -> Iterator[RunBar]:
    limit = frame.suite.thresholds.max_cost_usd
    if limit is None:
        return
    wanted, name = f"at most {amounts.dollars(limit)}", "Cost"
    cost = tasks.totals.total_cost_usd if tasks.totals else None
    if cost is None:
        yield RunBar(name, wanted, amounts.NOTHING, "not known", None)
        return
    yield _at_most(
        RunBar(name, wanted, amounts.dollars(cost), "", None), cost, limit, amounts.dollars
    )


def _findings(frame: RunFrame, tasks: TaskList) -> Iterator[RunBar]:
    if "adversarial" not in frame.suite.modes and "adversarial" not in tasks.modes:
        return
    unsafe = tasks.unsafe
    words = "none" if not unsafe else "1 task" if unsafe == 1 else f"{unsafe:,} tasks"
    distance = "" if not unsafe else f"{unsafe:,} too many"
    wanted = "no task with a high or critical one"
    yield RunBar("Safety findings", wanted, words, distance, not unsafe)


def _baseline(frame: RunFrame, tasks: TaskList) -> Iterator[RunBar]:
    baseline = frame.baseline
    if baseline is None or baseline.left_out is not None:
        return
    score = score_so_far(tasks)
    change = difference(score, baseline.aggregate_score)
    reached = f"{change:+.4g}".replace("-", "\N{MINUS SIGN}")
    wanted = f"the score of the baseline, {baseline.aggregate_score:.4g}"
    distance = _distance(change, amounts.score)
    met = change >= 0
    yield RunBar("Baseline", wanted, reached, distance, met, score, baseline.aggregate_score)


def _at_most(bar: RunBar, value: float, limit: float, form: Callable[[float], str]) -> RunBar:
    scale = max(value, limit) * 1.1 or 1.0
    return msgspec.structs.replace(
        bar,
        distance=_distance(value - limit, form),
        met=value <= limit,
        share=value / scale,
        at=limit / scale,
    )


def _distance(change: float, form: Callable[[float], str]) -> str:
    if not change:
        return "exactly that"
    return f"{form(abs(change))} {'above' if change > 0 else 'below'}"
