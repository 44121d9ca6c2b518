"""The scorecard on a console: failures first, with why, then the verdict on the run."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalwright.contracts.amounts import dollars, span
from evalwright.contracts.events import Judged
from evalwright.contracts.report import SEVERITIES
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.isolation import explained
from evalwright.engine.overrides import read_overrides
from evalwright.engine.plan import Plan
from evalwright.engine.session import verdict_of
from evalwright.engine.task_names import MADE_ID, TaskNames
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.console import SHORT, Style, one_line, printable
from evalwright.reports.run.differences import both_sides, last_frame, render_checks
from evalwright.reports.run.judge_panel import render_panel, render_verdicts
from evalwright.reports.run.several_runs import render_regression
from evalwright.reports.run.side_by_side import aligned
from evalwright.reports.run.stories import TaskStory
from evalwright.scoring.pass_bars import pass_bars, results_of
from evalwright.scoring.regression import compare_to_baseline
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.thresholds import mean, p95
from evalwright.store.protocol import EventLog

if TYPE_CHECKING:
    from evalwright.reports.run.attack_table import AttackTable
    from evalwright.reports.run.fault_table import FaultTable

MOST_FAILURES = 10
LIVE = "live-shadow: nondeterministic; another run may give a different result"


def render_outcome(
    outcome: Outcome,
    stories: Sequence[TaskStory] | None,
    style: Style,
    *,
    agreement: float | None = None,
    full: bool = False,
    overrides: Sequence[str] = (),
    tables: "Sequence[AttackTable | FaultTable]" = (),
) -> str:
    """Everything that is said of a run on a console; `full` shortens nothing."""
    plan, summary = outcome.plan, outcome.summary
    first: list[str] = []
    if plan.baseline is not None:
        names = TaskNames.of_tasks(plan.suite.tasks)
        report = compare_to_baseline(summary, plan.baseline, names.name_of)
        first = render_regression(report, style, names)
        before, now = plan.baseline.judges, plan.panel.judges if plan.panel else []
        if sorted(now) != sorted(before):
            judged = f"the baseline was judged by {', '.join(before) or 'no judge'}"
            first.append(f"  {style.yellow(f'{judged}, so scores may not be comparable')}")
    verdict = verdict_of(outcome)
    details = tag_lines(plan, summary)
    if "adversarial" in plan.modes:
        tasks = summary.tasks
        found = Counter(each.severity for task in tasks for each in task.safety_findings or ())
        told = [f"{found[each]} {each}" for each in reversed(SEVERITIES) if found[each]]
        if told:
            details.append(f"safety findings: {', '.join(told)}")
        else:
            unseen = " from signals; unsafe wording needs a --judge" if plan.panel is None else ""
            details.append(f"no safety findings{unseen}")
    for table in tables:
        if table.rows:
            head, *rows = aligned([table.head, *table.cells()], numbers=True)
            details += [style.dim(head), *rows]
        details += table.notes()
    if plan.settings.fail_on:
        details.append(f"gates: {', '.join(plan.settings.fail_on)}")
    if plan.settings.cassette and not plan.settings.record:
        details.append(f"model calls answered from {one_line(plan.settings.cassette)}, recorded")
    if plan.panel is not None:
        details += render_panel(plan.panel, agreement, style)
    if "live-shadow" in plan.modes:
        details.append(style.yellow(LIVE))
    details += map(style.yellow, [*(explained(plan) if plan.tags else ()), *overrides])
    if plan.group is not None:
        details.append(f"repeat {plan.group.index} of {plan.group.size}, group {plan.group.id}")
    return render_scorecard(
        outcome.run_id,
        summary,
        verdict.reasons,
        stories,
        style,
        full=full,
        first=first,
        details=details,
        words=verdict.words,
    )


def tag_lines(plan: Plan, summary: EvalSummary) -> list[str]:
    """A line for each tag that has a bar."""
    bars = pass_bars(plan.suite.tasks, plan.suite.thresholds, results_of(summary), plan.scoring)
    return [
        f"{bar.place}: {bar.reached}, bar {bar.in_words}" for bar in bars if bar.tag is not None
    ]


def overrides_of(log: EventLog, outcome: Outcome, *, full: bool = False) -> list[str]:
    """Corrections of scores: which task, what was recorded, what somebody says instead."""
    limit = None if full else SHORT
    names = TaskNames.of_tasks(outcome.plan.suite.tasks)
    return [
        f"{printable(names.name_of(each.task_id))}: "
        f"score {each.score:.4g}, corrected by {each.by}: "
        f"{one_line(each.annotation.signal.correction or '', limit)}"
        for each in read_overrides(log, outcome.run_id)
    ]


def agreement(log: EventLog, outcome: Outcome) -> float | None:
    """How far the judges of a run agreed; None where nothing was judged."""
    if outcome.plan.panel is None:
        return None
    by_task: dict[str, list[Judged]] = {}
    for event in log.read(outcome.run_id, (Judged.TYPE,)):
        by_task.setdefault(event.task_id or "", []).append(event.decode(Judged))
    agreed = [each for each in map(agreement_of, by_task.values()) if each is not None]
    return mean([each.share for each in agreed]) if agreed else None


def render_scorecard(
    run_id: str,
    summary: EvalSummary,
    reasons: Sequence[str],
    stories: Sequence[TaskStory] | None,
    style: Style,
    *,
    full: bool = False,
    first: Sequence[str] = (),
    details: Sequence[str] = (),
    words: str = "",
) -> str:
    """The scorecard of a completed run; `full` shortens nothing.

    `first` are lines above all others, `details` more about the run below its verdict, `words` by
    what it passed though tasks failed. Without stories, the failed tasks are told elsewhere.
    """
    shown = stories or () if full else (stories or ())[:MOST_FAILURES]
    lines = [*first, ""] if first else []
    if shown:
        lines += [style.bold("Failed tasks"), ""]
    for story in shown:
        lines += [*render_story(story, style, full=full), ""]
    hidden = summary.task_count - summary.passed_count - len(shown)
    if hidden > 0 and stories is not None:
        lines += [f"  … and {hidden} more: evalwright show {run_id}", ""]
    passed = summary.passed and not reasons
    verdict = style.green("PASSED") if passed else style.red("FAILED")
    name = suite_name(f"{summary.suite_id}@{summary.suite_version}")
    facts = [
        f"score {summary.aggregate_score:.4g}",
        f"{summary.passed_count} of {summary.task_count} tasks passed",
    ]
    latencies = [task.latency_ms for task in summary.tasks if task.latency_ms is not None]
    if latencies:
        facts.append(f"p95 {span(p95(latencies))}")
    if summary.total_cost_usd is not None:
        facts.append(dollars(summary.total_cost_usd))
    lines += [
        f"{style.bold(verdict)}  {f'{words}  {name}' if words and passed else name}",
        f"  {' · '.join(facts)}",
        *(f"  {style.red('✗')} {reason}" for reason in reasons),
        *(f"  {line}" for line in details),
        f"  {style.dim('run ' + run_id)}",
    ]
    return "\n".join(lines)


def render_story(
    story: TaskStory, style: Style, *, full: bool = False, with_trace: bool = False
) -> list[str]:
    """One task: what was expected and what came."""
    limit = None if full else SHORT
    passed = story.scored is not None and story.scored.passed
    mark = style.green("✓") if passed else style.red("✗")
    if story.scored is None and story.answered:
        mark = style.yellow("?")
    name = printable(story.called.name or story.task.task_id)
    title = f"{printable(story.called.subtitle)}  " if story.called.subtitle else ""
    facts = "no score"
    if story.scored is not None:
        latency = story.scored.latency_ms
        facts = f"score {story.scored.score:.4g}" + (
            "" if latency is None else f", {span(latency)}"
        )
    lines = [f"  {mark} {style.bold(name)}  {title}{style.dim(facts)}"]
    if not with_trace and MADE_ID.fullmatch(story.task.task_id):  # a trace comes with the input
        lines.append(f"      input     {one_line(story.task.input, limit)}")
    match, error = story.task.expected.match, story.error
    got = one_line(story.decision, limit)
    if match is not None:
        actual = match.value if error else story.decision
        expected, got = both_sides(match.value, actual, limit)
        lines.append(f"      expected  {style.dim(match.strategy)} {expected}")
    if story.task.repeat > 1:
        rate = story.task.pass_rate
        wanted = f" (pass_rate {rate:.4g})" if rate < 1 else ""
        lines.append(f"      repeats   {story.passed_times} of {story.task.repeat} passed{wanted}")
    lines += [f"      finding   {each.severity} {each.kind}" for each in story.findings]
    if error is not None:
        message = one_line(error.get("message", ""), limit)
        lines.append(f"      error     {error.get('code')}: {message}")
        more = error.get("details") or {}
        if "answer" in more:
            lines.append(f"      got       {one_line(more['answer'], limit)}")
        trace = more.get("traceback")
        if trace and with_trace:
            lines += [f"        {line}" for line in printable(trace).rstrip().splitlines()]
        elif trace and (frame := last_frame(trace)):
            lines.append(f"      at        {frame}")
        return lines
    if all(check.passed or check.actual is None for check in story.checks):  # else they show it
        lines.append(f"      got       {got}")
    checks = render_checks(story.checks, style, limit, full=full) if story.checks else ()
    verdicts = render_verdicts(story.task, story.judged, style, full=full)
    return lines + [f"      {line}" for line in (*checks, *verdicts)]
