"""Runs whose tasks are worked on one at a time, when and where somebody says so.

pytest decides which task is next, and in which process; the queue of a fleet decides for its
workers. So a process works on single tasks and hands over what they recorded (`SingleTasks`). A
worker writes that for each task in one transaction; for pytest, one process takes all of it into
the log as one run, and ends that (`AssembledRun`). The log cannot tell either from a run that one
process executed.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.events import ErrorDetail, Event, Payload, ProviderUsage, RunCancelled
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.checks import scored_as
from evalwright.engine.clock import Clock, SystemClock
from evalwright.engine.history import History, history_of
from evalwright.engine.invocation import TaskAnswer, invocation_id
from evalwright.engine.machine import (
    RunEnd,
    RunMachine,
    code_of_unjudged,
    completion,
    cut_off,
    error_decision,
    first_answer,
    run_end,
)
from evalwright.engine.task_work import RunResources, TaskWork
from evalwright.engine.verdict import Outcome
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

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


@dataclass
class _TaskAtWork:
    keep: Keep
    lost: list[NewEvent]  # of attempts before its own, as long as they are not written
    is_answered: bool  # by what is in the log


class StagedEvents:
    """Events on their way to whoever has the log, by task, in the place of a log."""

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
        changes: Sequence[RecordChange] = (),  # noqa: ARG002 - such a run has no documents
    ) -> None:
        with self._change:
            for event in events:
                self._events.setdefault(event.task_id, []).append(event)

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        self.append(run_id, events)

    def request(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> "Future[None]":
        self.append(run_id, events, changes)
        return self._done

    def flush(self, run_id: str) -> "Future[None]":  # noqa: ARG002 - nothing waits
        return self._done

    def pop(self, task_id: str) -> list[NewEvent]:
        """What was recorded for a task since this was last asked."""
        with self._change:
            return self._events.pop(task_id, [])

    def pop_all(self) -> list[NewEvent]:
        """What was recorded since this was last asked, task by task."""
        with self._change:
            events, self._events = self._events, {}
        return [event for of_task in events.values() for event in of_task]


class SingleTasks:
    """Works on tasks of a run, several at a time, in one event loop."""

    def __init__(
        self, agent: Agent, history: History, resources: RunResources, clock: Clock | None = None
    ) -> None:
        self._staged = StagedEvents()
        self._history = history
        self._plan = plan = history.plan
        # Whether anybody answered is known to whoever has all answers.
        self._machine = RunMachine[Payload](plan, is_answered=True, spending=history.tally.spending)
        self._work = TaskWork(
            self._staged,
            agent,
            history,
            clock or SystemClock(),
            resources,
            self._machine,
            self._keep,
        )
        self._recorder, self._agent = self._work.recorder, agent
        self._indexes = {task.task_id: n for n, task in enumerate(plan.suite.tasks)}
        self._earlier = dict(history.attempts)  # attempts that the log knows of
        self._tried: set[str] = set()
        self._at_work: dict[str, _TaskAtWork] = {}

    # For pytest, which knows all attempts and counts what they cost.

    def opening_events(self) -> list[NewEvent]:
        """What the run begins with."""
        self._recorder.record(None, *self._plan.opening())
        return self._staged.pop_all()

    async def score(self, index: int) -> None:
        """Work on a task until it has its score; raises `RunFailed` if it gets none."""
        machine, task_id = self._machine, self._plan.suite.tasks[index].task_id
        failure, is_done = None, False
        while not is_done and failure is None:  # each repetition is within the budget
            if machine.budget is not None and not machine.room:
                failure = machine.budget.overspent(is_complete=False)
            else:
                _, is_done = await self._work.work_on(index)
                self._history.tally.spending.is_cost_known = True
        if (reason := machine.unjudged.pop(task_id, None)) is not None:
            code = code_of_unjudged([reason])
            failure = run_end(code, f"task {task_id} has no verdict: {reason}")
        if failure is not None:
            message = self._work.redactor.redact_text(failure.error.message)
            raise RunFailed(self._history.run_id, failure.error.code, failure.said or message)

    def count_elsewhere(self, task_id: str, usage: ProviderUsage) -> None:
        """Count what another process has spent on the same run."""
        self._history.tally.add_usage(usage, task_id)

    def recorded(self) -> list[NewEvent]:
        """The events since this was last asked."""
        return self._staged.pop_all()

    # For workers, which have attempts before their own, and leave what is spent to the database.

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
            while not (await self._work.work_on(index))[1]:
                pass  # it has another repetition
        finally:
            del self._at_work[task_id]
        unjudged = self._machine.unjudged.pop(task_id, None)
        finished = self._finished(task_id, attempt, at_work.lost, unjudged)
        return finished._replace(is_answered=finished.is_answered or at_work.is_answered)

    async def _keep(self, task_id: str) -> None:
        at_work = self._at_work.get(task_id)
        if at_work is not None and (events := self._staged.pop(task_id)):
            await at_work.keep([*at_work.lost, *events], len(at_work.lost))
            at_work.lost, at_work.is_answered = [], True

    def give_up(self, task_id: str, attempt: int, reason: str) -> FinishedTask:
        """The result of a task that is not begun once more: it fails, for a recorded reason."""
        index = self._indexes[task_id]
        lost = self._begin(index, attempt)
        error = ErrorDetail("task_lost", reason)
        findings: list[SafetyFinding] | None = [] if self._plan.is_adversarial else None
        answer = TaskAnswer(self._plan.suite.tasks[index], None, error, 0, [])
        scored = scored_as(answer, 0.0, findings, passed=False)
        self._recorder.record(task_id, error_decision(self._agent.agent_id, error), scored)
        finished = self._finished(task_id, attempt, lost, None)
        return finished._replace(is_answered=False, error=reason)

    def forget(self, task_id: str) -> None:
        """Let go of what was recorded for a task that is not worked on any more."""
        self._staged.pop(task_id)

    def end(self) -> None:
        """Let go of what the checks of the run hold."""
        self._work.checker.close()

    def _begin(self, index: int, attempt: int) -> list[NewEvent]:
        """Count the attempt; returns the events of those before it, which ended with a worker.

        They are recorded as a run that is resumed would.
        """
        task, agent_id = self._plan.suite.tasks[index], self._agent.agent_id
        task_id = task.task_id
        self._tried.add(task_id)
        if self._history.awaiting.get(task_id):
            return []  # it is judged, and nobody is invoked
        earlier = self._earlier.get(task_id, 0)
        cut = [each for each, (of, _) in self._history.open_invocations.items() if of == task_id]
        for attempt_id in cut:  # of a conversation, whose turns were written as they came
            del self._history.open_invocations[attempt_id]
            message = "the worker that ran the agent was stopped"
            self._recorder.record(task_id, *cut_off(attempt_id, agent_id, "interrupted", message))
        if task_id in self._history.conversations:
            self._history.attempts[task_id] = earlier
            return self._staged.pop(task_id)
        self._history.attempts[task_id] = earlier + attempt - 1
        reason = "the worker that ran the agent was stopped"
        for number in range(earlier + 1, earlier + attempt):
            attempt_id = invocation_id(index, number)
            self._recorder.record(
                task_id,
                self._work.invoker.started(task, attempt_id),
                *cut_off(attempt_id, agent_id, "interrupted", reason),
            )
        return self._staged.pop(task_id)

    def _finished(
        self, task_id: str, attempt: int, lost: list[NewEvent], unjudged: str | None
    ) -> FinishedTask:
        recorded = self._staged.pop(task_id)
        is_answered, error = first_answer(recorded)
        facts = self._history.run_id, task_id, attempt, lost + recorded, len(lost)
        return FinishedTask(*facts, is_answered, error, unjudged)


class AssembledRun:
    """A run in the log, made of what was recorded elsewhere."""

    def __init__(
        self,
        log: EventLog,
        run_id: str,
        opening: Sequence[NewEvent],
        clock: Clock | None = None,
    ) -> None:
        self.run_id = run_id
        self._log = log
        self._clock = clock or SystemClock()
        self._held = ExitStack()  # the sole right to write to the run
        self._held.enter_context(log.claim(run_id))
        self._latest_us = 0
        self._tried: set[str] = set()
        self._failure: RunEnd | None = None
        self.history = history_of(run_id, self._append(opening), log.place)
        plan = self.history.plan
        self._machine = RunMachine[NewEvent](plan, left=len(plan.suite.tasks))
        log.flush(run_id).result()  # a run that nobody would find has no answers to be kept

    def add_task(self, task_id: str, events: Sequence[NewEvent]) -> bool:
        """Add what was recorded for a task; False if the task has its score already."""
        if task_id in self._tried:
            return False
        self._tried.add(task_id)
        if not self._machine.is_answered:
            has_answer, error = first_answer(events)
            for _, verdict in self._machine.answered(error, is_answer=has_answer):
                self.add_cut_off(verdict)
        self.add_cut_off(self._machine.settled(task_id, events, is_done=True))
        self._log.flush(self.run_id).result()
        return True

    def add_cut_off(self, events: Sequence[NewEvent]) -> None:
        """Add what was recorded for a task that was cut off."""
        for event in self._append(events):
            self.history.add(event)

    def fail(self, code: str, message: str) -> None:
        """Remember why the run can have no result; the first reason counts."""
        self._failure = self._failure or run_end(code, message)

    def end(self, reason: str, *, is_cut_off: bool = False) -> Outcome | None:
        """End the run: with its result if every task has a score, else `reason` says why not.

        A run that is cut off has no result: there would have been more tasks.
        """
        history, outcome = self.history, None
        if self._failure is None and not is_cut_off:
            self._failure = self._machine.failure()
        try:
            while still_open := history.open_invocations:  # they were cut off, and may have cost
                attempt_id, (task_id, agent_id) = still_open.popitem()
                message = "the run was cancelled"
                self._write(task_id, cut_off(attempt_id, agent_id, "cancelled", message))
            duration_ms = max(0, self._clock.now_us() - history.started_at_us) // 1000
            if self._failure is not None:
                self._write(None, self._failure.events(duration_ms))
            elif len(history.scored) == len(history.plan.suite.tasks) and not is_cut_off:
                outcome = Outcome.of(history)
                self._write(None, completion(outcome.summary, duration_ms))
            else:
                self._write(None, [RunCancelled(reason, "pytest", duration_ms)])
            self._log.flush(self.run_id).result()
        finally:
            self._held.close()
        return outcome

    @property
    def failure(self) -> str | None:
        """Why the run has no result, if it failed."""
        return self._failure and f"{self._failure.error.code}: {self._failure.error.message}"

    def _write(self, task_id: str | None, payloads: Sequence[Payload]) -> None:
        now, encode = self._clock.now_us(), msgspec.json.encode
        self._append([NewEvent(each.TYPE, task_id, now, encode(each)) for each in payloads])

    def _append(self, events: Sequence[NewEvent]) -> list[Event]:
        """Add events in the order in which they came; time does not run backwards in a log."""
        new = []
        for event in events:
            self._latest_us = max(self._latest_us, event.at_us)
            new.append(event._replace(at_us=self._latest_us))
        if new:
            self._log.append(self.run_id, new)
        # What folds them in looks at everything but their numbers.
        return [
            Event(self.run_id, 0, each.type, each.task_id, each.at_us, each.body) for each in new
        ]
