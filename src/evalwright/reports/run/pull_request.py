"""Runs where they are reviewed: the summary of a job, notes at the suite's lines, code quality."""

from collections.abc import Iterator, Sequence
from typing import Any

from evalwright.contracts import amounts
from evalwright.contracts.amounts import dollars, percent, share_interval, span
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
from evalwright.reports.formats.console import SHAPES, one_line
from evalwright.reports.formats.figures import points_in_words, with_minus
from evalwright.reports.formats.markdown import folded, inline, table
from evalwright.reports.formats.words import in_words
from evalwright.reports.run.bars import CHANGE, RATE
from evalwright.reports.run.junit import (
    FailedRun,
    Reported,
    ReportedRun,
    ReportedSeveral,
    problem_of,
)
from evalwright.reports.run.stories import TaskStory, mask_stories
from evalwright.scoring.statistics import p_in_words, wilson
from evalwright.scoring.thresholds import p95
from evalwright.signals.masking import mask_text

MOST_TASKS = 50
_SHORT = 200
_THRESHOLD = "evalwright/threshold"
_UNKNOWN = "evalwright"  # a code quality issue must have a path


def render_step_summary(runs: Sequence[Reported]) -> bytes:
    """Each run, verdict first: its rate, its bars and one task to start with; the rest folded."""
    lines = [line for run in runs for line in _section(run)]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def _section(run: Reported) -> Iterator[str]:
    if isinstance(run, FailedRun):
        yield from (
            f"### {SHAPES['error']} No result: {_text(run.code)}",
            "",
            _text(run.message),
            "",
        )
        return
    if isinstance(run, ReportedSeveral):
        told = [f"**{_text(run.name)}**.", *_further(run.reasons), _text(run.change)]
        yield from (_heading(run, "every run passed"), "", " ".join(filter(None, told)), "")
        return
    summary = run.summary
    counts = f"{summary.passed_count:,} of {summary.task_count:,} tasks passed"
    if run.repeats is not None:  # they decide together
        title = f"Repeat {run.repeat}: {'passed' if run.passed else 'failed'}, {counts}"
        yield from folded(title, _result(run))
        return
    yield from (_heading(run, counts), "", *_result(run))


def _heading(run: ReportedRun | ReportedSeveral, counts: str) -> str:
    if run.passed:
        return f"### {SHAPES['ship']} May ship: {_text(run.words or counts)}"
    return f"### {SHAPES['failed']} Do not ship: {_text(run.reasons[0] if run.reasons else counts)}"


def _further(reasons: Sequence[str]) -> list[str]:
    return [f"Also: {_text('; '.join(reasons[1:]))}."] * (len(reasons) > 1)


def _result(run: ReportedRun) -> Iterator[str]:
    """What a run reached, in a sentence, and unless it may ship, the bars and where to start."""
    yield from (" ".join(_sentences(run)), "")
    change = run.change
    fell = [] if change is None else [*change.newly_failing]
    stories = {story.task.task_id: story for story in run.stories}
    failed = [*fell, *(each for each in stories if each not in fell)]
    before = {} if change is None else {each.task_id: each for each in change.tasks}
    if not run.passed:
        if run.bars:
            head = ["bar", "now", *(["baseline"] if change else []), "aim"]
            yield from (*table(head, _bars(run), len(head) - 1), "")
        if failed:
            first = failed[0]
            why = f": {_why(stories[first])}" if first in stories else ""
            yield from (f"**Start here:** {_named(run, first)}{why}", "")
    rest = [each for each in failed if each not in fell]
    groups = [
        ("got worse", fell),
        ("failed before too" if change else "failed", rest),
        ("got better", [] if change is None else [*change.newly_passing]),
    ]
    scores = {each.task_id: amounts.score(each.score) for each in run.summary.tasks}
    for title, tasks in groups:
        rows = []
        for each in tasks[:MOST_TASKS]:
            score = scores[each]
            if each in before:
                score = f"{amounts.score(before[each].baseline_score)} → {score}"
            why = _why(stories[each]) if each in stories else ""
            rows.append((_named(run, each), score, why))
        if rows:
            shown = table(("task", "score", "why"), rows)
            if len(tasks) > MOST_TASKS:
                shown += ["", f"… and {len(tasks) - MOST_TASKS:,} more"]
            yield from folded(f"{_count(len(tasks))} {title}", shown)
    found = [
        f"- **{each.severity.capitalize()}:** {_text(in_words(each.kind))}, in {_named(run, task)}"
        for severity in ("critical", "high")
        for task, each in (
            (task.task_id, each)
            for task in run.summary.tasks
            for each in task.safety_findings or ()
            if each.severity == severity
        )
    ]
    if found:
        noun = "finding" if len(found) == 1 else "findings"
        yield from folded(f"{len(found):,} serious {noun}", found[:MOST_TASKS])
    for counted in run.tables:
        yield from folded(f"By {counted.head[0]}", counted.in_markdown())
    if trust := list(_trust(run)):
        yield from folded("How far to trust it", [f"- {_text(each)}" for each in trust])


def _sentences(run: ReportedRun) -> Iterator[str]:
    """The rate with its interval, its bar and the baseline; whether a change is chance; figures."""
    summary, change = run.summary, run.change
    passed, tasks = summary.passed_count, summary.task_count
    bar = next((each for each in run.bars if each.name == RATE), None)
    told = [f"**{_text(run.name)}** passes **{_text(percent(passed, tasks))}** of {_count(tasks)}"]
    if tasks:
        told[0] += f" ({share_interval(*wilson(passed, tasks))})"
    if bar is not None:
        told.append(_text(bar.aim))
    if change is not None and change.pass_change is not None:
        rate = percent(change.pass_change.baseline_rate)
        told.append(_text(f"{rate} in the baseline {change.called}"))
    yield f"{', '.join(told)}."
    if change is not None and run.repeats is None:
        yield _text(change.sentence)
    yield from _further(run.reasons)
    figures = [f"Score {amounts.score(summary.aggregate_score)}"]
    if latencies := [task.latency_ms for task in summary.tasks if task.latency_ms is not None]:
        figures.append(f"p95 time {span(p95(latencies))}")
    if summary.total_cost_usd is not None:
        figures.append(f"cost {dollars(summary.total_cost_usd)}")
    yield f"{_text(', '.join(figures))}, run `{run.run_id}`."


def _bars(run: ReportedRun) -> Iterator[Sequence[str]]:
    change = run.change
    before = {}
    if change is not None:
        before["Score"] = before[CHANGE] = amounts.score(change.baseline_score)
        if change.pass_change is not None:
            before[RATE] = percent(change.pass_change.baseline_rate)
    for bar in run.bars:
        mark, told = {
            True: (SHAPES["passed"], "met"),
            False: (SHAPES["failed"], "not met"),
            None: (SHAPES["error"], "cannot be told"),
        }[bar.met]
        old = [_text(before.get(bar.name, amounts.NOTHING))] if change is not None else []
        aim = "not below it" if bar.name == CHANGE else bar.aim.removeprefix("bar ")
        yield f"{mark} {_text(bar.name)}: {told}", _text(bar.figure), *old, _text(aim)


def _trust(run: ReportedRun) -> Iterator[str]:
    """How sure the change is, and how far the result depends on more than the suite."""
    if (change := run.change) is not None and not run.passed:
        if change.score_change is not None:
            low, high = change.score_change.low, change.score_change.high
            sure = p_in_words(change.score_change.p_value)
            scores = f"{amounts.score(change.baseline_score)} → {amounts.score(change.score)}"
            difference = f"{change.score_delta:+.4g}, 95% interval {low:+.3g} to {high:+.3g}"
            yield f"Score {scores} ({difference}, {sure})"
        if change.pass_change is not None:
            passes = change.pass_change
            yield f"Pass rate {points_in_words(passes.difference, (passes.low, passes.high))}"
    yield from (EXPLANATIONS[mark] for mark in run.marks)


def _why(story: TaskStory) -> str:
    (masked,) = mask_stories([story])
    return _text(one_line(problem_of(masked).message, _SHORT))


def _count(tasks: int) -> str:
    return f"{tasks:,} {'task' if tasks == 1 else 'tasks'}"


def _text(text: str) -> str:
    """Text as Markdown that shows it as it is: a pull request is read by many."""
    return inline(with_minus(mask_text(text, personal=False)))


def _named(run: ReportedRun, task_id: str) -> str:
    link = None if run.file is None else run.file.link(task_id)
    name, title = (task_id, "") if run.names is None else run.names.of(task_id)
    told = _text(title or name)
    shown = told if link is None else f"[{told}]({link})"
    return shown if title in ("", name) else f"{shown} `{name}`"


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
