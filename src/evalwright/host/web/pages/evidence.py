"""How far a run can be trusted: the fall that it shows, and how often people agree with it."""

from collections.abc import Sequence
from typing import Any

from evalwright.contracts import amounts
from evalwright.host.web.human_verdicts import verdicts_of
from evalwright.host.web.page import PageCall
from evalwright.host.web.recent_runs import RecentRun
from evalwright.scoring.statistics import more_failures_needed, wilson


def evidence_of(
    call: PageCall, runs: Sequence[RecentRun], judges: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Lines on runs of a suite, the latest last; of what nothing is known there is none."""
    if not runs:
        return []
    lines = [_power(runs[-1])]
    said = [
        row.passed == verdict.passed
        for run in runs
        for verdict in verdicts_of(call, run.facts.run_id)
        if (row := _row(run, verdict.task_id)) is not None
    ]
    whose = f"Judge: {', '.join(judges)}" if judges else "Verdicts and people"
    if said:
        agreed, of = sum(said), len(said)
        interval = amounts.share_interval(*wilson(agreed, of))
        lead = f"People agreed with {agreed:,} of the {of:,} verdicts that they reviewed."
        text = f"{amounts.percent(agreed, of)}, 95% interval {interval}."
        kind = "pass" if agreed == of else "error" if 2 * agreed > of else "fail"
        lines.append({"kind": kind, "title": whose, "lead": lead, "text": text})
    elif judges:
        lead, text = "Nobody has reviewed a verdict yet.", "How good the judge is, is not known."
        lines.append({"kind": "open", "title": whose, "lead": lead, "text": text})
    return lines


def _row(run: RecentRun, task_id: str) -> Any:
    place = run.tasks.places.get(task_id)
    return None if place is None else run.tasks.rows[place]


def _power(run: RecentRun) -> dict[str, str]:
    """The smallest fall against such a run that is more than chance, if no task got better."""
    counts = run.tasks.counts
    passed, scored = counts["passed"], len(run.tasks.rows) - counts["open"]
    noun = "task" if scored == 1 else "tasks"
    basis = f"Of {scored:,} {noun}, {passed:,} passed in run {run.facts.number}."
    needed = more_failures_needed(0, 0, passed)
    if needed is None:
        lead = "No fall would be more than chance."
        text = f"{basis} It takes more tasks, or repeats, to see any."
        return {"kind": "error", "title": "Power", "lead": lead, "text": text}
    points = f"{100 * needed / scored:.1f}".removesuffix(".0")
    lead = f"A fall of {needed:,} tasks ({points} points) is more than chance."
    text = f"{basis} A smaller fall may be chance; more tasks or repeats show smaller ones."
    return {"kind": "pass", "title": "Power", "lead": lead, "text": text}
