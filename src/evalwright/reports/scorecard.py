"""The scorecard on a console: the verdict, then failures first, with why."""

from collections.abc import Sequence

from evalwright.contracts.summary import EvalSummary
from evalwright.reports.findings import TaskStory
from evalwright.reports.judging import render_verdicts
from evalwright.reports.style import Style
from evalwright.reports.text import SHORT, one_line, printable
from evalwright.scoring.thresholds import p95

MOST_FAILURES = 10


def render_scorecard(
    run_id: str,
    summary: EvalSummary,
    reasons: Sequence[str],
    stories: Sequence[TaskStory],
    style: Style,
    *,
    full: bool = False,
    first: Sequence[str] = (),
    details: Sequence[str] = (),
) -> str:
    """The scorecard of a completed run; `full` shortens nothing.

    `first` are lines above all others, `details` more about the run below its verdict.
    """
    shown = stories if full else stories[:MOST_FAILURES]
    lines = [*first, ""] if first else []
    if shown:
        lines += [style.bold("Failed tasks"), ""]
    for story in shown:
        lines += [*render_story(story, style, full=full), ""]
    hidden = summary.task_count - summary.passed_count - len(shown)
    if hidden > 0:
        lines += [f"  … and {hidden} more: evalwright show {run_id}", ""]
    return "\n".join([*lines, *_verdict(run_id, summary, reasons, details, style)])


def render_story(story: TaskStory, style: Style, *, full: bool = False) -> list[str]:
    """One task: what was expected and what came."""
    limit = None if full else SHORT
    passed = story.scored is not None and story.scored.passed
    mark = style.green("✓") if passed else style.red("✗")
    if story.scored is None and story.answered:
        mark = style.yellow("?")
    lines = [f"  {mark} {style.bold(story.task.task_id)}  {style.dim(_facts(story))}"]
    match = story.task.expected.match
    if match is not None:
        expected = one_line(match.value, limit)
        lines.append(f"      expected  {style.dim(match.strategy)} {expected}")
    lines += [f"      finding   {each.severity} {each.kind}" for each in story.findings]
    error = story.error
    if error is None:
        lines.append(f"      got       {one_line(story.decision, limit)}")
        return lines + [
            f"      {line}" for line in render_verdicts(story.task, story.judged, style, full=full)
        ]
    lines.append(
        f"      error     {error.get('code')}: {one_line(error.get('message', ''), limit)}"
    )
    details = error.get("details") or {}
    if "answer" in details:
        lines.append(f"      got       {one_line(details['answer'], limit)}")
    trace = details.get("traceback")
    if full and trace:
        lines += [f"        {line}" for line in printable(trace).rstrip().splitlines()]
    return lines


def _facts(story: TaskStory) -> str:
    if story.scored is None:
        return "no score"
    latency = story.scored.latency_ms
    return f"score {story.scored.score:.4g}" + (f", {latency} ms" if latency is not None else "")


def _verdict(
    run_id: str,
    summary: EvalSummary,
    reasons: Sequence[str],
    details: Sequence[str],
    style: Style,
) -> list[str]:
    passed = summary.passed and not reasons
    verdict = style.green("PASSED") if passed else style.red("FAILED")
    name = f"{summary.suite_id}@{summary.suite_version}"
    facts = [
        f"score {summary.aggregate_score:.4g}",
        f"{summary.passed_count} of {summary.task_count} tasks passed",
    ]
    latencies = [task.latency_ms for task in summary.tasks if task.latency_ms is not None]
    if latencies:
        facts.append(f"p95 {p95(latencies)} ms")
    if summary.total_cost_usd is not None:
        facts.append(f"${summary.total_cost_usd:.6g}")
    return [
        f"{style.bold(verdict)}  {name}",
        f"  {' · '.join(facts)}",
        *(f"  {style.red('✗')} {reason}" for reason in reasons),
        *(f"  {line}" for line in details),
        f"  {style.dim('run ' + run_id)}",
    ]
