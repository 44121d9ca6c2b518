"""Resuming a run in the log: scores stay, and recorded answers are judged, not asked for again."""

from collections.abc import Iterable

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import DamagedEventLog, RunBusy
from evalwright.contracts.events import (
    PAYLOADS,
    Checked,
    Decided,
    ErrorDetail,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
    UserSaid,
    WorldChanged,
)
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.history import History, read_history
from evalwright.engine.invocation import CutConversation, Repetition, TaskAnswer
from evalwright.engine.machine import USER_FAILED
from evalwright.engine.plan import Plan
from evalwright.engine.projection import (
    ProjectedTask,
    TaskAttempt,
    kept_of_conversation,
    project_tasks,
)
from evalwright.engine.replay import project
from evalwright.engine.runner import Announce, Runner
from evalwright.engine.runs import last_continuation
from evalwright.engine.task_work import RunResources
from evalwright.engine.verdict import Outcome
from evalwright.store.protocol import EventLog, NewEvent

_DEEDS = (
    *(ToolCalled.TYPE, ToolReturned.TYPE, UserSaid.TYPE, WorldChanged.TYPE),
    *(Decided.TYPE, InvocationCompleted.TYPE),
)
_OF_ANSWERS = (*_DEEDS, InvocationStarted.TYPE, ProviderUsage.TYPE, Judged.TYPE, Checked.TYPE)


async def resume_run(
    log: EventLog,
    agent: Agent,
    history: History,
    announce: Announce = lambda _: None,
    clock: Clock | None = None,
    resources: RunResources | None = None,
) -> Outcome:
    """Go on with a run that was stopped, or continue one that failed.

    A stopped run goes on in its own log. A failed run has its one end already, so it is continued
    by a new run that begins with the recorded facts of the scored tasks.
    """
    clock = clock or SystemClock()
    if history.end is not None:
        return await _continue_failed(
            log, agent, history, announce, clock, resources or RunResources()
        )
    with log.claim(history.run_id):
        current = read_history(log, history.run_id)  # it may have gone on before it was ours
        if current.end is not None:
            return project(current)
        current.plan = history.plan
        recall_answers(log, current)
        announce(current)
        runner = Runner(log, agent, current, clock, resources or RunResources())
        runner.close_interrupted()
        return await runner.run()


async def _continue_failed(
    log: EventLog,
    agent: Agent,
    failed: History,
    announce: Announce,
    clock: Clock,
    resources: RunResources,
) -> Outcome:
    history, facts = _taken_over(log, failed, clock)
    with log.claim(failed.run_id), log.claim(history.run_id):
        _refuse_twice(log, failed.run_id)
        runner = Runner(log, agent, history, clock, resources)
        runner.open(failed.run_id, facts)
        await runner.settle()  # so that its observers see only what is new
        announce(history)
        return await runner.run()


def continued(log: EventLog, failed: History, clock: Clock) -> tuple[History, list[NewEvent]]:
    """The run that continues a failed one, which is claimed, and the facts that it begins with."""
    _refuse_twice(log, failed.run_id)
    return _taken_over(log, failed, clock)


def _refuse_twice(log: EventLog, run_id: str) -> None:
    last = last_continuation(log, run_id)
    if last != run_id:
        raise RunBusy(f"run {run_id} has just been continued by {last}; resume that one")


def _taken_over(log: EventLog, failed: History, clock: Clock) -> tuple[History, list[NewEvent]]:
    history = History(new_run_id(clock), failed.plan, clock.now_us())
    recall_answers(log, failed)
    history.awaiting, history.judged = failed.awaiting, failed.judged
    history.repetitions, history.conversations = failed.repetitions, failed.conversations
    ends = log.read(failed.run_id, (InvocationCompleted.TYPE,))
    cut_off = {end.task_id for end in ends if end.decode(InvocationCompleted).latency_ms is None}
    # What was scored, answered, and spent.
    kept = (failed.scored, failed.awaiting, failed.repetitions, failed.conversations, cut_off)
    recorded = [
        event
        for event in log.read(failed.run_id)
        if event.type == ProviderUsage.TYPE or any(event.task_id in each for each in kept)
    ]
    history.take_over(recorded)
    facts = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in recorded]
    return history, facts


def recall_answers(log: EventLog, history: History) -> None:
    """Fill in what was answered and has no score yet, so that nobody is asked for it again."""
    fill_in(history, log.read(history.run_id, _OF_ANSWERS), f"{log.place}: run {history.run_id}")


def fill_in(history: History, events: Iterable[Event], place: str) -> None:
    """Take the answers to tasks that have no score, from events in their order."""
    plan = history.plan
    tasks = [task for task in plan.suite.tasks if task.task_id not in history.scored]
    try:
        with without_collecting():
            for task_id, found in project_tasks(tasks, events).items():
                if done := [
                    _repetition(each, checked)
                    for each in found.repetitions
                    if (checked := each.checked) is not None
                ]:
                    history.repetitions[task_id] = done
                waiting = [
                    recorded_answer(found.task, each, plan)
                    for each in found.repetitions
                    if each.has_answer and each.checked is None
                ]
                if (cut := _cut_conversation(found)) is not None:
                    history.conversations[task_id] = cut
                # A failure is asked for again, unless it counts.
                if answers := [each for each in waiting if each.error is None or plan.is_recorded]:
                    history.awaiting[task_id] = answers
                # A repetition is another answer; what was asked about an answer names that.
                before = [each for attempt in found.earlier for each in attempt.judged]
                of_checks = [each for each in before if each.subject.startswith("check:")]
                history.judged[task_id] = [*of_checks, *found.current.judged]
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise DamagedEventLog(f"{place} cannot be read: {error!r}") from error


def _cut_conversation(found: ProjectedTask) -> CutConversation | None:
    """What of a conversation need not be asked for again, if it was cut off."""
    attempt, completed = found.current, found.current.completed
    if not (found.task.is_conversation and attempt.is_begun) or attempt.checked is not None:
        return None
    if completed is not None and completed.latency_ms is not None:
        error = attempt.decided.get("error") if isinstance(attempt.decided, dict) else None
        if completed.outcome != "failed" or not error or error["code"] != USER_FAILED:
            return None  # it has ended, and not by those who play or watch it
    kept, took_us = kept_of_conversation(attempt.deeds), 0
    deeds: list[Payload] = [each.decode(PAYLOADS[each.type]) for each in kept]
    asked_us = attempt.deeds[0].at_us
    for event, deed in zip(kept, deeds, strict=True):
        if isinstance(deed, Decided):
            took_us += event.at_us - asked_us
        if isinstance(deed, Decided | UserSaid):
            asked_us = event.at_us
    answers = [each for each in deeds if isinstance(each, Decided)]
    if not deeds or (answers and answers[-1].session is None):
        return None
    began = attempt.deeds[0].decode(InvocationStarted)
    first = began.continues or began.invocation_id
    return CutConversation(first, deeds[1:], took_us / 1e6)


def _repetition(attempt: TaskAttempt, checked: Checked) -> Repetition:
    if (completed := attempt.completed) is None:
        raise ValueError(f"{Checked.TYPE} of an invocation that did not end")
    return Repetition(
        checked.score,
        checked.passed,
        _latency(completed),
        [*attempt.usages, *attempt.usages_of_others],
        completed.schema_validated,
    )


def _latency(completed: InvocationCompleted) -> int | None:
    return None if "latency" in (completed.unmeasured or ()) else completed.latency_ms or 0


def recorded_answer(task: Task, attempt: TaskAttempt, plan: Plan) -> TaskAnswer:
    """The answer of an attempt that ended, as the checks look at it."""
    completed, decision, error = attempt.completed, attempt.decided, None
    assert completed is not None
    if completed.outcome == "failed":
        error = msgspec.convert(decision["error"], ErrorDetail)
    own = attempt.usages
    return TaskAnswer(
        task,
        None if error else decision,
        error,
        _latency(completed),
        [*own, *attempt.usages_of_others],
        completed.schema_validated,
        len(own),
        [each.decode(PAYLOADS[each.type]) for each in attempt.deeds if each.type in _DEEDS],
        completed.unmeasured or (),
        attempt.coverage(plan.agent),
        plan.suite.worlds.get(task.world),
    )
