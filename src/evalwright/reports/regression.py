"""A run beside its baseline, on a console: what broke, what was mended, and whether it tells."""

from collections.abc import Callable, Iterable, Sequence

from evalwright.reports.style import Style
from evalwright.reports.text import printable
from evalwright.scoring.regression import RegressionReport, TaskChange

MOST_TASKS = 10
FEWEST_CHANGES = 6  # of less than these, an interval would promise more than it keeps


def render_regression(report: RegressionReport, style: Style, *, full: bool = False) -> list[str]:
    """The lines of the comparison; `full` leaves no task out."""
    limit = None if full else MOST_TASKS
    failing = _named(report.tasks, report.newly_failing)
    passing = _named(report.tasks, report.newly_passing)
    return [
        style.bold(f"Against the baseline {printable(report.baseline_run_id)}"),
        *_section("Newly failing", failing, _marked(style.red("✗")), limit),
        *_section("Newly passing", passing, _marked(style.green("✓")), limit),
        *_section("Same verdict, lower score", report.score_drops, _marked("↓"), limit),
        *_still_failing(report),
        *_statistics(report),
        f"  {_coloured(report, style)}",
    ]


def _section(
    title: str,
    tasks: Sequence[TaskChange],
    line: Callable[[TaskChange], str],
    limit: int | None,
) -> list[str]:
    if not tasks:
        return []
    shown = tasks[:limit]
    lines = [f"  {title} ({len(tasks)})", *(f"    {line(task)}" for task in shown)]
    if len(shown) < len(tasks):
        lines.append(f"    … and {len(tasks) - len(shown)} more")
    return lines


def _marked(mark: str) -> Callable[[TaskChange], str]:
    return lambda task: f"{mark} {task.task_id}  {_from_to(task.baseline_score, task.score)}"


def _still_failing(report: RegressionReport) -> list[str]:
    count = len(report.still_failing)
    return [f"  {count} {'task fails' if count == 1 else 'tasks fail'} as before"] if count else []


def _statistics(report: RegressionReport) -> list[str]:
    lines = []
    scores, passes = report.score_change, report.pass_change
    if scores is not None:
        told = [f"{report.score_delta:+.4g}"]
        if report.changed_scores >= FEWEST_CHANGES:
            told.append(f"95 % interval {scores.low:+.3g} to {scores.high:+.3g}")
        line = f"  score {_from_to(report.baseline_score, report.score)}"
        lines.append(f"{line} ({', '.join(told)})")
    if passes is not None:
        told = [f"{passes.difference * 100:+.1f} points"]
        if len(report.newly_failing) + len(report.newly_passing) >= FEWEST_CHANGES:
            told.append(f"95 % interval {passes.low * 100:+.1f} to {passes.high * 100:+.1f}")
        line = f"  pass rate {passes.baseline_rate:.1%} → {passes.new_rate:.1%}"
        lines.append(f"{line} ({', '.join(told)})")
    return lines


def _from_to(before: float, now: float) -> str:
    """Both in four digits, or in all of them where four would make them look the same."""
    short = f"{before:.4g}", f"{now:.4g}"
    told = short if short[0] != short[1] or before == now else (repr(before), repr(now))
    return " → ".join(told)


def _coloured(report: RegressionReport, style: Style) -> str:
    return style.red(report.sentence) if report.significant else report.sentence


def _named(tasks: Iterable[TaskChange], ids: Sequence[str]) -> list[TaskChange]:
    wanted = set(ids)
    return [task for task in tasks if task.task_id in wanted]
