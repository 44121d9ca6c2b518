"""A run of the log as reports take it: its outcome, its failed tasks, its repeats."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from evalwright.contracts.short_names import suite_name
from evalwright.engine.isolation import explained, marks_of
from evalwright.engine.session import verdict_of, verdict_on
from evalwright.engine.task_names import TaskNames
from evalwright.engine.verdict import Outcome, change_of_repeats
from evalwright.reports.formats.console import Style, wrapped
from evalwright.reports.formats.figures import with_minus
from evalwright.reports.run.bars import bars_of, tasks_of
from evalwright.reports.run.junit import ReportedRun, ReportedSeveral
from evalwright.reports.run.scorecard import LIVE, agreement, render_verdict, tag_lines
from evalwright.reports.run.several_runs import render_change, render_repeats, repeats_shape
from evalwright.reports.run.stories import TaskStory, mask_stories, read_stories
from evalwright.scoring.regression import called, compare_to_baseline
from evalwright.scoring.repeats import summarise_repeats
from evalwright.store.protocol import EventLog

if TYPE_CHECKING:
    from evalwright.reports.run.attack_table import AttackTable
    from evalwright.reports.run.fault_table import FaultTable
    from evalwright.reports.run.task_records import RunReading


class ShownRun(NamedTuple):
    """One run, with the stories of its failed tasks as far as they are wanted."""

    outcome: Outcome
    stories: Sequence[TaskStory]
    agreement: float | None
    tables: "Sequence[AttackTable | FaultTable]" = ()


def shown_run(log: EventLog, outcome: Outcome) -> ShownRun:
    """A run with all its failed tasks, secrets masked."""
    stories = failed_stories(log, outcome, show_secrets=False)
    return ShownRun(outcome, stories, agreement(log, outcome), tables_of(log, outcome))


def tables_of(log: EventLog, outcome: Outcome) -> "Sequence[AttackTable | FaultTable]":
    """What came of the attacks and the faults of a run; most have neither."""
    plan = outcome.plan
    found: list[AttackTable | FaultTable | None] = []
    if plan.is_adversarial:
        from evalwright.reports.run.attack_table import read_attack_table

        found.append(read_attack_table(log, outcome))
    if any(task.faults for task in plan.suite.tasks):
        from evalwright.reports.run.fault_table import read_fault_table

        found.append(read_fault_table(log, outcome))
    return [each for each in found if each is not None]


def reported_runs(
    log: EventLog, runs: Sequence[ShownRun], *, show_secrets: bool, alone: bool = False
) -> "list[ReportedRun | ReportedSeveral]":
    """A run as the reports take it; or repeats, after what they come to together.

    A repeat may be reported `alone`. Reports may read the log while it is open.
    """
    reported = [_reported_run(log, run, show_secrets=show_secrets) for run in runs]
    plan = runs[0].outcome.plan if runs else None
    if plan is None or plan.group is None or alone:
        return [*reported]
    verdict = verdict_on([run.outcome for run in runs])
    name = f"{suite_name(f'{plan.suite.suite_id}@{plan.suite.version}')}, {len(runs)} repeats"
    change = change_of_repeats([run.outcome for run in runs])
    sentence = "" if change is None else change.sentence
    several = ReportedSeveral(name, verdict.reasons, verdict.words, plan.group.id, sentence)
    return [several, *(run._replace(repeats=several) for run in reported)]


def _reported_run(log: EventLog, run: ShownRun, *, show_secrets: bool) -> ReportedRun:
    outcome = run.outcome
    plan, verdict, group = outcome.plan, verdict_of(outcome), outcome.plan.group
    summary, names = outcome.summary, TaskNames.of_tasks(plan.suite.tasks)
    return ReportedRun(
        outcome.run_id,
        outcome.summary,
        verdict.reasons,
        run.stories,
        plan.is_live,
        marks_of(plan.tags),
        task_reader(log, outcome.run_id, show_secrets=show_secrets),
        compare_to_baseline(summary, plan.baseline, names.name_of) if plan.baseline else None,
        words=verdict.words,
        bars=bars_of(plan, tasks_of(plan, summary)),
        tag_bars=tag_lines(plan, summary),
        tables=run.tables,
        repeat=f"{group.index} of {group.size}" if group else "",
        names=names,
    )


def task_reader(log: EventLog, run_id: str, *, show_secrets: bool) -> "Callable[[], RunReading]":
    """Reads all tasks of a run when they are asked for."""

    def read() -> "RunReading":
        from evalwright.reports.run.task_records import read_tasks

        return read_tasks(log.read(run_id), show_secrets=show_secrets)

    return read


def failed_stories(
    log: EventLog, outcome: Outcome, most: int | None = None, *, show_secrets: bool
) -> list[TaskStory]:
    """The tasks that did not pass, or the first of them."""
    failed = [result.task_id for result in outcome.summary.tasks if not result.passed][:most]
    if not failed:
        return []
    stories = read_stories(log, outcome.run_id, set(failed))
    return stories if show_secrets else mask_stories(stories)


def render_group(runs: Sequence[ShownRun], style: Style, *, full: bool = False) -> str:
    """All repeats, the verdict on them, and how to find them again; `full` leaves nothing out."""
    outcome, passed = runs[0].outcome, sum(verdict_of(each.outcome).passed for each in runs)
    report = summarise_repeats([each.outcome.summary for each in runs])
    report = replace(report, runs_passed=passed)  # by their gates, too
    summary, plan = outcome.summary, outcome.plan
    verdict = verdict_on([each.outcome for each in runs])
    names = TaskNames.of_tasks(plan.suite.tasks)
    name = suite_name(f"{summary.suite_id}@{summary.suite_version}")
    told = [story for run in runs for story in run.stories]
    answered = {story.task.task_id for story in told if not story.error}
    errors = {story.task.task_id for story in told} - answered
    found = Counter(repeats_shape(each, errors) for each in report.tasks)
    shapes = style.tasks((each, found[each]) for each in ("failed", "error", "flaky", "passed"))
    noun = "repeats" if len(runs) > 1 else "repeat"
    lines = [f"  {shapes}  {style.bold(name)}  {len(runs)} {noun}"]
    counts = f"{passed:,} of {len(runs):,} runs passed"
    lines += render_verdict(verdict, verdict.words or counts, style)
    lines += render_repeats(report, style, names, errors, full=full)
    if plan.baseline is not None:
        changes = [each.outcome.summary.regression for each in runs]
        deltas = [f"{change.score_delta:+.4g}" for change in changes if change is not None]
        against = f"Against {called(plan.baseline)}: score {', '.join(deltas)}"
        lines += wrapped(with_minus(against), style.width, "  ", "    ")
    if (change := change_of_repeats([each.outcome for each in runs])) is not None:
        lines += render_change(change, style)
    for caution in [*([LIVE] if plan.is_live else []), *explained(plan)]:
        lines += map(style.yellow, wrapped(caution, style.width, "  ", "    "))
    assert plan.group is not None
    if full:
        lines += [_one_of_several(each.outcome) for each in runs]
    return "\n".join([*lines, f"  {style.dim(plan.group.id)}"])


def _one_of_several(outcome: Outcome) -> str:
    summary, group = outcome.summary, outcome.plan.group
    number = group.index if group else 1
    verdict = verdict_of(outcome)
    tasks = verdict.words or f"{summary.passed_count:,} of {summary.task_count:,} tasks"
    return f"  run {number}  {'passed' if verdict.passed else 'failed'}  {tasks}  {outcome.run_id}"
