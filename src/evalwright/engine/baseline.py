"""The run that a new one is compared with: it must be of the same suite, and complete."""

from collections.abc import Iterable

from msgspec.structs import replace

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import Checked
from evalwright.contracts.planning import FIRST_RULE, Baseline, BaselineTask, LeftOut
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.history import History, read_history
from evalwright.engine.isolation import in_words
from evalwright.engine.listing import runs_of_group
from evalwright.engine.replay import project
from evalwright.scoring.pass_bars import task_score
from evalwright.scoring.regression import left_out_tasks
from evalwright.scoring.thresholds import mean
from evalwright.store.protocol import EventLog


def read_baseline(
    log: EventLog,
    run_id: str,
    suite: Suite,
    redactor: Redactor = NOTHING_SECRET,
    *,
    is_part: bool = False,
    allow_partial: bool = False,
    with_repeats: bool = False,
) -> Baseline:
    """What a run came to; raises `BadInput` if it cannot be a baseline for the suite.

    With repeats, all repeats that it is one of count: scores are means of theirs, and a task passed
    if it did in most of them.

    A suite that has changed is compared by the tasks that are the same in both. Where it is a part
    of itself, so is the baseline. A run of a part is no baseline unless it is allowed to be.
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
    if recorded.suite_id != suite.suite_id:
        raise BadInput(
            f"--baseline: run {run_id} is of {recorded.suite_id}@{recorded.version}, not of "
            f"{suite.suite_id}; name a run of the same suite"
        )
    wanted = {task.task_id for task in suite.tasks}
    if is_part:
        part = [task for task in recorded.tasks if task.task_id in wanted]
        recorded = replace(recorded, tasks=part)
    left_out = left_out_tasks(recorded, suite, redactor.redact)
    group = history.plan.group if with_repeats else None
    found = [scored_now(log, each) for each in (_completed(log, group.id) if group else [history])]
    results = {
        of_task[0].task_id: of_task for of_task in zip(*(s.tasks for s, _ in found), strict=True)
    }
    others = {*left_out.changed, *left_out.new}
    shared = [results[task.task_id] for task in suite.tasks if task.task_id not in others]
    is_same = left_out == LeftOut() and recorded.version == suite.version
    if not shared:
        raise BadInput(
            f"--baseline: run {run_id} has no task in common with {suite.suite_id}@{suite.version} "
            "as it is now; name another run"
        )
    tasks = []
    for repeats in shared:
        runs, passes = len(repeats), sum(each.passed for each in repeats)
        verdicts = None if group is None else (passes, runs)
        tasks.append(
            BaselineTask(mean([each.score for each in repeats]), passes * 2 > runs, verdicts)
        )
    return Baseline(
        run_id,
        mean([summary.aggregate_score for summary, _ in found])
        if is_same and not is_part
        else mean([task.score for task in tasks]),
        tasks,
        history.plan.panel.judges if history.plan.panel else [],
        None if is_same else left_out,
        group=None if group is None else group.id,
        rescored=any(is_other for _, is_other in found),
    )


def scored_now(log: EventLog, history: History) -> tuple[EvalSummary, bool]:
    """What a run came to by the rule of today, and whether an earlier one said something else."""
    summary, plan = project(history).summary, history.plan
    if plan.scoring != FIRST_RULE:
        return summary, False
    scores = scores_of_today(log, history.run_id, plan.suite.tasks)
    tasks = [replace(task, score=scores.get(task.task_id, task.score)) for task in summary.tasks]
    weights = [task.weight for task in plan.suite.tasks]
    aggregate = mean([task.score for task in tasks], weights)
    return replace(summary, tasks=tasks, aggregate_score=aggregate), tasks != summary.tasks


def scores_of_today(log: EventLog, run_id: str, tasks: Iterable[Task]) -> dict[str, float]:
    """What tasks that the first rule scored have by that of today, where it is about them."""
    checked = {
        task.task_id
        for task in tasks
        if task.expected.kind == "checks" and task.expected.threshold is None
    }
    scores: dict[str, dict[int, float]] = {}  # by task and repetition
    for event in log.read(run_id, (Checked.TYPE,)) if checked else ():
        if event.task_id in checked:
            said = event.decode(Checked)
            score = task_score(said.score, None, passed=said.passed)
            scores.setdefault(event.task_id, {})[said.repetition] = score
    return {task_id: mean([*found.values()]) for task_id, found in scores.items()}


def _completed(log: EventLog, group_id: str) -> list[History]:
    """The repeats of a group that have a result."""
    histories = [read_history(log, each) for each in runs_of_group(log, group_id)]
    return [each for each in histories if each.status == "completed"]
