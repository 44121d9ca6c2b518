"""Executing a run: workers take tasks, everything goes to the log, the end is a summary."""

import asyncio
from collections.abc import Sequence

import msgspec

from evalwright import __version__
from evalwright.agents.protocol import Agent
from evalwright.contracts import errors
from evalwright.contracts.events import (
    CapBreached,
    ErrorDetail,
    EvalCompleted,
    EvalScored,
    InvocationCompleted,
    ProviderUsage,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.clock import Clock
from evalwright.engine.history import History
from evalwright.engine.invocation import Done, error_decision, invocation_id, invoke
from evalwright.engine.plan import Plan
from evalwright.engine.queue import LocalQueue, TaskQueue
from evalwright.engine.recorder import Recorder
from evalwright.store.protocol import EventLog, NewEvent

YIELD_EVERY = 32  # tasks after which a worker that never waits lets others have their turn


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: its summary, and in words why it did not pass."""

    run_id: str
    summary: EvalSummary
    broken_bars: list[str]


class Execution:
    """One run, from where its history stands to its end."""

    def __init__(self, log: EventLog, agent: Agent, history: History, clock: Clock) -> None:
        self._agent = agent
        self._history = history
        self._plan: Plan = history.plan
        self._clock = clock
        self._recorder = Recorder(log, history.run_id, clock)
        self._tally = history.tally
        self._answered = bool(history.scored)
        self._withheld: list[EvalScored] = []
        self._first_error: ErrorDetail | None = None

    def open(self, resumed_from: str | None = None, facts: Sequence[NewEvent] = ()) -> None:
        """Write the frame that every run begins with, and the facts it takes over from another."""
        plan = self._plan
        started = RunStarted(
            workflow_id=plan.suite.suite_id,
            inputs={
                "evalSuiteRef": f"{plan.suite.suite_id}@{plan.suite.version}",
                "agentId": plan.agent.agent_id,
                "evalModes": plan.modes,
            },
            engine_version=__version__,
            tags=plan.tags or None,
            metadata={"resumedFrom": resumed_from} if resumed_from else None,
        )
        self._recorder.open([started, plan.eval_started(), plan.planned()], facts)

    async def settle(self) -> None:
        """Wait until what was written is durable."""
        await self._recorder.flush()

    def close_interrupted(self) -> None:
        """End the invocations that a stopped process left open: they failed."""
        self._close_open("interrupted", "the process that ran the agent was stopped")

    def _close_open(self, code: str, message: str) -> None:
        error, still_open = ErrorDetail(code, message), self._history.open_invocations
        while still_open:
            attempt_id, (task_id, agent_id) = still_open.popitem()
            self._recorder.record(
                task_id,
                error_decision(agent_id, error),
                InvocationCompleted(attempt_id, agent_id, "failed"),
            )

    async def run(self) -> Outcome:
        """Work on every task that has no score, then end the run."""
        limit_s = self._plan.settings.run_timeout_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                await self._work()
        except TimeoutError:
            if not limit.expired():
                raise
            await self._out_of_time(limit_s or 0)
        except asyncio.CancelledError:
            await self._recorder.flush()  # what was shown as done must be durable
            raise
        if not self._answered:
            await self._fail("agent_unavailable", self._unavailable_message())
        return await self._complete()

    async def _work(self) -> None:
        pending = LocalQueue(
            index
            for index, task in enumerate(self._plan.suite.tasks)
            if task.task_id not in self._history.scored
        )
        workers = [
            asyncio.create_task(self._worker(pending))
            for _ in range(self._plan.settings.concurrency)
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self, pending: TaskQueue) -> None:
        while (index := await pending.take()) is not None:
            self._take(await self._invoke(index))
            await self._recorder.keep_pace()
            if index % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _invoke(self, index: int) -> Done:
        task = self._plan.suite.tasks[index]
        attempt_id = invocation_id(index, self._history.attempts.get(task.task_id, 0) + 1)
        still_open = self._history.open_invocations
        still_open[attempt_id] = (task.task_id, self._agent.agent_id)
        timeout_s = self._plan.settings.task_timeout_s
        done = await invoke(self._agent, task, attempt_id, self._recorder, timeout_s, self._clock)
        del still_open[attempt_id]
        return done

    def _take(self, done: Done) -> None:
        """Record the end of an invocation, and its score as soon as scores may be recorded.

        While no invocation has been answered, scores are held back: should all of them fail, the
        agent was not there to be scored, and a resumed run asks it again.
        """
        for payload in done.closing:
            if isinstance(payload, ProviderUsage):
                self._tally.add_usage(payload)
        task_id = done.scored.task_id
        self._first_error = self._first_error or done.error
        if done.error is None and not self._answered:
            self._answered = True
            self._release_withheld()
        if not self._answered:
            self._recorder.record(task_id, *done.closing)
            self._withheld.append(done.scored)
            return
        self._recorder.record(task_id, *done.closing, done.scored)
        self._tally.add_score(done.scored)

    def _release_withheld(self) -> None:
        for scored in self._withheld:
            self._recorder.record(scored.task_id, scored)
            self._tally.add_score(scored)
        self._withheld.clear()

    async def _complete(self) -> Outcome:
        summary = self._tally.summary()
        self._recorder.record(
            None,
            EvalCompleted(
                summary.aggregate_score, summary.passed, summary.task_count, summary.passed_count
            ),
            RunCompleted({"evalSummary": summary}, self._duration_ms()),
        )
        await self._recorder.flush()
        return Outcome(self._recorder.run_id, summary, self._tally.broken_bars())

    async def _out_of_time(self, limit_s: float) -> None:
        message = f"the run took longer than {limit_s:g} s"
        self._close_open("run_timeout", message)
        observed = self._duration_ms()
        self._recorder.record(None, CapBreached("run-duration", limit_s * 1000, observed))
        await self._fail("run_timeout", message)

    async def _fail(self, code: str, message: str) -> None:
        error = ErrorDetail(code, message, retryable=True)
        self._recorder.record(None, RunFailed(error, self._duration_ms()))
        await self._recorder.flush()
        raise errors.RunFailed(self._recorder.run_id, code, message)

    def _unavailable_message(self) -> str:
        first = self._first_error
        return (
            f"agent {self._agent.agent_id} ({self._agent.ref}) failed in all "
            f"{len(self._withheld)} invocations; the first: {first.message if first else 'unknown'}"
        )

    def _duration_ms(self) -> int:
        return max(0, self._clock.now_us() - self._history.started_at_us) // 1000
