"""Piecework: a run whose tasks are worked on one at a time, when and where somebody says so.

pytest decides which task is next, and in which process. So a process works on single tasks and
hands over what they recorded (`Piecework`); one process takes all of it into the log as one run,
and ends that (`AssembledRun`). The log cannot tell it from a run that was executed at once.
"""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    InvocationCompleted,
    Payload,
    ProviderUsage,
    RunCancelled,
    RunFailure,
)
from evalwright.engine.clock import Clock, SystemClock
from evalwright.engine.execution import Execution, Outcome, RunResources
from evalwright.engine.history import History, history_of
from evalwright.engine.invocation import error_decision
from evalwright.engine.plan import Plan
from evalwright.engine.verdict import closing, nobody_answered
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

_VERDICTS = (Checked.TYPE, EvalScored.TYPE)


class StagedEvents:
    """Events on their way to another process, in the place of a log."""

    backlog = 0

    def __init__(self) -> None:
        self._events: list[NewEvent] = []
        self._change = threading.Lock()  # agents record in threads of their own

    def append(
        self,
        run_id: str,  # noqa: ARG002 - of a sink
        events: Sequence[NewEvent],
        changes: Sequence[RecordChange] = (),  # noqa: ARG002 - a run of tests has no documents
    ) -> None:
        """Keep events, in order."""
        with self._change:
            self._events += events

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Keep events like any others."""
        self.append(run_id, events)

    def request(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> "Future[None]":
        """Keep events like any others."""
        self.append(run_id, events, changes)
        return self.flush(run_id)

    def flush(self, run_id: str) -> "Future[None]":  # noqa: ARG002 - of a sink
        """Nothing waits."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def take(self) -> list[NewEvent]:
        """What came since this was last asked."""
        with self._change:
            events, self._events = self._events, []
        return events


class Piecework(Execution):
    """Works on single tasks of a run; made and used in one event loop."""

    def __init__(self, agent: Agent, plan: Plan, run_id: str, resources: RunResources) -> None:
        self._staged = StagedEvents()
        clock = SystemClock()
        super().__init__(
            self._staged, agent, History(run_id, plan, clock.now_us()), clock, resources
        )
        self._answered = True  # whether anybody answered is known to whoever has all answers

    def opening_events(self) -> list[NewEvent]:
        """What the run begins with."""
        self.open()
        return self._staged.take()

    async def work_on(self, index: int) -> None:
        """Work on a task until it has its score; raises `RunFailed` if it gets none."""
        if self._budget is not None and not await self._budget.admit():
            over = self._budget.overspent(is_complete=False)
            assert over is not None
            raise self._without_result(over.code, over.message)
        self._pending.append(index)
        try:
            while self._pending:
                await self._work_on(self._pending.popleft())
        finally:
            self._pending.clear()
            if self._budget is not None:
                self._budget.release()
        if self._unjudged:
            task_id, failure = self._unjudged.pop()
            message = f"task {task_id} has no verdict: {failure.message}"
            raise self._without_result("judge_failed", message)

    def _without_result(self, code: str, message: str) -> RunFailed:
        return RunFailed(self._recorder.run_id, code, self._redactor.redact_text(message))

    def count_elsewhere(self, task_id: str, usage: ProviderUsage) -> None:
        """Count what another process has spent on the same run."""
        self._tally.add_usage(usage, task_id)

    def recorded(self) -> list[NewEvent]:
        """The events since this was last asked."""
        return self._staged.take()

    def end(self) -> None:
        """Let go of what the checks of the run hold."""
        self._checker.close()


class _NoResult(NamedTuple):
    """Why a run has no result."""

    code: str
    message: str


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
        self._withheld: list[NewEvent] = []  # verdicts, while nobody has answered
        self._answered = False
        self._first_error = "unknown"
        self._tried: set[str] = set()
        self._failure: _NoResult | None = None
        events = self._append(opening)
        self.history = history_of(run_id, events, log.place)
        log.flush(run_id).result()  # a run that nobody would find has no answers to be kept

    def take(self, task_id: str, events: Sequence[NewEvent]) -> bool:
        """Add what was recorded for a task; False if the task has its score already."""
        if task_id in self._tried:
            return False
        self._tried.add(task_id)
        verdicts = [event for event in events if event.type in _VERDICTS]
        if self._answered or self._is_answered(events):
            self._answered = True
            withheld, self._withheld = self._withheld, []
            self._record(withheld)
            self._record(events)
        else:
            self._record([event for event in events if event.type not in _VERDICTS])
            self._withheld += verdicts
        self._log.flush(self.run_id).result()
        return True

    def take_rest(self, events: Sequence[NewEvent]) -> None:
        """Add what was recorded for a task that was cut off."""
        self._record(events)

    def fail(self, code: str, message: str) -> None:
        """Remember why the run can have no result; the first reason counts."""
        self._failure = self._failure or _NoResult(code, message)

    def end(self, reason: str, *, is_cut_off: bool = False) -> Outcome | None:
        """End the run: with its result if every task has a score, else `reason` says why not.

        A run that is cut off has no result: there would have been more tasks.
        """
        history, tasks = self.history, self.history.plan.suite.tasks
        is_done = len(self._tried) == len(tasks) and not is_cut_off
        if self._failure is None and not self._answered and is_done:
            message = nobody_answered(history.plan.agent, len(tasks), self._first_error)
            self._failure = _NoResult("agent_unavailable", message)
        outcome = None
        try:
            self._close_open()
            if self._failure is not None:
                error = ErrorDetail(*self._failure, retryable=True)
                self._write(None, RunFailure(error, self._duration_ms()))
            elif len(history.scored) == len(tasks) and not is_cut_off:
                outcome = Outcome.of(history)
                self._write(None, *closing(outcome.summary, self._duration_ms()))
            else:
                self._write(None, RunCancelled(reason, "pytest", self._duration_ms()))
            self._log.flush(self.run_id).result()
        finally:
            self._held.close()
        return outcome

    @property
    def failure(self) -> str | None:
        """Why the run has no result, if it failed."""
        return self._failure and f"{self._failure.code}: {self._failure.message}"

    def _is_answered(self, events: Iterable[NewEvent]) -> bool:
        is_answered, error = first_answer(events)
        if error is not None and self._first_error == "unknown":
            self._first_error = error
        return is_answered

    def _close_open(self) -> None:
        """End invocations that were cut off, and may have cost."""
        error = ErrorDetail("cancelled", "the run was cancelled")
        while still_open := self.history.open_invocations:
            attempt_id, (task_id, agent_id) = still_open.popitem()
            completed = InvocationCompleted(attempt_id, agent_id, "failed")
            self._write(task_id, error_decision(agent_id, error), completed)

    def _record(self, events: Sequence[NewEvent]) -> None:
        for event in self._append(events):
            self.history.take(event)

    def _write(self, task_id: str | None, *payloads: Payload) -> None:
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

    def _duration_ms(self) -> int:
        return max(0, self._clock.now_us() - self.history.started_at_us) // 1000


def first_answer(events: Iterable[NewEvent]) -> tuple[bool, str | None]:
    """Whether an invocation in these events was answered, and the first error before that."""
    decision, error = None, None
    for event in events:
        if event.type == Decided.TYPE:
            decision = msgspec.json.decode(event.body, type=Decided).decision
        elif event.type == InvocationCompleted.TYPE:
            if msgspec.json.decode(event.body, type=InvocationCompleted).outcome != "failed":
                return True, error
            if error is None and decision:
                error = str(decision["error"]["message"])
    return False, error
