"""Executing a run in this process: workers take tasks, everything goes to the log."""

import asyncio
from collections.abc import Callable, Sequence

from evalwright.agents.protocol import Agent
from evalwright.contracts import errors
from evalwright.contracts.events import Payload, RunCancelled
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.history import History
from evalwright.engine.invocation import AT_RISK_S
from evalwright.engine.machine import RunEnd, RunMachine, completion, cut_off, out_of_time
from evalwright.engine.plan import Plan
from evalwright.engine.task_work import RunResources, TaskWork
from evalwright.engine.verdict import Outcome
from evalwright.engine.workers import run_workers
from evalwright.store.protocol import EventLog, EventSink, NewEvent
from evalwright.store.records import RecordChange

Announce = Callable[[History], None]  # called with a run that is about to be worked on


class Runner:
    """Executes one run, from what is recorded of it to its end."""

    def __init__(
        self, log: EventSink, agent: Agent, history: History, clock: Clock, resources: RunResources
    ) -> None:
        plan, scored = history.plan, history.scored
        self._history = history
        self._plan = plan
        self._clock = clock
        self._agent = agent
        self._may_go_on = resources.may_go_on
        self._machine = RunMachine[Payload](
            plan,
            pending=[n for n, task in enumerate(plan.suite.tasks) if task.task_id not in scored],
            is_answered=bool(scored or history.awaiting),
            spending=history.tally.spending,
        )
        history.tally.spending.is_cost_known = bool(scored)
        self._work = TaskWork(log, agent, history, clock, resources, self._machine)
        self._recorder = self._work.recorder
        self._is_draining = False  # no more tasks are started
        self._ended = asyncio.Event()  # a task, since somebody waited for that

    def open(self, resumed_from: str | None = None, facts: Sequence[NewEvent] = ()) -> None:
        """Write the frame that every run begins with, and the facts it takes over from another."""
        self._recorder.record(None, *self._plan.opening(resumed_from), facts=facts)

    async def create(self, facts: Sequence[NewEvent], changes: Sequence[RecordChange]) -> None:
        """Write the same, soon or not at all, and wait until it is durable.

        Changes of documents that go with the run are written together with it, or not at all.
        """
        await self._recorder.create(self._plan.opening(), facts, changes)

    async def cancel(self, reason: str | None, cancelled_by: str | None) -> None:
        """End a run that is given up; nothing of it may be at work any more."""
        self._close_open("cancelled", "the run was cancelled")
        await self._recorder.flush(RunCancelled(reason, cancelled_by, self._duration_ms()))

    async def settle(self) -> None:
        """Wait until what was written is durable."""
        await self._recorder.flush()

    def drain(self) -> None:
        """Start no more tasks: `run` raises `Interrupted` unless those in progress are the last."""
        self._is_draining = True

    def close_interrupted(self) -> None:
        """End the invocations that a stopped process left open: they failed, and may have cost."""
        for task_id, _ in self._history.open_invocations.values():
            self._history.tally.add_cut_off(task_id)
        self._close_open("interrupted", "the process that ran the agent was stopped")

    def _close_open(self, code: str, message: str) -> None:
        still_open = self._history.open_invocations
        while still_open:
            attempt_id, (task_id, agent_id) = still_open.popitem()
            self._recorder.record(task_id, *cut_off(attempt_id, agent_id, code, message))

    async def run(self) -> Outcome:
        """Work on every task that has no score, then end the run."""
        tasks, limit_s = self._plan.suite.tasks, self._plan.settings.run_timeout_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                await self._recorder.flush()  # a run that nobody would find has no answers to keep
                count = min(self._plan.settings.concurrency or 1, len(tasks))
                await run_workers(count, self._worker)
        except TimeoutError:
            if not limit.expired():
                raise
            end = out_of_time(limit_s or 0, self._duration_ms())
            self._close_open(end.error.code, end.error.message)
            await self._fail(end)
        except asyncio.CancelledError:
            await self._recorder.flush()  # what was shown as done must be durable
            raise
        finally:
            self._work.checker.close()
        if self._is_draining and len(self._history.tally.results) < len(tasks):
            await self._recorder.flush()
            raise errors.Interrupted("the run was stopped; it can be resumed")
        if (failure := self._machine.failure()) is not None:
            await self._fail(failure)
        outcome = Outcome.of(self._history)
        await self._recorder.flush(*completion(outcome.summary, self._duration_ms()))
        return outcome

    async def _worker(self) -> None:
        """Work on tasks; what was paid for or took long is durable before the next one begins."""
        machine, now_s = self._machine, asyncio.get_running_loop().time
        safe_at, is_paid = now_s(), False
        while True:
            if self._may_go_on is not None:
                await self._may_go_on.wait()
            index = None if self._is_draining else machine.begin()
            if index is not None:
                if is_paid or now_s() - safe_at >= AT_RISK_S:
                    await self._recorder.flush()
                    safe_at = now_s()
                answer, is_done = await self._work.work_on(index)
                machine.ended(index, is_done=is_done)
                self._ended.set()
                # An agent in another process may have called a model.
                may_cost = bool(answer.usages) or self._agent.is_outside
                is_paid = may_cost and not self._plan.is_recorded
            elif machine.pending and machine.at_work and not self._is_draining:
                self._ended.clear()  # it may leave room within the budget
                await self._ended.wait()
            else:
                break

    async def _fail(self, end: RunEnd) -> None:
        error = end.error
        message = self._work.redactor.redact_text(error.message)
        await self._recorder.flush(*end.events(self._duration_ms()))
        raise errors.RunFailed(self._history.run_id, error.code, end.said or message)

    def _duration_ms(self) -> int:
        return max(0, self._clock.now_us() - self._history.started_at_us) // 1000


async def start_run(
    log: EventLog,
    agent: Agent,
    plan: Plan,
    announce: Announce = lambda _: None,
    clock: Clock | None = None,
    resources: RunResources | None = None,
) -> Outcome:
    """Execute a new run."""
    clock = clock or SystemClock()
    history = History(new_run_id(clock), plan, clock.now_us())
    with log.claim(history.run_id):
        announce(history)
        runner = Runner(log, agent, history, clock, resources or RunResources())
        runner.open()
        return await runner.run()
