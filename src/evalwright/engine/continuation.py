"""Resuming a run in the log: scores stay, and recorded answers are judged, not asked for again."""

from collections.abc import Iterable

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import DamagedEventLog, RunBusy
from evalwright.contracts.events import (
    Decided,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    ProviderUsage,
)
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.execution import Announce, Execution, Means, Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.invocation import Answer
from evalwright.engine.listing import last_continuation
from evalwright.engine.replay import project
from evalwright.store.protocol import EventLog, NewEvent

_OF_ANSWERS = (
    InvocationStarted.TYPE,
    ProviderUsage.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    Judged.TYPE,
)


async def resume_run(
    log: EventLog,
    agent: Agent,
    history: History,
    announce: Announce = lambda _: None,
    clock: Clock | None = None,
    means: Means | None = None,
) -> Outcome:
    """Go on with a run that was stopped, or continue one that failed.

    A stopped run goes on in its own log. A failed run has its one end already, so it is continued
    by a new run that begins with the recorded facts of the scored tasks.
    """
    clock = clock or SystemClock()
    if history.end is not None:
        return await _continue_failed(log, agent, history, announce, clock, means or Means())
    with log.claim(history.run_id):
        current = read_history(log, history.run_id)  # it may have gone on before it was ours
        if current.end is not None:
            return project(current)
        current.plan = history.plan
        recall_answers(log, current)
        announce(current)
        execution = Execution(log, agent, current, clock, means or Means())
        execution.close_interrupted()
        return await execution.run()


async def _continue_failed(
    log: EventLog,
    agent: Agent,
    failed: History,
    announce: Announce,
    clock: Clock,
    means: Means,
) -> Outcome:
    history = History(new_run_id(clock), failed.plan, clock.now_us())
    recall_answers(log, failed)
    history.awaiting, history.judged = failed.awaiting, failed.judged
    recorded = [event for event in log.read(failed.run_id) if _is_kept(event, failed)]
    history.take_over(recorded)
    with log.claim(failed.run_id), log.claim(history.run_id):
        last = last_continuation(log, failed.run_id)
        if last != failed.run_id:
            message = f"run {failed.run_id} has just been continued by {last}; resume that one"
            raise RunBusy(message)
        execution = Execution(log, agent, history, clock, means)
        facts = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in recorded]
        execution.open(failed.run_id, facts)
        await execution.settle()  # so that its observers see only what is new
        announce(history)
        return await execution.run()


def _is_kept(event: Event, failed: History) -> bool:
    """Whether a continuation takes an event over: what was scored, answered, and spent."""
    kept = event.task_id in failed.scored or event.task_id in failed.awaiting
    return kept or event.type == ProviderUsage.TYPE


def recall_answers(log: EventLog, history: History) -> None:
    """Fill in the answers that were recorded and not yet judged; only a run with judges has any."""
    if history.plan.panel is None:
        return
    by_task: dict[str, list[Event]] = {}
    for event in log.read(history.run_id, _OF_ANSWERS):
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
