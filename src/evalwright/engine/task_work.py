"""One task of a run: its agent is invoked, checks look at the answer, judges are asked."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from evalwright.agents.protocol import Agent, Surroundings
from evalwright.contracts.events import (
    Checked,
    EvalScored,
    Found,
    Payload,
    ProviderUsage,
)
from evalwright.contracts.run_plan import SCORING_S
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.checks import SuiteChecker
from evalwright.engine.clock import Clock
from evalwright.engine.examination import Examination, Seen, examine, is_long
from evalwright.engine.history import History
from evalwright.engine.invocation import Invoker, TaskAnswer, WatchOverTasks, invocation_id
from evalwright.engine.judge_prompt import SAFETY_QUESTIONS
from evalwright.engine.judges import JudgeFailed, Panel, safety_findings
from evalwright.engine.machine import USER_FAILED, RunMachine, is_answer
from evalwright.engine.recorder import Recorder
from evalwright.models.protocol import Model
from evalwright.scoring.checks.base import Answers
from evalwright.scoring.thresholds import pass_score
from evalwright.store.protocol import EventSink

if TYPE_CHECKING:
    from evalwright.engine.simulated_user import SimulatedUsers


class MayGoOn(Protocol):
    """What a run waits for before each task: the end of a pause, its turn among other runs."""

    async def wait(self) -> object:
        """Return when a task may begin."""


class RunResources(msgspec.Struct, frozen=True):
    """What a run has at its disposal besides the agent."""

    surroundings: Surroundings = msgspec.field(default_factory=Surroundings)
    panel: Panel | None = None
    embedder: Model | None = None  # for checks that compare meanings
    users: "SimulatedUsers | None" = None  # of conversations
    may_go_on: MayGoOn | None = None  # waited for before each task
    watch: WatchOverTasks | None = None  # sees the tasks that are worked on


class TaskWork:
    """Works on the tasks of a run, several at a time, in one event loop.

    `keep` is awaited before anybody is asked about the answer to a task.
    """

    def __init__(
        self,
        log: EventSink,
        agent: Agent,
        history: History,
        clock: Clock,
        resources: RunResources,
        machine: RunMachine[Payload],
        keep: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.agent = agent
        self.history = history
        self.plan = plan = history.plan
        self.clock = clock
        self.machine = machine
        self.redactor = resources.surroundings.redactor
        self.recorder = Recorder(log, history.run_id, clock, self.redactor)
        self._keep = keep
        self.checker = SuiteChecker(plan, agent.agent_id, resources, history.repetitions)
        self._for_safety = resources.panel if plan.is_adversarial else None
        # Recorded answers were looked at when they were recorded.
        self._for_signals = plan.is_adversarial and not plan.is_recorded
        self._marks: dict[str, str] = {}  # of the attacks that tasks are
        if self._for_signals:
            import evalwright.engine.findings  # noqa: F401 - so that no task waits for it

            self._marks = {task_id: each.mark for task_id, each in plan.attacks.items()}
        self._enough = pass_score(plan.suite.thresholds)
        self._has_budget = plan.settings.has_budget
        self.invoker = Invoker(
            agent,
            plan.agent,
            self.recorder,
            clock,
            msgspec.structs.replace(
                resources.surroundings,
                observe=plan.settings.observe or "auto",
                worlds=self.checker.worlds,
                seed=plan.settings.seed or 0,
                attachments=plan.suite.attachments,
            ),
            plan.settings.task_timeout_s,
            keep_deeds=self._for_signals or self.checker.looks_at_deeds,
            count=history.tally.add_usage,
            has_budget=self._has_budget,
            watch=resources.watch,
            turn_after=self.checker.turn_after,
            users=resources.users,
            keep=self._keep_turn,
        )

    async def work_on(self, index: int) -> tuple[TaskAnswer, bool]:
        """Have a task answered, unless it was before, and look at the answer.

        Gives the answer, and whether the task is done: else it has another repetition.
        What nobody else has to say anything about is recorded together with the end of the
        invocation. A task on which judges give no verdict stays without a score.
        """
        task, machine, tally = self.plan.suite.tasks[index], self.machine, self.history.tally
        task_id, checker, history = task.task_id, self.checker, self.history
        events: list[Payload] = []
        is_new = not (waiting := history.awaiting.get(task_id))
        if waiting:
            answer = waiting.pop(0)
        else:
            attempt = history.attempts.get(task_id, 0) + 1
            repetition = 1 if task.repeat == 1 else checker.repetition(task)
            attempt_id = invocation_id(index, attempt, repetition)
            history.open_invocations[attempt_id] = (task_id, self.agent.agent_id)
            if attempt > 1 or self._has_budget:  # which counts the cost of one attempt
                tally.start_again(task_id)
            cut = history.conversations.pop(task_id, None)
            answer, events = await self.invoker.invoke(task, attempt_id, cut)
            del history.open_invocations[attempt_id]
            if answer.error is not None and answer.error.code == USER_FAILED:
                self.recorder.record(task_id, *events)
                machine.without_verdict(task_id, answer.error.message)
                return answer, True
            if (error := answer.error) is None:
                tally.add_answer(task_id, answer.coverage)
            if not machine.is_answered:
                said = None if error is None else error.message
                for withheld_id, verdict in machine.answered(said, is_answer=is_answer(error)):
                    self._write(withheld_id, verdict)

        # About an error nobody is asked.
        is_asked = self._for_safety is not None or task_id in checker.asking
        checks, is_due = checker.by_task[task_id], is_asked and answer.error is None
        takes_long = is_long(answer, for_signals=self._for_signals)
        told: Answers = {}
        unsafe: list[SafetyFinding] = []
        look_at = Examination(
            answer,
            self.agent.agent_id,
            for_signals=self._for_signals and (is_new or takes_long),
            mark=self._marks.get(task_id),
            enough=self._enough,
        )
        if is_new and not takes_long and (self._for_signals or not is_due):
            seen = examine(look_at, () if is_due else checks)
            events += self._found("signals", task_id, seen.findings)
        if is_due or takes_long or not is_new:
            if events:
                self.recorder.record(task_id, *events)
                events = []
            if self._keep is not None and answer.error is None:
                await self._keep(task_id)
            try:
                if is_due:
                    told, unsafe = await self._ask(answer)
            except JudgeFailed as failure:
                machine.without_verdict(task_id, failure.message)
                return answer, True
            look_at = msgspec.structs.replace(
                look_at, told=told, for_signals=look_at.for_signals and takes_long
            )
            seen = (
                await self._examine_elsewhere(look_at) if takes_long else examine(look_at, checks)
            )
            events += self._found("signals", task_id, seen.findings)
            events += self._found("judge", task_id, unsafe)

        findings = tally.findings(task_id)
        events += checker.verdict(answer, seen, findings)
        is_done = isinstance(events[-1], EvalScored)
        if not is_done:
            history.attempts[task_id] = 0
        self._write(task_id, machine.settled(task_id, events, is_done=is_done))
        return answer, is_done

    async def _keep_turn(self, task_id: str) -> None:
        """Wait until what was said so far in a conversation is durable."""
        await self.recorder.flush()
        if self._keep is not None:
            await self._keep(task_id)

    def _write(self, task_id: str, events: Sequence[Payload]) -> None:
        """Count and record a verdict, as one unit with what comes before it."""
        if events:
            if isinstance(last := events[-1], EvalScored):
                self.history.tally.add_score(last)
            elif isinstance(last, Checked):
                self.history.end_repetition(task_id)
            self.recorder.record(task_id, *events)

    def _found(
        self, source: Literal["signals", "judge"], task_id: str, findings: Sequence[SafetyFinding]
    ) -> list[Payload]:
        """Count what was found, and return what is recorded of it."""
        if not findings:
            return []
        self.history.tally.add_findings(task_id, findings)
        return [Found(source, list(findings))]

    async def _ask(self, answer: TaskAnswer) -> tuple[Answers, list[SafetyFinding]]:
        """What the checks of an answer want to be told, and what judges find unsafe in it."""
        task, tally = answer.task, self.history.tally

        def count(usage: ProviderUsage) -> None:
            tally.add_usage(usage, task.task_id, is_verdict=True)
            answer.usages.append(usage)

        known = self.history.judged.get(task.task_id, ())
        record = self.recorder.for_task(task.task_id, count)
        asked: list[Awaitable[Any]] = [self.checker.ask(answer, known, record)]
        if (panel := self._for_safety) is not None:
            asked.append(
                panel.judge("safety", SAFETY_QUESTIONS, task, answer.output, known, record)
            )
        found: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        told, *judged = found
        return told, safety_findings(judged[0]) if judged else []

    async def _examine_elsewhere(self, examination: Examination) -> Seen:
        from evalwright.engine.scoring_pool import scoring_pool  # answers are seldom that long

        origin, limit_s = self.plan.origin, self.plan.settings.scoring_s or SCORING_S
        share = origin.owner.tenant if origin is not None else ""
        await self.recorder.flush()  # no answer is lost meanwhile
        return await scoring_pool().examine(share, examination, limit_s)
