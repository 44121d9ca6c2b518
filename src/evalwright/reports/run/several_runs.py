"""Several runs on a console: a run against its baseline, and repeats of one run."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from evalwright.contracts.amounts import percent, share_interval
from evalwright.contracts.run_plan import LeftOut
from evalwright.engine.task_names import NO_NAMES, TaskName, TaskNames
from evalwright.reports.formats.console import Style, printable
from evalwright.reports.formats.figures import points_in_words
from evalwright.scoring.chance import ChangeVerdict
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
    failing = _named(report.tasks, report.newly_failing)
    passing = _named(report.tasks, report.newly_passing)
    count = len(report.still_failing)
    noun = "task still fails" if count == 1 else "tasks still fail"
    lines = []
    scores, passes = report.score_change, report.pass_change
    if scores is not None:
        change = f"{report.score_delta:+.4g}"
        if report.changed_scores >= FEWEST_CHANGES:
            change += f", 95% interval {scores.low:+.3g} to {scores.high:+.3g}"
        if report.changed_scores:
            change += f", {p_in_words(scores.p_value)}"
        lines.append(f"  score {_from_to(report.baseline_score, report.score)} ({change})")
    if passes is not None:
        several = len(report.newly_failing) + len(report.newly_passing) >= FEWEST_CHANGES
        interval = (passes.low, passes.high) if several else None
        change = points_in_words(passes.difference, interval)
        rates = f"{percent(passes.baseline_rate)} → {percent(passes.new_rate)}"
        lines.append(f"  pass rate {rates} ({change})")
    return [
        style.bold(f"Against the baseline {printable(report.called)}"),
        *_section("Newly failing", failing, _marked(style.red("✗"), names), limit),
        *_section("Newly passing", passing, _marked(style.green("✓"), names), limit),
        *_section("Same verdict, lower score", report.score_drops, _marked("↓", names), limit),
        *([f"  {count} {noun}"] if count else []),
        *_not_compared(report.left_out, names, limit),
        *lines,
        f"  {render_change(report.verdict, style)}",
    ]


def render_change(change: ChangeVerdict, style: Style) -> str:
    """Whether a change is more than chance, in one sentence."""
    sentence = printable(change.sentence)
    return style.red(sentence) if change.is_worse else sentence


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


def _marked(mark: str, names: TaskNames) -> Callable[[TaskChange], str]:
    def told(task: TaskChange) -> str:
        called = [printable(each) for each in names.of(task.task_id).told]
        return "  ".join(
            [f"{mark} {called[0]}", *called[1:], _from_to(task.baseline_score, task.score)]
        )

    return told


def _not_compared(left_out: LeftOut | None, names: TaskNames, limit: int | None) -> list[str]:
    """The tasks that are not compared, because the suite has changed."""
    if left_out is None:
        return []
    lines = []
    for what, ids in msgspec.structs.asdict(left_out).items():
        shown = ", ".join(printable(names.name_of(each)) for each in ids[:limit])
        more = f" and {len(ids) - limit} more" if limit is not None and len(ids) > limit else ""
        lines += [f"  Not compared, {what} ({len(ids)}): {shown}{more}"] if ids else []
    return lines or ["  The baseline is of another version; its tasks are the same"]


def _from_to(before: float, now: float) -> str:
    """Both in four digits, or in all of them where four would make them look the same."""
    short = f"{before:.4g}", f"{now:.4g}"
    shown = short if short[0] != short[1] or before == now else (repr(before), repr(now))
    return " → ".join(shown)


def _named(tasks: Iterable[TaskChange], ids: Sequence[str]) -> list[TaskChange]:
    wanted = set(ids)
    return [task for task in tasks if task.task_id in wanted]


def render_repeats(
    report: RepeatsReport, style: Style, names: TaskNames = NO_NAMES, *, full: bool = False
) -> list[str]:
    """The lines of the summary; `full` leaves no task out."""
    tasks = worst_first(report.tasks)
    shown = tasks if full else tasks[:MOST_REPEATS]
    rows = [_cells(task, names.of(task.task_id)) for task in shown]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = {"flaky": style.bold("~"), "failed": style.red("✗"), "passed": style.green("✓")}
    return [
        style.bold(f"{report.runs} {'run' if report.runs == 1 else 'runs'}"),
        *[
            f"  {marks[task.verdict]} "
            + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for task, row in zip(shown, rows, strict=True)
        ],
        *_left_out(tasks[len(shown) :]),
        f"  {_overall(report)}",
        *_pass_hat(report),
        f"  {style.yellow(report.sentence) if report.flaky else report.sentence}",
    ]


def worst_first(tasks: Iterable[TaskRepeats]) -> list[TaskRepeats]:
    """Flaky tasks, then those that failed in every run, then the rest."""
    return sorted(tasks, key=lambda task: _ORDER.index(task.verdict))


def _cells(task: TaskRepeats, called: TaskName) -> tuple[str, ...]:
    low, high = task.interval
    spread = task.score
    return (
        printable(called.name),
        task.verdict,
        f"{task.passes} of {task.runs}",
        f"{percent(task.pass_rate)} (95% interval {share_interval(low, high)})",
        f"score {spread.mean:.4g}"
        + (f" ({spread.low:.4g} to {spread.high:.4g})" if spread.low < spread.high else ""),
        printable(called.beside),
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
