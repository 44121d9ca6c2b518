"""Resuming a run in the log: scores stay, and recorded answers are judged, not asked for again."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.coverage import Coverage, recorded_coverage
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
)
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.execution import Announce, Execution, Outcome, RunResources
from evalwright.engine.history import History, read_history
from evalwright.engine.invocation import Repetition, TaskAnswer, repetition_of
from evalwright.engine.plan import Plan
from evalwright.engine.replay import project
from evalwright.engine.runs import last_continuation
from evalwright.store.protocol import EventLog, NewEvent

_OF_ANSWERS = (
    InvocationStarted.TYPE,
    ToolCalled.TYPE,
    ToolReturned.TYPE,
    ProviderUsage.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    Judged.TYPE,
    Checked.TYPE,
)


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
        execution = Execution(log, agent, current, clock, resources or RunResources())
        execution.close_interrupted()
        return await execution.run()


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
        execution = Execution(log, agent, history, clock, resources)
        execution.open(failed.run_id, facts)
        await execution.settle()  # so that its observers see only what is new
        announce(history)
        return await execution.run()


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
    history.repetitions = failed.repetitions
    cut_off = _cut_off(log, failed.run_id)
    recorded = [event for event in log.read(failed.run_id) if _is_kept(event, failed, cut_off)]
    history.take_over(recorded)
    facts = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in recorded]
    return history, facts


def _cut_off(log: EventLog, run_id: str) -> set[str | None]:
    """The tasks of which an attempt ended with its process: a budget counts what it may cost."""
    ends = log.read(run_id, (InvocationCompleted.TYPE,))
    return {end.task_id for end in ends if end.decode(InvocationCompleted).latency_ms is None}


def _is_kept(event: Event, failed: History, cut_off: set[str | None]) -> bool:
    """Whether a continuation takes an event over: what was scored, answered, and spent."""
    kept = (failed.scored, failed.awaiting, failed.repetitions, cut_off)
    return event.type == ProviderUsage.TYPE or any(event.task_id in each for each in kept)


def recall_answers(log: EventLog, history: History) -> None:
    """Fill in what was answered and has no score yet, so that nobody is asked for it again."""
    plan = history.plan
    events = log.read(history.run_id, _OF_ANSWERS)
    fill_in(history, recalled_tasks(events, plan, f"{log.place}: run {history.run_id}"))


def fill_in(history: History, recalled: "Mapping[str, RecalledTask]") -> None:
    """Take the answers to tasks that have no score."""
    for task_id, found in recalled.items():
        if task_id in history.scored:
            continue
        if found.repetitions:
            history.repetitions[task_id] = found.repetitions
        if answers := found.answers(with_failures=history.plan.is_recorded):
            history.awaiting[task_id] = answers
        history.judged[task_id] = found.judged


def recalled_tasks(events: Iterable[Event], plan: Plan, place: str) -> "dict[str, RecalledTask]":
    """What events say of the answers to the tasks of a plan."""
    recalled = {task.task_id: RecalledTask(task, plan.agent) for task in plan.suite.tasks}
    try:
        for event in events:
            if event.task_id is not None and event.type in _OF_ANSWERS:
                recalled[event.task_id].take(event)
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise DamagedEventLog(f"{place} cannot be read: {error!r}") from error
    return recalled


class RecalledTask:
    """What the events of a task say of its last invocation, and of its repetitions before."""

    def __init__(self, task: Task, claims: AgentFacts) -> None:
        self.task = task
        self._claims = claims
        self.repetitions: list[Repetition] = []
        self.judged: list[Judged] = []
        self._decided: Decided | None = None
        self._deeds: list[Payload] = []
        self._usages: list[ProviderUsage] = []
        self._waiting: dict[int, TaskAnswer] = {}  # by repetition

    def take(self, event: Event) -> None:
        """Take the next event of the task."""
        payload = event.decode(PAYLOADS[event.type])
        match payload:
            case InvocationStarted():
                self._decided = None
                self._deeds, self._usages = [], []
                self._waiting.pop(repetition_of(payload.invocation_id), None)
                # A repetition is another answer; what was asked about an answer names that.
                self.judged = [each for each in self.judged if each.subject.startswith("check:")]
            case Judged():
                self.judged.append(payload)
            case Checked():
                self._end(payload)
            case ProviderUsage():
                self._usages.append(payload)
            case _:
                self._take_deed(payload)

    def _end(self, checked: Checked) -> None:
        """A repetition has its result, and does not wait any more."""
        ended = self._waiting.pop(checked.repetition)
        self.repetitions.append(
            Repetition(
                checked.score, checked.passed, ended.latency_ms, ended.usages, ended.schema_valid
            )
        )

    def _take_deed(self, payload: Payload) -> None:
        self._deeds.append(payload)
        if isinstance(payload, Decided):
            self._decided = payload
        elif isinstance(payload, InvocationCompleted) and self._decided is not None:
            number = repetition_of(payload.invocation_id)
            self._waiting[number] = self._answer(payload, self._decided.decision)

    def _answer(self, completed: InvocationCompleted, decision: Any) -> TaskAnswer:
        error = None
        if completed.outcome == "failed":
            error = msgspec.convert(decision["error"], ErrorDetail)
        unmeasured = completed.unmeasured or ()
        return TaskAnswer(
            self.task,
            None if error else decision,
            error,
            None if "latency" in unmeasured else completed.latency_ms or 0,
            self._usages,
            completed.schema_validated,
            len(self._usages),
            self._deeds,
            unmeasured,
            self._coverage(completed).claimed(self._claims.tools, self._claims.usage),
        )

    def _coverage(self, completed: InvocationCompleted) -> Coverage:
        """What was recorded as observed; of older logs, what they hold."""
        if completed.coverage is not None:
            return completed.coverage
        has_calls = any(isinstance(each, ToolCalled) for each in self._deeds)
        return recorded_coverage(has_calls=has_calls, has_usage=bool(self._usages))

    def answers(self, *, with_failures: bool) -> list[TaskAnswer]:
        """What was answered and has no result; a failure is asked for again, unless it counts."""
        waiting = [self._waiting[number] for number in sorted(self._waiting)]
        return [each for each in waiting if each.error is None or with_failures]
