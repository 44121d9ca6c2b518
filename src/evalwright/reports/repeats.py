"""Repeated runs on a console: flaky tasks first, then failing ones, then what can be relied on."""

from collections.abc import Sequence

from evalwright.reports.style import Style
from evalwright.scoring.repeats import RepeatsReport, TaskRepeats

MOST_TASKS = 20
_ORDER = ("flaky", "failed", "passed")


def render_repeats(report: RepeatsReport, style: Style, *, full: bool = False) -> list[str]:
    """The lines of the summary; `full` leaves no task out."""
    tasks = sorted(report.tasks, key=lambda task: _ORDER.index(task.verdict))
    shown = tasks if full else tasks[:MOST_TASKS]
    return [
        style.bold(f"{report.runs} {'run' if report.runs == 1 else 'runs'}"),
        *_table(shown, style),
        *_left_out(tasks[len(shown) :]),
        f"  {_overall(report)}",
        *_pass_hat(report),
        f"  {style.yellow(report.sentence) if report.flaky else report.sentence}",
    ]


def _table(tasks: Sequence[TaskRepeats], style: Style) -> list[str]:
    rows = [_cells(task) for task in tasks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {_mark(task, style)} "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for task, row in zip(tasks, rows, strict=True)
    ]


def _mark(task: TaskRepeats, style: Style) -> str:
    marks = {"flaky": style.bold("~"), "failed": style.red("✗"), "passed": style.green("✓")}
    return marks[task.verdict]


def _cells(task: TaskRepeats) -> tuple[str, ...]:
    low, high = task.interval
    spread = task.score
    return (
        task.task_id,
        task.verdict,
        f"{task.passes} of {task.runs}",
        f"{task.pass_rate:.0%} (95 % interval {low:.0%} to {high:.0%})",
        f"score {spread.mean:.4g}"
        + (f" ({spread.low:.4g} to {spread.high:.4g})" if spread.low < spread.high else ""),
    )


def _left_out(tasks: Sequence[TaskRepeats]) -> list[str]:
    if not tasks:
        return []
    verdicts = [task.verdict for task in tasks]
    counts = [f"{verdicts.count(kind)} {kind}" for kind in _ORDER if kind in verdicts]
    return [f"  … and {len(tasks)} more: {', '.join(counts)}"]


def _overall(report: RepeatsReport) -> str:
    score = report.score
    return (
        f"score {score.mean:.4g} ({score.low:.4g} to {score.high:.4g}) · "
        f"{report.runs_passed} of {report.runs} runs passed"
    )


def _pass_hat(report: RepeatsReport) -> list[str]:
    """pass^k for k that doubles, and for all runs."""
    if report.runs == 1 or not report.tasks:
        return []
    doubled = [1 << power for power in range(report.runs.bit_length())]
    sizes = sorted({size for size in doubled if size < report.runs} | {report.runs})
    return ["  " + " · ".join(f"pass^{k} {report.pass_hat(k):.4g}" for k in sizes)]
