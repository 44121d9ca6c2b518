"""Executing a run: workers take tasks, everything goes to the log, the end is a summary."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from evalwright.agents.protocol import Agent, Surroundings
from evalwright.contracts import errors
from evalwright.contracts.events import (
    CapBreached,
    ErrorDetail,
    EvalScored,
    Found,
    InvocationCompleted,
    Payload,
    ProviderUsage,
    RunCancelled,
    RunFailure,
)
from evalwright.contracts.run_plan import SCORING_S
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.budget import Overspent, budget_of
from evalwright.engine.checks import SuiteChecker
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.examination import (
    NOTHING_SEEN,
    Examination,
    Seen,
    examine,
    is_long,
)
from evalwright.engine.history import History
from evalwright.engine.invocation import (
    CLAIM_CONTRADICTED,
    Done,
    Invoker,
    TaskAnswer,
    WatchOverTasks,
    error_decision,
    invocation_id,
)
from evalwright.engine.judges import JudgeFailed, Panel, Review, Reviewed
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.verdict import (
    closing,
    no_verdicts,
    nobody_answered,
    reasons_to_fail,
)
from evalwright.engine.workers import run_workers
from evalwright.models.protocol import Model
from evalwright.scoring.thresholds import pass_score
from evalwright.store.protocol import EventLog, EventSink, NewEvent
from evalwright.store.records import RecordChange

if TYPE_CHECKING:
    from evalwright.attacks.derived import Attack
    from evalwright.scoring.checks.base import Answers

AT_RISK_S = 0.02  # of a worker's work that a crash may cost, unless the work was paid for

Announce = Callable[[History], None]  # called with a run that is about to be worked on


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: its summary, the bars it did not reach, and why it must not ship."""

    run_id: str
    plan: Plan
    summary: EvalSummary
    broken_bars: list[str]
    reasons: list[str]

    @classmethod
    def of(cls, history: History) -> "Outcome":
        """The outcome of a run whose tasks all have their scores."""
        plan, tally = history.plan, history.tally
        summary = tally.summary(history.run_id, plan.baseline)
        broken = tally.broken_bars()
        return cls(history.run_id, plan, summary, broken, reasons_to_fail(plan, summary, broken))


class MayGoOn(Protocol):
    """What a run waits for before each task: the end of a pause, its turn among other runs."""

    async def wait(self) -> object:
        """Return when a task may begin."""


class RunResources(msgspec.Struct, frozen=True):
    """What a run has at its disposal besides the agent."""

    surroundings: Surroundings = msgspec.field(default_factory=Surroundings)
    panel: Panel | None = None
    embedder: Model | None = None  # for checks that compare meanings
    may_go_on: MayGoOn | None = None  # waited for before each task
    watch: WatchOverTasks | None = None  # sees the tasks that are worked on


class Execution:
    """One run, from what is recorded of it to its end."""

    def __init__(
        self, log: EventSink, agent: Agent, history: History, clock: Clock, resources: RunResources
    ) -> None:
        self._agent = agent
        self._history = history
        self._plan: Plan = history.plan
        self._may_go_on = resources.may_go_on
        self._clock = clock
        self._redactor = resources.surroundings.redactor
        self._recorder = Recorder(log, history.run_id, clock, self._redactor)
        self._tally = history.tally
        self._answered = bool(history.scored or history.awaiting)
        has_budget = self._plan.settings.max_cost_usd is not None
        self._budget = budget_of(history) if has_budget else None
        self._is_rescored = self._plan.is_recorded  # the answers were paid for before
        self._is_draining = False  # no more tasks are started
        self._withheld: list[tuple[str, list[Payload]]] = []
        self._pending: deque[int] = deque()  # the tasks that nobody works on
        self._first_error: ErrorDetail | None = None
        self._checker = SuiteChecker(self._plan, agent.agent_id, resources, history.repetitions)
        self._review = Review(self._plan, resources.panel, self._checker)
        self._unjudged: list[tuple[str, JudgeFailed]] = []
        # Recorded answers were looked at when they were recorded.
        self._for_signals = self._plan.is_adversarial and not self._is_rescored
        self._attacks: Mapping[str, Attack] = {}
        if self._for_signals:
            import evalwright.engine.findings  # noqa: F401 - so that no task waits for it

            self._attacks = self._plan.attacks
        self._invoker = Invoker(
            agent,
            self._plan.agent,
            self._recorder,
            clock,
            msgspec.structs.replace(
                resources.surroundings, observe=self._plan.settings.observe or "auto"
            ),
            self._plan.settings.task_timeout_s,
            keep_deeds=self._for_signals or self._checker.looks_at_deeds,
            count=self._tally.add_usage,
            has_budget=has_budget,
            watch=resources.watch,
        )

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
            self._tally.add_cut_off(task_id)
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
                is_all_begun = await self._work()
        except TimeoutError:
            if not limit.expired():
                raise
            await self._out_of_time(limit_s or 0)
        except asyncio.CancelledError:
            await self._recorder.flush()  # what was shown as done must be durable
            raise
        is_complete = len(self._tally.results) == len(self._plan.suite.tasks)
        if self._is_draining and not is_complete:
            await self._recorder.flush()
            raise errors.Interrupted("the run was stopped; it can be resumed")
        over = self._budget.overspent(is_complete=is_all_begun) if self._budget else None
        if over is not None:
            await self._fail_for_money(over)
        if not is_complete:
            await self._fail_unfinished()
        return await self._complete()

    async def _work(self) -> bool:
        """Work on tasks; whether all of them were begun."""
        tasks, scored = self._plan.suite.tasks, self._history.scored
        self._pending.extend(n for n, task in enumerate(tasks) if task.task_id not in scored)
        workers = min(self._plan.settings.concurrency or 1, len(tasks))
        await self._recorder.flush()  # a run that nobody would find has no answers to be kept
        try:
            await run_workers(workers, self._worker)
        finally:
            self._checker.close()
        return not self._pending

    async def _worker(self) -> None:
        """Work on tasks; what was paid for or took long is durable before the next one begins."""
        budget, now_s, pending = self._budget, asyncio.get_running_loop().time, self._pending
        safe_at, is_paid = now_s(), False
        while budget is None or await budget.admit():
            if self._may_go_on is not None:
                await self._may_go_on.wait()
            index = pending.popleft() if pending and not self._is_draining else None
            if index is not None and (is_paid or now_s() - safe_at >= AT_RISK_S):
                await self._recorder.flush()
                safe_at = now_s()
            answer = None if index is None else await self._work_on(index)
            if budget is not None:
                budget.release()
            if answer is None:
                break
            # An agent in another process may have called a model.
            is_paid = (bool(answer.usages) or self._agent.is_outside) and not self._is_rescored

    async def _work_on(self, index: int) -> TaskAnswer:
        task = self._plan.suite.tasks[index]
        waiting = self._history.awaiting.get(task.task_id)
        if waiting:
            answer = waiting.pop(0)
        else:
            attempt = self._history.attempts.get(task.task_id, 0) + 1
            repetition = self._checker.repetition(task)
            attempt_id = invocation_id(index, attempt, repetition)
            still_open = self._history.open_invocations
            still_open[attempt_id] = (task.task_id, self._agent.agent_id)
            if attempt > 1 or self._budget is not None:  # which counts the cost of one attempt
                self._tally.start_again(task.task_id)
            done = await self._invoker.invoke(task, attempt_id)
            del still_open[attempt_id]
            if self._take(done, index):
                return done.answer
            answer = done.answer
        await self._judge(answer, index)
        return answer

    def _take(self, done: Done, index: int) -> bool:
        """Record the end of an invocation; and its score, unless that takes long, or judges.

        While no invocation has been answered, scores are held back: should all of them fail, the
        agent was not there to be scored, and a resumed run asks it again.
        """
        answer, task_id = done.answer, done.answer.task.task_id
        if answer.error is None:
            self._tally.add_answer(task_id, answer.coverage)
        self._first_error = self._first_error or answer.error
        has_answered = answer.error is None or answer.error.code == CLAIM_CONTRADICTED
        if has_answered and not self._answered:
            self._answered = True
            for withheld_id, verdict in self._withheld:
                self._write(withheld_id, [], verdict)
            self._withheld.clear()
        is_later = self._review.is_due(answer)
        if is_long(answer, for_signals=self._for_signals):
            self._recorder.record(task_id, *done.closing)  # whoever resumes the run has the answer
            return False
        checks = () if is_later else self._checker.checks_of(answer.task)
        seen = NOTHING_SEEN
        if not is_later or self._for_signals:
            seen = examine(self._examination(answer, {}, for_signals=self._for_signals), checks)
        ending = done.closing + self._found(task_id, seen)
        if is_later:
            self._recorder.record(task_id, *ending)
            return False
        self._settle(answer, index, ending, seen)
        return True

    def _examination(
        self, answer: TaskAnswer, told: "Answers", *, for_signals: bool
    ) -> Examination:
        attack = self._attacks.get(answer.task.task_id)
        mark = attack and attack.mark
        enough = pass_score(self._plan.suite.thresholds)
        return Examination(answer, self._agent.agent_id, told, for_signals, mark, enough)

    def _found(self, task_id: str, seen: Seen) -> list[Payload]:
        """Count the signals that were found, and return what is recorded of them."""
        self._tally.add_findings(task_id, seen.findings)
        return [Found("signals", seen.findings)] if seen.findings else []

    def _settle(
        self,
        answer: TaskAnswer,
        index: int,
        ending: Sequence[Payload],
        seen: Seen,
    ) -> None:
        """Record what an answer comes to; a task with repetitions left goes on."""
        task_id = answer.task.task_id
        findings = self._tally.findings(task_id)
        verdict = self._checker.verdict(answer, seen, findings)
        if self._answered:
            self._write(task_id, ending, verdict)
        else:
            self._recorder.record(task_id, *ending)
            self._withheld.append((task_id, verdict))
        if not isinstance(verdict[-1], EvalScored):
            self._history.attempts[task_id] = 0
            self._pending.appendleft(index)

    def _write(self, task_id: str, ending: Sequence[Payload], verdict: Sequence[Payload]) -> None:
        """Count and record a verdict, as one unit with what comes before it."""
        if isinstance(last := verdict[-1], EvalScored):
            self._tally.add_score(last)
        else:
            self._history.end_repetition(task_id)
        self._recorder.record(task_id, *ending, *verdict)

    async def _judge(self, answer: TaskAnswer, index: int) -> None:
        """Ask the judges, and look at the answer: elsewhere, if that may take long.

        A task that judges give no verdict on stays without a score.
        """
        task_id = answer.task.task_id

        def count(usage: ProviderUsage) -> None:
            self._tally.add_usage(usage, task_id, is_verdict=True)
            answer.usages.append(usage)

        known, reviewed = self._history.judged.get(task_id, ()), Reviewed()
        try:
            if self._review.is_due(answer):
                record = self._recorder.for_task(task_id, count)
                reviewed = await self._review.judge(answer, known, record)
        except JudgeFailed as failure:
            self._unjudged.append((task_id, failure))
            return
        found: list[Payload] = []
        if is_long(answer, for_signals=self._for_signals):
            from evalwright.engine.scoring_pool import scoring_pool  # answers are seldom that long

            examination = self._examination(answer, reviewed.told, for_signals=self._for_signals)
            origin, limit_s = self._plan.origin, self._plan.settings.scoring_s or SCORING_S
            share = origin.owner.tenant if origin is not None else ""
            await self._recorder.flush()  # no answer is lost meanwhile
            seen = await scoring_pool().examine(share, examination, limit_s)
            found = self._found(task_id, seen)
        else:
            checks = self._checker.checks_of(answer.task)
            seen = examine(self._examination(answer, reviewed.told, for_signals=False), checks)
        if said := list(reviewed.findings):
            self._tally.add_findings(task_id, said)
            found.append(Found("judge", said))
        self._settle(answer, index, found, seen)

    async def _complete(self) -> Outcome:
        outcome = Outcome.of(self._history)
        await self._recorder.flush(*closing(outcome.summary, self._duration_ms()))
        return outcome

    async def _fail_unfinished(self) -> None:
        if not self._answered:
            first = self._first_error.message if self._first_error else "unknown"
            message = nobody_answered(self._plan.agent, len(self._withheld), first)
            await self._fail("agent_unavailable", message)
        unjudged = [(task_id, failure.message) for task_id, failure in self._unjudged]
        error = no_verdicts(unjudged, len(self._plan.suite.tasks))
        await self._fail(error.code, error.message, error.details)

    async def _fail_for_money(self, over: Overspent) -> None:
        if over.code == "budget_exhausted":
            self._recorder.record(
                None, CapBreached("budget-cost", over.limit_usd, over.observed_usd)
            )
        await self._fail(over.code, over.message)

    async def _out_of_time(self, limit_s: float) -> None:
        message = f"the run took longer than {limit_s:g} s"
        self._close_open("run_timeout", message)
        limit_ms = limit_s * 1000
        observed = max(limit_ms, self._duration_ms())  # the clock of the day may be set back
        self._recorder.record(None, CapBreached("run-duration", limit_ms, observed))
        await self._fail("run_timeout", message)

    async def _fail(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        message = self._redactor.redact_text(message)
        error = ErrorDetail(code, message, details, retryable=True)
        await self._recorder.flush(RunFailure(error, self._duration_ms()))
        raise errors.RunFailed(self._recorder.run_id, code, message)

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
        execution = Execution(log, agent, history, clock, resources or RunResources())
        execution.open()
        return await execution.run()
