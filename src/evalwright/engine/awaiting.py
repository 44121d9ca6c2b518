"""Answers that were recorded and not yet judged: a resumed run asks the judges, not the agent."""

from collections.abc import Iterable

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    Decided,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    ProviderUsage,
)
from evalwright.contracts.suite import Task
from evalwright.engine.history import History
from evalwright.engine.invocation import Answer
from evalwright.store.protocol import EventLog

_TOLD = (
    InvocationStarted.TYPE,
    ProviderUsage.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    Judged.TYPE,
)


def recall_answers(log: EventLog, history: History) -> None:
    """Fill in what a run was told and has no score for; only a run with judges waits for any."""
    if history.plan.panel is None:
        return
    by_task: dict[str, list[Event]] = {}
    for event in log.read(history.run_id, _TOLD):
        if event.task_id is not None and event.task_id not in history.scored:
            by_task.setdefault(event.task_id, []).append(event)
    tasks = {task.task_id: task for task in history.plan.suite.tasks}
    try:
        for task_id, events in by_task.items():
            answer = _answer(tasks[task_id], events)
            if answer is not None:
                history.awaiting[task_id] = answer
                history.judged[task_id] = [
                    event.decode(Judged) for event in events if event.type == Judged.TYPE
                ]
    except (msgspec.MsgspecError, KeyError) as error:
        place = f"{log.place}: run {history.run_id}"
        raise DamagedEventLog(f"{place} cannot be read: {error!r}") from error


def _answer(task: Task, events: Iterable[Event]) -> Answer | None:
    """The answer of a task's last invocation, if it came to an end and was no failure."""
    decided: Decided | None = None
    completed: InvocationCompleted | None = None
    usages: list[ProviderUsage] = []
    for event in events:
        match event.type:
            case InvocationStarted.TYPE:
                decided, completed, usages = None, None, []
            case ProviderUsage.TYPE:
                usages.append(event.decode(ProviderUsage))
            case Decided.TYPE:
                decided = event.decode(Decided)
            case InvocationCompleted.TYPE:
                completed = event.decode(InvocationCompleted)
    if decided is None or completed is None or completed.outcome == "failed":
        return None
    latency_ms = completed.latency_ms or 0
    return Answer(task, decided.decision, None, latency_ms, usages, completed.schema_validated)
