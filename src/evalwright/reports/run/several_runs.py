"""Several runs on a console: a run against its baseline, and repeats of one run."""

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from evalwright.contracts.amounts import percent, share_interval
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.reports.formats.console import Shape, Style, columns, printable, wrapped
from evalwright.reports.formats.figures import points_in_words, with_minus
from evalwright.scoring.regression import RegressionReport, TaskChange
from evalwright.scoring.repeats import RepeatsReport, TaskRepeats
from evalwright.scoring.statistics import p_in_words

MOST_CHANGES = 10  # tasks of each kind against a baseline
MOST_REPEATS = 20  # tasks of repeated runs
FEWEST_CHANGES = 6  # with fewer, an interval would promise more than it can keep
_ORDER = ("flaky", "failed", "passed")


def render_regression(
    report: RegressionReport, style: Style, names: TaskNames = NO_NAMES, *, full: bool = False
) -> list[str]:
    """The lines of the comparison; `full` leaves no task out."""
    limit = None if full else MOST_CHANGES

    def told(task: TaskChange) -> str:
        called = [printable(each) for each in names.of(task.task_id).told]
        return "  ".join([*called, _from_to(task.baseline_score, task.score)])

    newly_failing, newly_passing = set(report.newly_failing), set(report.newly_passing)
    lines = [style.bold(f"Against the baseline {printable(report.called)}")]
    for title, mark, tasks in (
        (
            "Newly failing",
            style.shape("failed"),
            [t for t in report.tasks if t.task_id in newly_failing],
        ),
        (
            "Newly passing",
            style.shape("passed"),
            [t for t in report.tasks if t.task_id in newly_passing],
        ),
        ("Same verdict, lower score", "↓", report.score_drops),
    ):
        if tasks:
            lines.append(f"  {title} ({len(tasks)})")
            lines += [f"    {mark} {told(task)}" for task in tasks[:limit]]
        if limit is not None and len(tasks) > limit:
            lines.append(f"    … and {len(tasks) - limit} more")
    if count := len(report.still_failing):
        lines.append(f"  {count} {'task still fails' if count == 1 else 'tasks still fail'}")
    if report.left_out is not None:  # because the suite has changed
        left_out = {
            what: ids for what, ids in msgspec.structs.asdict(report.left_out).items() if ids
        }
        for what, ids in left_out.items():
            shown = ", ".join(printable(names.name_of(each)) for each in ids[:limit])
            more = f" and {len(ids) - limit} more" if limit is not None and len(ids) > limit else ""
            lines.append(f"  Not compared, {what} ({len(ids)}): {shown}{more}")
        if not left_out:
            lines.append("  The baseline is of another version; its tasks are the same")
    scores, passes = report.score_change, report.pass_change
    if scores is not None:
        change = f"{report.score_delta:+.4g}"
        if report.changed_scores >= FEWEST_CHANGES:
            change += f", 95% interval {scores.low:+.3g} to {scores.high:+.3g}"
        if report.changed_scores:
            change += f", {p_in_words(scores.p_value)}"
        scored = _from_to(report.baseline_score, report.score)
        lines.append(with_minus(f"  score {scored} ({change})"))
    if passes is not None:
        several = len(newly_failing) + len(newly_passing) >= FEWEST_CHANGES
        interval = (passes.low, passes.high) if several else None
        change = points_in_words(passes.difference, interval)
        rates = f"{percent(passes.baseline_rate)} → {percent(passes.new_rate)}"
        lines.append(with_minus(f"  pass rate {rates} ({change})"))
    return [*lines, *render_change(report.verdict, style)]


class _ToldChange(Protocol):
    @property
    def sentence(self) -> str: ...
    @property
    def is_worse(self) -> bool: ...


def render_change(change: _ToldChange, style: Style, against: str = "") -> list[str]:
    """Whether a change is more than chance, in one sentence."""
    lines = wrapped(with_minus(f"{against}{change.sentence}"), style.width, "  ")
    return [*map(style.red, lines)] if change.is_worse else lines


def _from_to(before: float, now: float) -> str:
    """Both in four digits, or in all of them where four would make them look the same."""
    short = f"{before:.4g}", f"{now:.4g}"
    shown = short if short[0] != short[1] or before == now else (repr(before), repr(now))
    return " → ".join(shown)


def repeats_shape(task: TaskRepeats, errors: Collection[str]) -> Shape:
    """How a task came out over all runs; `errors` are those that were never answered."""
    return "error" if task.verdict == "failed" and task.task_id in errors else task.verdict


def render_repeats(
    report: RepeatsReport,
    style: Style,
    names: TaskNames = NO_NAMES,
    errors: Collection[str] = (),
    *,
    full: bool = False,
) -> list[str]:
    """The lines of the summary; `full` leaves no task out."""
    tasks = worst_first(report.tasks)
    shown = tasks if full else tasks[:MOST_REPEATS]
    rows = []
    for task in shown:
        called, spread = names.of(task.task_id), task.score
        between = f" ({spread.low:.4g} to {spread.high:.4g})" if spread.low < spread.high else ""
        rows.append(
            (
                style.shape(repeats_shape(task, errors)),
                called.title,
                printable(called.name) if called.subtitle else "",
                f"{task.passes} of {task.runs}",
                share_interval(*task.interval),
                f"score {spread.mean:.4g}{between}",
            )
        )
    lines = [f"  {line}" for line in columns(rows, ".~<>><", style.width - 2)]
    if hidden := [task.verdict for task in tasks[len(shown) :]]:
        counts = [f"{hidden.count(kind)} {kind}" for kind in _ORDER if kind in hidden]
        lines.append(style.dim(f"    and {len(hidden)} more: {', '.join(counts)}"))
    score = report.score
    lines.append(
        f"  score {score.mean:.4g} ({score.low:.4g} to {score.high:.4g}) · "
        f"{report.runs_passed} of {report.runs} runs passed"
    )
    if report.runs > 1 and report.tasks:  # pass^k for k that doubles, and for all runs
        doubled = [1 << power for power in range(report.runs.bit_length())]
        sizes = sorted({size for size in doubled if size < report.runs} | {report.runs})
        lines.append("  " + " · ".join(f"pass^{k} {report.pass_hat(k):.4g}" for k in sizes))
    told = wrapped(report.sentence, style.width, "  ")
    return [*lines, *(map(style.yellow, told) if report.flaky else told)]


def worst_first(tasks: Iterable[TaskRepeats]) -> list[TaskRepeats]:
    """Flaky tasks, then those that failed in every run, then the rest."""
    return sorted(tasks, key=lambda task: _ORDER.index(task.verdict))
