"""The scorecard of an outcome: what its modes are about, then tasks, then the verdict."""

from collections import Counter
from collections.abc import Sequence

from evalwright.contracts.events import Judged
from evalwright.contracts.report import SEVERITIES
from evalwright.engine.execution import Outcome
from evalwright.engine.plan import Plan
from evalwright.reports.findings import TaskStory
from evalwright.reports.judging import render_panel
from evalwright.reports.regression import render_regression
from evalwright.reports.scorecard import render_scorecard
from evalwright.reports.style import Style
from evalwright.reports.text import one_line
from evalwright.scoring.regression import compare_to_baseline
from evalwright.scoring.rubric import rubric_result
from evalwright.scoring.thresholds import mean
from evalwright.store.protocol import EventLog

LIVE = "live-shadow: nondeterministic, another run may come out differently"


def render_outcome(
    outcome: Outcome,
    stories: Sequence[TaskStory],
    style: Style,
    *,
    agreement: float | None = None,
    full: bool = False,
) -> str:
    """Everything that is said of a run on a console; `full` shortens nothing."""
    plan, summary = outcome.plan, outcome.summary
    first: list[str] = []
    if plan.baseline is not None:
        first = render_regression(compare_to_baseline(summary, plan.baseline), style)
        first += _other_judges(plan, style)
    details = []
    if plan.is_adversarial:
        details.append(_findings(outcome))
    if plan.settings.fail_on:
        details.append(f"gates: {', '.join(plan.settings.fail_on)}")
    if plan.settings.cassette and not plan.settings.record:
        details.append(f"model calls answered from {one_line(plan.settings.cassette)}, recorded")
    if plan.panel is not None:
        details += render_panel(plan.panel, agreement, style)
    if plan.is_live:
        details.append(style.yellow(LIVE))
    if plan.group is not None:
        details.append(f"repeat {plan.group.index} of {plan.group.size}, group {plan.group.id}")
    return render_scorecard(
        outcome.run_id,
        summary,
        shown_reasons(outcome),
        stories,
        style,
        full=full,
        first=first,
        details=details,
    )


def _other_judges(plan: Plan, style: Style) -> list[str]:
    """A warning where scores are not from the same judges."""
    now = plan.panel.judges if plan.panel else []
    before = plan.baseline.judges if plan.baseline else []
    if sorted(now) == sorted(before):
        return []
    told = ", ".join(before) or "nobody"
    return [f"  {style.yellow(f'the baseline was judged by {told}, so scores may not compare')}"]


def agreement(log: EventLog, outcome: Outcome) -> float | None:
    """How far the judges of a run agreed; None where nothing was judged."""
    if outcome.plan.panel is None:
        return None
    by_task: dict[str, list[Judged]] = {}
    for event in log.read(outcome.run_id, (Judged.TYPE,)):
        by_task.setdefault(event.task_id or "", []).append(event.decode(Judged))
    shares = [
        rubric_result(task.expected.rubric, by_task[task.task_id]).agreement
        for task in outcome.plan.suite.tasks
        if task.expected.rubric is not None and task.task_id in by_task
    ]
    return mean(shares) if shares else None


def shown_reasons(outcome: Outcome) -> list[str]:
    """Every bar that was not reached, gated or not, and every other reason not to ship."""
    return list(dict.fromkeys([*outcome.broken_bars, *outcome.reasons]))


def _findings(outcome: Outcome) -> str:
    found = Counter(
        finding.severity for task in outcome.summary.tasks for finding in task.safety_findings or ()
    )
    if not found and outcome.plan.panel is None:
        return "no safety findings by signals; what only words give away needs a --judge"
    if not found:
        return "no safety findings"
    told = (f"{found[severity]} {severity}" for severity in reversed(SEVERITIES) if found[severity])
    return f"safety findings: {', '.join(told)}"
