"""The scorecard on a console: failures first, with why, then the verdict on the run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from evalwright.contracts.amounts import dollars, span
from evalwright.contracts.events import Judged
from evalwright.contracts.report import SEVERITIES
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.isolation import explained
from evalwright.engine.overrides import read_overrides
from evalwright.engine.plan import Plan
from evalwright.engine.session import RunVerdict, verdict_of
from evalwright.engine.task_names import MADE_ID, TaskNames
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.console import (
    Style,
    columns,
    cut,
    one_line,
    printable,
    width,
    wrapped,
)
from evalwright.reports.formats.figures import with_minus
from evalwright.reports.formats.words import in_words
from evalwright.reports.run.bars import render_bars
from evalwright.reports.run.differences import last_frame, render_checks
from evalwright.reports.run.judge_panel import render_panel, render_verdicts
from evalwright.reports.run.junit import problem_of
from evalwright.reports.run.several_runs import render_change, render_regression
from evalwright.reports.run.stories import TaskStory, called_cells
from evalwright.scoring.pass_bars import pass_bars, results_of
from evalwright.scoring.regression import compare_to_baseline
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.thresholds import mean
from evalwright.store.protocol import EventLog

if TYPE_CHECKING:
    from evalwright.reports.run.attack_table import AttackTable
    from evalwright.reports.run.fault_table import FaultTable

MOST_FAILURES = 5
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
    number: int | None = None,
) -> str:
    """Everything that is said of a run on a console; `full` shortens nothing.

    Without stories, the failed tasks are told elsewhere. `number` is that of the run in its log.
    """
    plan, summary = outcome.plan, outcome.summary
    verdict = verdict_of(outcome)
    names = TaskNames.of_tasks(plan.suite.tasks)
    errors = sum(story.error is not None for story in stories or ())
    failed = summary.task_count - summary.passed_count
    shapes = style.tasks(
        [("failed", failed - errors), ("error", errors), ("passed", summary.passed_count)]
    )
    name = suite_name(f"{summary.suite_id}@{summary.suite_version}")
    lines = [f"  {shapes}  {style.bold(name)}"]
    counts = f"{summary.passed_count:,} of {summary.task_count:,} tasks passed"
    lines += render_verdict(verdict, verdict.words or counts, style)
    lines += render_bars(plan, summary, style)
    if plan.baseline is not None:
        report = compare_to_baseline(summary, plan.baseline, names.name_of)
        if full:
            lines += ["", *render_regression(report, style, names, full=True)]
        else:
            lines += render_change(report.verdict, style, f"Against {report.called}: ")
        before, now = plan.baseline.judges, plan.panel.judges if plan.panel else []
        if sorted(now) != sorted(before):
            judged = f"the baseline was judged by {', '.join(before) or 'no judge'}"
            lines.append(f"  {style.yellow(f'{judged}, so scores may not be comparable')}")
    if stories and full:
        for story in stories:
            lines += ["", *render_story(story, style)]
    elif stories:
        lines += ["", f"  {style.bold(f'Not passed: {failed:,}')}"]
        lines += _short_stories(stories[:MOST_FAILURES], style)
        if failed > MOST_FAILURES:
            lines.append(style.dim(f"    and {failed - MOST_FAILURES:,} more"))
    if details := list(_details(outcome, style, agreement, overrides, tables)):
        lines += ["", *details] if stories else details
    named = f"{number}  {outcome.run_id}" if number else outcome.run_id
    return "\n".join([*lines, f"  {style.dim(f'run {named}')}"])


def render_verdict(verdict: RunVerdict, words: str, style: Style) -> list[str]:
    """The verdict, and why: by what a run may ship, or what speaks against that."""
    if verdict.passed:
        word, shape, reasons = style.green("PASSED"), style.shape("ship"), [f"May ship: {words}"]
    else:
        word, shape = style.red("FAILED"), style.shape("failed")
        first, *rest = verdict.reasons or [words]
        reasons = [f"Do not ship: {first}", *(f"and {each}" for each in rest)]
    taken = " " * len("PASSED ● ")
    first, *rest = wrapped(with_minus(reasons[0]), style.width, taken, "  ")
    for reason in reasons[1:]:
        rest += wrapped(with_minus(reason), style.width, "  ", "  ")
    return [f"{style.bold(word)} {shape} {style.bold(first.removeprefix(taken))}", *rest]


def _short_stories(stories: Sequence[TaskStory], style: Style) -> Iterator[str]:
    """What a task is called, what it scored, and why it did not pass."""
    rows = [
        (
            style.shape("error" if story.error else "failed"),
            *called_cells(story.called, style),
            "" if story.scored is None else f"{story.scored.score:.4g}",
        )
        for story in stories
    ]
    for story, line in zip(stories, columns(rows, ".~<>", style.width - 2), strict=True):
        yield f"  {line}"
        why = cut(_why(story), 2 * style.width - 20)
        yield from map(style.dim, wrapped(why, style.width, "    "))


def _why(story: TaskStory) -> str:
    """Why a task did not pass: what is grave, what judges missed, or what its checks say."""
    if story.findings:
        return "; ".join(f"{each.severity} {in_words(each.kind)}" for each in story.findings)
    verdicts = render_verdicts(story.task, story.judged, Style(colour=False))
    return "; ".join(verdicts[:2]) if verdicts and not story.error else problem_of(story).message


def _details(
    outcome: Outcome,
    style: Style,
    agreement: float | None,
    overrides: Sequence[str],
    tables: "Sequence[AttackTable | FaultTable]",
) -> Iterator[str]:
    """What else is to be known of a run."""
    plan, summary = outcome.plan, outcome.summary
    told: list[str] = []
    if plan.is_adversarial:
        tasks = summary.tasks
        found = Counter(each.severity for task in tasks for each in task.safety_findings or ())
        counted = [f"{found[each]} {each}" for each in reversed(SEVERITIES) if found[each]]
        unseen = " from signals; unsafe wording needs a --judge" if plan.panel is None else ""
        told.append(f"safety findings: {', '.join(counted)}" * bool(counted))
        told.append(f"no safety findings{unseen}" * (not counted))
    for table in tables:
        if table.rows:
            rows = [table.head, *table.cells()]
            head, *lines = columns(rows, f"<{'>' * (len(rows[0]) - 1)}")
            yield from (f"  {style.dim(head)}", *(f"  {line}" for line in lines))
        told += table.notes()
    if plan.settings.fail_on:
        told.append(f"gates: {', '.join(plan.settings.fail_on)}")
    if plan.settings.cassette and not plan.settings.record:
        told.append(f"model calls answered from {one_line(plan.settings.cassette)}, recorded")
    if plan.panel is not None:
        told += render_panel(plan.panel, agreement)
    if outcome.users.calls:
        users = [task.user for task in plan.suite.tasks if task.user]
        names = {each.model or plan.settings.user_model for each in users}
        facts = [", ".join(one_line(each) for each in sorted(filter(None, names)))]
        facts.append(f"{outcome.users.calls:,} calls")
        if outcome.users.total_usd is not None:
            facts.append(dollars(outcome.users.total_usd))
        told.append(f"users played by {' · '.join(facts)}")
    for line in filter(None, told):
        yield from wrapped(line, style.width, "  ", "    ")
    cautions = [LIVE] if plan.is_live else []
    cautions += [*(explained(plan) if plan.tags else ()), *overrides]
    for caution in cautions:
        yield from map(style.yellow, wrapped(caution, style.width, "  ", "    "))
    if plan.group is not None:
        yield f"  repeat {plan.group.index} of {plan.group.size}, group {plan.group.id}"


def tag_lines(plan: Plan, summary: EvalSummary) -> list[str]:
    """A line for each tag that has a bar."""
    bars = pass_bars(plan.suite.tasks, plan.suite.thresholds, results_of(summary), plan.scoring)
    return [
        f"{bar.place}: {bar.reached}, bar {bar.in_words}" for bar in bars if bar.tag is not None
    ]


def overrides_of(log: EventLog, outcome: Outcome) -> list[str]:
    """Corrections of scores: which task, what was recorded, what somebody says instead."""
    names = TaskNames.of_tasks(outcome.plan.suite.tasks)
    return [
        f"{printable(names.name_of(each.task_id))}: "
        f"score {each.score:.4g}, corrected by {each.by}: "
        f"{one_line(each.annotation.signal.correction or '')}"
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


def render_story(story: TaskStory, style: Style, *, with_trace: bool = False) -> list[str]:
    """One task in full: what was expected and what came."""
    passed = story.scored is not None and story.scored.passed
    mark = style.shape("passed" if passed else "error" if story.error else "failed")
    if story.scored is None and story.answered:
        mark = style.shape("waiting")
    name = printable(story.called.name or story.task.task_id)
    facts = "no score"
    if story.scored is not None:
        latency = story.scored.latency_ms
        facts = f"score {story.scored.score:.4g}" + (
            "" if latency is None else f", {span(latency)}"
        )
    facts = f"{name}  {facts}" if story.called.subtitle else facts
    room = style.width - width(facts) - 6
    lines = [f"  {mark} {style.bold(cut(story.called.title or name, max(room, 20)))}"]
    if room < 20:  # on a line of their own
        lines.append(f"      {style.dim(facts)}")
    else:
        lines[0] += f"  {style.dim(facts)}"

    def add(label: str, said: str) -> None:
        lines.extend(wrapped(f"{label:<10}{said}", style.width, "      ", " " * 16))

    if not with_trace and MADE_ID.fullmatch(story.task.task_id):  # a trace comes with the input
        add("input", one_line(story.task.input, None))
    match, error = story.task.expected.match, story.error
    if match is not None:
        add("expected", f"{match.strategy} {one_line(match.value, None)}")
    if story.task.repeat > 1:
        rate = story.task.pass_rate
        wanted = f" (pass_rate {rate:.4g})" if rate < 1 else ""
        add("repeats", f"{story.passed_times} of {story.task.repeat} passed{wanted}")
    for each in story.findings:
        add("finding", f"{each.severity} {each.kind}")
    if error is not None:
        add("error", f"{error.get('code')}: {one_line(error.get('message', ''), None)}")
        more = error.get("details") or {}
        if "answer" in more:
            add("got", one_line(more["answer"], None))
        trace = more.get("traceback")
        if trace and with_trace:
            lines += [f"        {line}" for line in printable(trace).rstrip().splitlines()]
        elif trace and (frame := last_frame(trace)):
            add("at", frame)
        return lines
    if all(check.passed or check.actual is None for check in story.checks):  # else they show it
        add("got", one_line(story.decision, None))
    checks = render_checks(story.checks, style) if story.checks else ()
    verdicts = render_verdicts(story.task, story.judged, style, full=True)
    return [*lines, *checks, *(f"      {line}" for line in verdicts)]
