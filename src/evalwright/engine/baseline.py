"""The run that a new one is compared with: it must be of the very same suite, and complete."""

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.planning import (
    Baseline,
    BaselineTask,
)
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.suite import Suite
from evalwright.engine.history import read_history
from evalwright.engine.isolation import in_words
from evalwright.engine.replay import project
from evalwright.scoring.thresholds import mean, pass_score
from evalwright.store.protocol import EventLog


def read_baseline(
    log: EventLog,
    run_id: str,
    suite: Suite,
    redactor: Redactor = NOTHING_SECRET,
    *,
    is_part: bool = False,
    allow_partial: bool = False,
) -> Baseline:
    """What a run came to; raises `BadInput` if it cannot be a baseline for the suite.

    Where the suite is a part of itself, so is the baseline. A run of a part is no baseline unless
    it is allowed to be.
    """
    history = read_history(log, run_id)
    if history.status != "completed":
        raise BadInput(
            f"--baseline: run {run_id} is not complete ({history.status}), so there is nothing to "
            "compare with; finish it with --resume, or name another"
        )
    if history.plan.selection is not None and not allow_partial:
        raise BadInput(
            f"--baseline: run {run_id} is of a part of its suite ({in_words(history.plan)}), which "
            "is no evidence; name a run of the whole suite, or allow it with --allow-partial"
        )
    recorded = history.plan.suite
    if (recorded.suite_id, recorded.version) != (suite.suite_id, suite.version):
        raise BadInput(
            f"--baseline: run {run_id} is of {recorded.suite_id}@{recorded.version}, not of "
            f"{suite.suite_id}@{suite.version}; name a run of the same suite and version"
        )
    wanted = {task.task_id for task in suite.tasks}
    if is_part:
        part = [task for task in recorded.tasks if task.task_id in wanted]
        recorded = msgspec.structs.replace(recorded, tasks=part)
    changed = _change(recorded, suite, redactor)
    if changed is not None:
        raise BadInput(
            f"--baseline: run {run_id} is of {suite.suite_id}@{suite.version} too, but the suite "
            f"has changed since ({changed}); give a changed suite a new version"
        )
    summary = project(history).summary
    results = [task for task in summary.tasks if task.task_id in wanted]
    return Baseline(
        run_id,
        mean([task.score for task in results]) if is_part else summary.aggregate_score,
        [BaselineTask(task.score, task.passed) for task in results],
        history.plan.panel.judges if history.plan.panel else [],
    )


def _change(recorded: Suite, suite: Suite, redactor: Redactor) -> str | None:
    """What is not the same in both, as far as verdicts depend on it."""
    changed = _changed_tasks(recorded, suite, redactor)
    if changed:
        return f"task {changed[0]}"
    has_rubric = any(task.expected.kind == "rubric" for task in suite.tasks)
    bars = pass_score(recorded.thresholds), pass_score(suite.thresholds)
    return "passScore, which decides on rubric tasks" if has_rubric and bars[0] != bars[1] else None


def _changed_tasks(recorded: Suite, suite: Suite, redactor: Redactor) -> list[str]:
    """The tasks that are not the same in both; known secrets are not in a recorded one."""
    before = {task.task_id: msgspec.json.encode(task) for task in recorded.tasks}
    now = {task.task_id: redactor.redact(msgspec.json.encode(task)) for task in suite.tasks}
    if before == now and list(before) == list(now):
        return []
    different = [task_id for task_id in now if before.get(task_id) != now[task_id]]
    return different or [task_id for task_id in before if task_id not in now] or list(now)[:1]
