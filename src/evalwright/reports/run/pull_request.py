"""Runs where they are reviewed: the summary of a job, notes at the suite's lines, code quality."""

from collections.abc import Iterator, Sequence
from typing import Any

from evalwright.contracts.amounts import dollars, percent, span
from evalwright.contracts.short_names import suite_name
from evalwright.engine.isolation import EXPLANATIONS
from evalwright.reports.formats.ci import (
    MOST_NOTES,
    Level,
    Note,
    Severity,
    quality_issue,
    quality_report,
)
from evalwright.reports.formats.console import one_line
from evalwright.reports.formats.figures import points_in_words
from evalwright.reports.formats.markdown import inline, table
from evalwright.reports.run.junit import (
    FailedRun,
    Reported,
    ReportedRun,
    ReportedSeveral,
    problem_of,
)
from evalwright.scoring.regression import RegressionReport
from evalwright.scoring.statistics import p_in_words
from evalwright.scoring.thresholds import p95

MOST_TASKS = 50
_MARKS = {True: "●", False: "■"}
_SHORT = 200
_THRESHOLD = "evalwright/threshold"
_UNKNOWN = "evalwright"  # a code quality issue must have a path


def render_step_summary(runs: Sequence[Reported]) -> bytes:
    """Each run, verdict first: its bars, what changed, and the tasks that failed."""
    lines = [line for run in runs for line in _section(run)]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def _section(run: Reported) -> Iterator[str]:
    if isinstance(run, ReportedSeveral):
        yield from (f"## {_MARKS[run.passed]} {inline(run.verdict)}: {inline(run.name)}", "")
        yield from (*(f"- {inline(reason)}" for reason in run.reasons), *[""] * bool(run.reasons))
        yield from (f"**{inline(run.change)}**", "") if run.change else ()
        return
    if isinstance(run, FailedRun):
        yield from (f"## ▲ No result: {inline(run.code)}", "", inline(run.message), "")
        return
    if run.repeats is None:
        yield from (f"## {_MARKS[run.passed]} {inline(run.verdict)}: {inline(run.name)}", "")
    else:
        yield from (f"### {_MARKS[run.passed]} {inline(run.verdict)}: repeat {run.repeat}", "")
    summary = run.summary
    told = [
        f"score {summary.aggregate_score:.4g}",
        f"{summary.passed_count:,} of {summary.task_count:,} tasks passed",
    ]
    if summary.total_cost_usd is not None:
        told.append(f"cost {dollars(summary.total_cost_usd)}")
    latencies = [task.latency_ms for task in summary.tasks if task.latency_ms is not None]
    if latencies:
        told.append(f"p95 {span(p95(latencies))}")
    yield from (inline(" · ".join(told)), "")
    notes = [*run.reasons, *run.tag_bars, *(EXPLANATIONS[mark] for mark in run.marks)]
    yield from (f"- {inline(note)}" for note in notes)
    yield from [""] * bool(notes)
    for counted in run.tables:
        yield from (*counted.in_markdown(), "")
    if run.change is not None:
        yield from _against_baseline(run, run.change)
    if run.stories:
        new = set(run.change.newly_failing) if run.change is not None else set()
        ordered = sorted(run.stories, key=lambda story: story.task.task_id not in new)
        failed = []
        for story in ordered[:MOST_TASKS]:
            task_id = story.task.task_id
            parts = _named(run, task_id), "(new)" * (task_id in new), inline(story.called.subtitle)
            message = one_line(problem_of(story).message, _SHORT)
            failed.append((" ".join(filter(None, parts)), inline(message)))
        yield from (*table(("Failed task", "Why"), failed), "")
        if len(ordered) > MOST_TASKS:
            yield from (f"… and {len(ordered) - MOST_TASKS:,} more failed tasks", "")
    yield from (f"Run `{run.run_id}`", "")


def _against_baseline(run: ReportedRun, change: RegressionReport) -> Iterator[str]:
    yield from (f"Against the baseline {inline(change.called)}:", "")
    rows = []
    if change.score_change is not None:
        low, high = change.score_change.low, change.score_change.high
        sure = p_in_words(change.score_change.p_value)
        difference = f"{change.score_delta:+.4g} (95% interval {low:+.3g} to {high:+.3g}, {sure})"
        before, now = f"{change.baseline_score:.4g}", f"{change.score:.4g}"
        rows.append(("score", before, now, difference))
    if change.pass_change is not None:
        passes = change.pass_change
        points = points_in_words(passes.difference, (passes.low, passes.high))
        rows.append(("pass rate", percent(passes.baseline_rate), percent(passes.new_rate), points))
    yield from table(("", "baseline", "now", "change"), rows)
    yield ""
    if run.repeats is None:  # else they decide together
        yield from (f"**{inline(change.sentence)}**", "")
    for title, tasks in (
        ("Newly failing", change.newly_failing),
        ("Newly passing", change.newly_passing),
    ):
        if tasks:
            shown = ", ".join(_named(run, task) for task in tasks[:MOST_TASKS])
            more = f" and {len(tasks) - MOST_TASKS} more" * (len(tasks) > MOST_TASKS)
            yield from (f"**{title} ({len(tasks)})**: {shown}{more}", "")


def _named(run: ReportedRun, task_id: str) -> str:
    link = None if run.file is None else run.file.link(task_id)
    name = task_id if run.names is None else run.names.name_of(task_id)
    return f"`{name}`" if link is None else f"[`{name}`]({link})"


def notes_on(runs: Sequence[Reported]) -> list[Note]:
    """A note for each failed task at its line; of many, the last says how many more there are.

    Of repeats a task has one. It is a warning where the run passes all the same.
    """
    notes = list(dict.fromkeys(note for run in runs for note in _notes(run)))
    if len(notes) <= MOST_NOTES:
        return notes
    rest = len(notes) - MOST_NOTES + 1
    return [*notes[: MOST_NOTES - 1], Note("evalwright", f"… and {rest:,} more failed tasks")]


def _notes(run: Reported) -> Iterator[Note]:
    path = None if run.file is None else run.file.name
    if isinstance(run, FailedRun):
        yield Note(f"No result: {run.code}", run.message, path)
        return
    if isinstance(run, ReportedSeveral):
        yield from (Note(run.name, reason, path) for reason in run.reasons)
        return
    if run.repeats is None:
        name = run.variant and f", {run.variant}"
        title = f"{suite_name(run.summary.suite_id)}{name}"
        yield from (Note(title, reason, path) for reason in run.reasons)
    level: Level = "warning" if (run.repeats or run).passed else "error"
    for story in run.stories:
        at, line = (path, 1) if run.file is None else run.file.place(story.task.task_id)
        yield Note(
            f"{story.called.name or story.task.task_id} failed",
            problem_of(story).message,
            at,
            line,
            level,
        )


def render_code_quality(runs: Sequence[Reported]) -> bytes:
    """An issue for each failed task, which repeats share, and for a run without a result.

    Where no task failed, there is one for each bar that was missed.
    """
    single = [
        run for run in runs if not isinstance(run, ReportedSeveral)
    ]  # the others fail by them
    issues = {issue["fingerprint"]: issue for run in single for issue in _issues(run)}
    return quality_report([*issues.values()])


def _issues(run: ReportedRun | FailedRun) -> Iterator[dict[str, Any]]:
    path = _UNKNOWN if run.file is None else run.file.name
    if isinstance(run, FailedRun):
        yield quality_issue(f"evalwright/{run.code}", run.message, path, 1, "blocker")
        return
    for story in run.stories:
        problem, task_id = problem_of(story), story.task.task_id
        at, line = (path, 1) if run.file is None else run.file.place(task_id)
        severity: Severity = "critical" if problem.tag == "error" or story.findings else "major"
        message = f"{story.called.name or task_id}: {problem.message}"
        rule = f"evalwright/{problem.kind}"
        yield quality_issue(rule, message, at, line, severity, run.summary.suite_id, task_id)
    for number, reason in enumerate(() if run.stories else run.reasons, 1):
        suite = run.summary.suite_id
        told = f"{suite_name(suite)}: {reason}"
        yield quality_issue(_THRESHOLD, told, path, 1, "major", suite, str(number))
