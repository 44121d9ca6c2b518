"""Resuming a run in the log: scores stay, and recorded answers are judged, not asked for again."""

from collections.abc import Mapping

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import DamagedEventLog, RunBusy
from evalwright.contracts.events import (
    PAYLOADS,
    Checked,
    Decided,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.execution import Announce, Execution, Means, Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.invocation import Answer, Repetition, repetition_of
from evalwright.engine.listing import last_continuation
from evalwright.engine.replay import project
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
    history.repetitions = failed.repetitions
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
    kept = (failed.scored, failed.awaiting, failed.repetitions)
    return event.type == ProviderUsage.TYPE or any(event.task_id in each for each in kept)


def recall_answers(log: EventLog, history: History) -> None:
    """Fill in what was answered and has no score yet: judges or checks may still have to speak."""
    tasks = history.plan.suite.tasks
    if history.plan.panel is None and all(each.expected.kind != "checks" for each in tasks):
        return
    left = {task.task_id: task for task in tasks if task.task_id not in history.scored}
    for task_id, found in recorded_answers(log, history.run_id, left).items():
        if found.repetitions:
            history.repetitions[task_id] = found.repetitions
        if (answer := found.answer()) is not None:
            history.awaiting[task_id] = answer
        history.judged[task_id] = found.judged


def recorded_answers(
    log: EventLog, run_id: str, tasks: Mapping[str, Task]
) -> "dict[str, RecordedTask]":
    """What a run recorded of the answers to some of its tasks."""
    recalled = {task_id: RecordedTask(task) for task_id, task in tasks.items()}
    try:
        for event in log.read(run_id, _OF_ANSWERS):
            if event.task_id in recalled:
                recalled[event.task_id].take(event)
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        place = f"{log.place}: run {run_id}"
        raise DamagedEventLog(f"{place} cannot be read: {error!r}") from error
    return recalled


class RecordedTask:
    """What the events of a task say of its last invocation, and of its repetitions before."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.repetitions: list[Repetition] = []
        self.judged: list[Judged] = []
        self._decided: Decided | None = None
        self._completed: InvocationCompleted | None = None
        self._deeds: list[Payload] = []
        self._usages: list[ProviderUsage] = []
        self._own_calls = 0
        self._ended: dict[int, Answer] = {}  # by repetition

    def take(self, event: Event) -> None:
        """Take the next event of the task."""
        payload = event.decode(PAYLOADS[event.type])
        match payload:
            case InvocationStarted():
                self._decided, self._completed = None, None
                self._deeds, self._usages = [], []
                # A repetition is another answer; what was asked about an answer names that.
                self.judged = [each for each in self.judged if each.subject.startswith("check:")]
            case Judged():
                self.judged.append(payload)
            case Checked():
                ended = self._ended[payload.repetition]
                self.repetitions.append(
                    Repetition(
                        payload.score,
                        payload.passed,
                        ended.latency_ms,
                        ended.usages,
                        ended.schema_valid,
                    )
                )
                if payload.repetition == self._repetition:
                    self._completed = None  # it does not wait any more
            case ProviderUsage():
                self._usages.append(payload)
            case _:
                self._take_deed(payload)

    @property
    def _repetition(self) -> int:
        return repetition_of(self._completed.invocation_id) if self._completed else 0

    def _take_deed(self, payload: Payload) -> None:
        self._deeds.append(payload)
        if isinstance(payload, Decided):
            self._decided = payload
        elif isinstance(payload, InvocationCompleted):
            self._completed, self._own_calls = payload, len(self._usages)
            if self._decided is not None:
                self._ended[self._repetition] = self._answered(payload, self._decided)

    def _answered(self, completed: InvocationCompleted, decided: Decided) -> Answer:
        return Answer(
            self.task,
            decided.decision,
            None,
            completed.latency_ms or 0,
            self._usages,
            completed.schema_validated,
            self._own_calls,
            self._deeds,
        )

    def answer(self) -> Answer | None:
        """The answer of the last invocation, if it came to an end and was no failure."""
        if self._completed is None or self._completed.outcome == "failed":
            return None
        return self._ended.get(self._repetition)
