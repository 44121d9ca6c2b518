"""What stands below the tasks of a run: attacks, faults, repeats, corrections, and what ran."""

from collections.abc import Iterator
from typing import Any

import msgspec

from evalwright.attacks.derived import is_derived
from evalwright.contracts import amounts
from evalwright.contracts.events import Judged, ToolReturned
from evalwright.contracts.suite import Task
from evalwright.engine.overrides import read_overrides
from evalwright.host.web.page import PageCall
from evalwright.host.web.pages.evidence import evidence_of
from evalwright.host.web.pages.repeated_runs import Repeats, repeats_told, runs_passed
from evalwright.host.web.recent_runs import RecentRun
from evalwright.host.web.run_views import RunView
from evalwright.reports.run.attack_table import TaskOutcome, attack_table, unobserved_tasks
from evalwright.reports.run.fault_table import fault_table, outcomes_told
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.thresholds import mean

LARGE = 20_000  # events of a run, from which on its judges are not heard
MOST_CORRECTIONS = 20  # of scores, the latest


def sections_of(call: PageCall, view: RunView, repeats: Repeats) -> dict[str, Any]:
    """All of them; what a run does not have is empty."""
    group = view.frame.group
    passed = runs_passed(call, group) if repeats and group is not None else 0
    judges = view.frame.panel.judges if view.frame.panel else ()
    return {
        "attacks": _attacks(view),
        "faults": _faults(view),
        "repeats": repeats_told(repeats, passed),
        "corrections": _corrections(view),
        "facts": list(_facts(view)),
        "evidence": evidence_of(call, [RecentRun(view.facts, view.tasks)], judges),
    }


def _attacks(view: RunView) -> dict[str, Any] | None:
    """What came of the attacks of a derived suite: head, rows, notes."""
    suite = view.frame.suite
    if not is_derived(suite.suite_id):
        return None
    log, run_id = view.run.log, view.run.run_id
    planned = [msgspec.json.decode(each, type=Task) for each in suite.tasks]
    hidden = unobserved_tasks(log, run_id, planned, view.frame.agent)
    outcomes = [
        TaskOutcome(row.task_id, row.passed, row.safety_findings or (), row.task_id in hidden)
        for row in view.tasks.rows
        if row.passed is not None
    ]
    found = attack_table(suite.suite_id, outcomes, view.names)
    return outcomes_told(found)


def _faults(view: RunView) -> dict[str, Any] | None:
    """What came of the faults among the tools, where tasks have any."""
    suite, run_id = view.frame.suite, view.run.run_id
    if not view.frame.has_faults:
        return None
    if view.facts.events > LARGE:
        told = f"The table of a run as large as this one: evalwright show {run_id}"
        return {"head": (), "rows": (), "notes": [told]}
    tasks = [msgspec.json.decode(each, type=Task) for each in suite.tasks]
    passed = {row.task_id: row.passed for row in view.tasks.rows if row.passed is not None}
    returned = view.run.log.read(run_id, (ToolReturned.TYPE,))
    return outcomes_told(fault_table(tasks, passed, returned))


def _corrections(view: RunView) -> list[dict[str, Any]]:
    """What people say of scores; the scores stay as they are."""
    found = read_overrides(view.run.log, view.run.run_id)[-MOST_CORRECTIONS:]
    return [
        {
            "called": view.names.name_of(each.task_id),
            "score": amounts.score(each.score),
            "text": each.annotation.signal.correction or "",
            "note": each.annotation.note or "",
            "by": each.by,
        }
        for each in reversed(found)
    ]


def _facts(view: RunView) -> Iterator[tuple[str, str]]:
    """What ran: name and value."""
    frame = view.frame
    yield "Suite", frame.name
    yield "Agent", frame.agent.agent_id
    if frame.agent.model or frame.agent.model_class:
        yield "Model", frame.agent.model or str(frame.agent.model_class)
    yield "Modes", ", ".join(view.tasks.modes)
    if frame.panel is not None:
        samples = f", {frame.panel.samples} samples each" if frame.panel.samples > 1 else ""
        yield "Judges", f"{', '.join(frame.panel.judges)}{samples}"
        yield from _agreement(view)
    if frame.settings.user_model is not None:
        yield "Users played by", frame.settings.user_model
    if frame.selection is not None:
        chosen = ", ".join(frame.selection.by)
        yield "Selected", f"{len(view.tasks.rows):,} of {frame.selection.of:,} tasks: {chosen}"
    if frame.group is not None:
        yield "Repeat", f"{frame.group.index} of {frame.group.size}"


def _agreement(view: RunView) -> Iterator[tuple[str, str]]:
    """How far the judges agreed, where that can be told without reading a very large log.

    Of a run it is the mean over its tasks, as everywhere; a single vote agrees with itself.
    """
    panel = view.frame.panel
    if view.facts.events > LARGE or panel is None or len(panel.judges) * panel.samples == 1:
        return
    by_task: dict[str, list[Judged]] = {}
    for event in view.run.log.read(view.run.run_id, (Judged.TYPE,)):
        by_task.setdefault(event.task_id or "", []).append(event.decode(Judged))
    agreed = [each for each in map(agreement_of, by_task.values()) if each is not None]
    if agreed:
        votes = sum(each.votes for each in agreed)
        share = mean([each.share for each in agreed])
        yield "Agreement of judges", f"{amounts.percent(share)}, {votes:,} votes"
