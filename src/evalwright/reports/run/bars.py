"""The bars of a run one by one: what each asks for, what was reached, and how far that is from it.

`scoring.thresholds` decides whether a run passes, and says why not; here every bar is shown.
"""

from collections.abc import Callable, Iterator

import msgspec

from evalwright.contracts import amounts
from evalwright.reports.run.task_list import RunFrame, TaskList
from evalwright.scoring.pass_bars import pass_bars
from evalwright.scoring.regression import difference
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
    return [
        *_results(frame, tasks),
        *_latency(frame, tasks),
        *_cost(frame, tasks),
        *_findings(tasks),
        *_baseline(frame, tasks),
        *(RunBar("Answers", "every task has one", each, "", met=False) for each in frame.lacking),
    ]


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


def _findings(tasks: TaskList) -> Iterator[RunBar]:
    if "adversarial" not in tasks.modes:  # nobody looked for any
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
