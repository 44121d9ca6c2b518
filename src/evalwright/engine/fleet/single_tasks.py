"""One task of a run at a time, executed into memory: a worker writes all of it at once, or nothing.

The log cannot tell the result from that of a run which one process executed.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.events import (
    Checked,
    ErrorDetail,
    EvalScored,
    InvocationCompleted,
    Payload,
)
from evalwright.contracts.suite import Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.checks import scored_as
from evalwright.engine.clock import Clock
from evalwright.engine.execution import Execution, RunResources
from evalwright.engine.history import History
from evalwright.engine.invocation import TaskAnswer, error_decision, invocation_id
from evalwright.engine.piecework import first_answer
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange

_VERDICTS = (Checked.TYPE, EvalScored.TYPE)

# Writes events of a task that goes on, of which the first so many are of attempts before its own.
Keep = Callable[[list[NewEvent], int], Awaitable[None]]


class TakenAway(Exception):
    """Another worker has the task by now."""


class FinishedTask(NamedTuple):
    """What came of a task, in memory until the attempt is seen to be still its worker's."""

    run_id: str
    task_id: str
    attempt: int
    events: list[NewEvent]
    own_from: int  # where the events of this attempt begin, after those of attempts that were lost
    is_answered: bool
    error: str | None = None  # of an agent that gave no answer
    unjudged: str | None = None  # why there is no verdict

    def parted(self) -> tuple[list[NewEvent], list[NewEvent]]:
        """What happened, and the verdicts on it."""
        verdicts = [each for each in self.events if each.type in _VERDICTS]
        return [each for each in self.events if each.type not in _VERDICTS], verdicts


@dataclass
class _TaskAtWork:
    """A task that is worked on."""

    keep: Keep
    lost: list[NewEvent]  # of attempts before its own, as long as they are not written
    is_answered: bool  # by what is in the log


class EventsByTask:
    """A sink that keeps the events of each task apart."""

    backlog = 0

    def __init__(self) -> None:
        self._events: dict[str | None, list[NewEvent]] = {}
        self._change = threading.Lock()  # agents record in threads of their own
        self._done: Future[None] = Future()
        self._done.set_result(None)

    def append(
        self,
        run_id: str,  # noqa: ARG002 - of a sink
        events: Sequence[NewEvent],
        changes: Sequence[RecordChange] = (),  # noqa: ARG002
    ) -> None:
        """Keep events, in order."""
        with self._change:
            for event in events:
                self._events.setdefault(event.task_id, []).append(event)

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Keep events like any others: they are durable with the rest of their task."""
        self.append(run_id, events)

    def request(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> "Future[None]":
        """Keep events like any others."""
        self.append(run_id, events, changes)
        return self._done

    def flush(self, run_id: str) -> "Future[None]":  # noqa: ARG002 - of a sink
        """Nothing waits."""
        return self._done

    def take(self, task_id: str) -> list[NewEvent]:
        """What was recorded for a task since this was last asked."""
        with self._change:
            return self._events.pop(task_id, [])


class SingleTasks(Execution):
    """Works on tasks of a run, several at a time, in one event loop."""

    def __init__(
        self, agent: Agent, history: History, clock: Clock, resources: RunResources
    ) -> None:
        self._sink = EventsByTask()
        super().__init__(self._sink, agent, history, clock, resources)
        self._answered = True  # whether anybody answered is known to whoever has all answers
        self._budget = None  # which counts what all workers spend
        self._indexes = {task.task_id: n for n, task in enumerate(self._plan.suite.tasks)}
        self._earlier = dict(history.attempts)  # attempts that the log knows of
        self._tried: set[str] = set()
        self._at_work: dict[str, _TaskAtWork] = {}

    def has_tried(self, task_id: str) -> bool:
        """Whether a task was begun here before: what is left of that would mix with another try."""
        return task_id in self._tried

    async def work_on(self, task_id: str, attempt: int, keep: Keep) -> FinishedTask:
        """Work on a task until it has its score, or judges failed.

        An answer that others are asked about is written before: whoever may have to take over
        scores it, and nobody asks for it once more.
        """
        index, is_answered = self._indexes[task_id], bool(self._history.awaiting.get(task_id))
        at_work = _TaskAtWork(keep, self._begin(index, attempt), is_answered)
        self._at_work[task_id] = at_work
        try:
            while True:
                await self._work_on(index)
                if index not in self._pending:
                    break
                self._pending.remove(index)  # it has another repetition
        finally:
            del self._at_work[task_id]
        unjudged = next((each for each in self._unjudged if each[0] == task_id), None)
        if unjudged is not None:
            self._unjudged.remove(unjudged)
        reason = unjudged[1].message if unjudged is not None else None
        finished = self._finished(task_id, attempt, at_work.lost, reason)
        return finished._replace(is_answered=finished.is_answered or at_work.is_answered)

    async def _judge(self, answer: TaskAnswer, index: int) -> None:
        at_work = self._at_work[answer.task.task_id]
        if answer.error is None and (events := self._sink.take(answer.task.task_id)):
            await at_work.keep([*at_work.lost, *events], len(at_work.lost))
            at_work.lost, at_work.is_answered = [], True
        await super()._judge(answer, index)

    def give_up(self, task_id: str, attempt: int, reason: str) -> FinishedTask:
        """The result of a task that is not begun once more: it fails, for a recorded reason."""
        task = self._plan.suite.tasks[self._indexes[task_id]]
        lost = self._begin(self._indexes[task_id], attempt)
        error = ErrorDetail("task_lost", reason)
        findings: list[SafetyFinding] | None = [] if self._plan.is_adversarial else None
        answer = TaskAnswer(task, None, error, 0, [])
        scored = scored_as(answer, 0.0, findings, passed=False)
        closing: list[Payload] = [error_decision(self._agent.agent_id, error)]
        self._recorder.record(task_id, *closing, scored)
        finished = self._finished(task_id, attempt, lost, None)
        return finished._replace(is_answered=False, error=reason)

    def forget(self, task_id: str) -> None:
        """Let go of what was recorded for a task that is not worked on any more."""
        self._sink.take(task_id)

    def end(self) -> None:
        """Let go of what the checks of the run hold."""
        self._checker.close()

    def _begin(self, index: int, attempt: int) -> list[NewEvent]:
        """Count the attempt; returns the events of those before it, which ended with a worker."""
        task = self._plan.suite.tasks[index]
        self._tried.add(task.task_id)
        if self._history.awaiting.get(task.task_id):
            return []  # it is judged, and nobody is invoked
        earlier = self._earlier.get(task.task_id, 0)
        self._history.attempts[task.task_id] = earlier + attempt - 1
        for number in range(earlier + 1, earlier + attempt):
            self._record_lost(task, invocation_id(index, number))
        return self._sink.take(task.task_id)

    def _record_lost(self, task: Task, attempt_id: str) -> None:
        """Record an attempt that ended with its worker, as a run that is resumed would."""
        agent_id = self._agent.agent_id
        error = ErrorDetail("interrupted", "the worker that ran the agent was stopped")
        self._recorder.record(
            task.task_id,
            self._invoker.started(task, attempt_id),
            error_decision(agent_id, error),
            InvocationCompleted(attempt_id, agent_id, "failed"),
        )

    def _finished(
        self, task_id: str, attempt: int, lost: list[NewEvent], unjudged: str | None
    ) -> FinishedTask:
        recorded = self._sink.take(task_id)
        is_answered, error = first_answer(recorded)
        return FinishedTask(
            self._history.run_id,
            task_id,
            attempt,
            lost + recorded,
            len(lost),
            is_answered,
            error,
            unjudged,
        )


def encoded(events: Sequence[NewEvent]) -> bytes:
    """Events as they are kept until they may be written."""
    return msgspec.msgpack.encode(events)


def decoded(kept: bytes) -> list[NewEvent]:
    """Events that were kept."""
    return msgspec.msgpack.decode(kept, type=list[NewEvent])
