"""Repeats: runs of the same suite that were started together, with pass^k."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.run_plan import Group
from evalwright.host.runs.handle import RunHandle
from evalwright.host.web.page import PageCall
from evalwright.host.web.run_views import RunView, RunViews
from evalwright.reports.run.task_list import TaskList
from evalwright.scoring.repeats import Spread, TaskRepeats
from evalwright.store.protocol import RunFilter

MOST_REPEATS = 50  # runs of a group

Repeats: TypeAlias = dict[str, list[bool | None]]  # by task: how it came out in each run of a group


async def read_repeats(call: PageCall, views: RunViews, view: RunView) -> Repeats:
    """How each task came out in each run of the group, by its id; nothing without a group."""
    if view.frame.group is None or view.frame.group.size < 2:
        return {}
    wanted = RunFilter(repeats=view.frame.group.id)
    runs = await call.in_reader(lambda: call.log.find_runs(wanted, MOST_REPEATS))
    found: Repeats = {}
    for place, facts in enumerate(reversed(runs)):
        for row in (await _tasks_of(call, views, facts.run_id)).rows:
            found.setdefault(row.task_id, [None] * len(runs))[place] = row.passed
    return found if len(runs) > 1 else {}


async def _tasks_of(call: PageCall, views: RunViews, run_id: str) -> TaskList:
    run: RunHandle = call.run_with(run_id)
    try:
        return await views.tasks(run, await views.facts(run))
    except RunNotFound:  # deleted a moment ago
        return TaskList([], [])


def runs_passed(call: PageCall, group: Group) -> int:
    """How many runs of a group met their bars and gates."""
    runs = call.log.find_runs(RunFilter(repeats=group.id), MOST_REPEATS)
    return sum(call.host.figures.has_passed(call.log, each) is True for each in runs)


def repeats_told(repeats: Repeats, passed: int) -> dict[str, Any]:
    """pass^k of the suite for each k, and how many runs passed and tasks are flaky."""
    tasks = [
        each for each in (_task_repeats(name, of) for name, of in repeats.items()) if each.runs > 1
    ]
    if not tasks:
        return {}
    runs = min(task.runs for task in tasks)
    rates = [
        (k, amounts.percent(sum(task.pass_hat(k) for task in tasks), len(tasks)))
        for k in range(1, runs + 1)
    ]
    flaky = sum(task.verdict == "flaky" for task in tasks)
    told = {"runs": runs, "passed": passed, "flaky": flaky, "tasks": len(tasks)}
    return {**told, "rates": rates[:10]}


def _task_repeats(task_id: str, passed: Sequence[bool | None]) -> TaskRepeats:
    known = [each for each in passed if each is not None]
    return TaskRepeats(task_id, len(known), sum(known), Spread(0, 0, 0))
