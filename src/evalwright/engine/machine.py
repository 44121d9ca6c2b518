"""The rules of a run: from what happened to what is appended, what may begin, and how it ends.

Pure: nothing here reads a log or a clock, and nothing waits. Three drivers do that. `runner`
executes a run in one process; `single_task` works task by task, where pytest or a worker says so,
and assembles the run that processes of pytest recorded; `fleet.endings` writes what workers did,
and keeps what is here in the database between two transactions.

- A task is begun, answered, and has a verdict; one that is repeated is begun again until its last
  verdict is its score. A task on which judges fail has ended without one.
- While no invocation has been answered, verdicts are held back: should all of them fail, the agent
  was not there to be scored, and whoever goes on with the run asks it again.
- A budget is a ceiling: a task begins only if what the run may then cost is within it.
- A run ends when nothing is at work and no task is left, or none may begin.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

import msgspec

from evalwright.contracts.events import (
    CapBreached,
    CapKind,
    Checked,
    Decided,
    ErrorDetail,
    EvalCompleted,
    EvalScored,
    InvocationCompleted,
    Payload,
    RunCompleted,
    RunFailure,
)
from evalwright.contracts.messages import IN_LOGS, OptionText, phrase
from evalwright.contracts.run_plan import ON_THE_WIRE
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.plan import Plan
from evalwright.scoring.summary import RunSpending
from evalwright.scoring.thresholds import decimal_sum, finite
from evalwright.store.protocol import NewEvent

CLAIM_CONTRADICTED = "claim_contradicted"  # the agent answered, but is not as claimed
USER_FAILED = "user_failed"  # the simulated user, for which the agent is not to blame
_VERDICTS = (Checked.TYPE, EvalScored.TYPE)

E = TypeVar("E", Payload, NewEvent)  # events as a driver has them: still to be encoded, or not


class RunMachine(Generic[E]):
    """One run, as far as its rules need to know it."""

    def __init__(
        self,
        plan: Plan,
        *,
        pending: Iterable[int] = (),
        left: int | None = None,
        is_answered: bool = False,
        first_error: str | None = None,
        spending: RunSpending | None = None,
    ) -> None:
        self._plan = plan
        self.pending = deque(pending)  # tasks that nobody works on, the next one first
        self.left = len(self.pending) if left is None else left  # tasks that have not ended
        self.at_work = 0
        self.is_answered = is_answered
        self.first_error = first_error  # of the agent
        self.withheld: list[tuple[str, Sequence[E]]] = []  # verdicts, while nobody has answered
        self.unjudged: dict[str, str] = {}  # why there is no verdict, by task
        # While nobody has answered, all tasks that ended have failed.
        self._failures = len(plan.suite.tasks) - self.left
        self.budget = None
        if spending is not None and plan.settings.has_budget:
            self.budget = Budget(plan, spending)

    # What may begin.

    @property
    def room(self) -> int:
        """How many tasks may be at work at once."""
        most = self._plan.settings.concurrency or 1
        return most if self.budget is None else self.budget.room(most)

    def begin(self) -> int | None:
        """The task to work on next; None while none may begin."""
        budget = self.budget
        if not self.pending or (budget and budget.room(self.at_work + 1) <= self.at_work):
            return None
        self.at_work += 1
        return self.pending.popleft()

    def ended(self, index: int, *, is_done: bool) -> None:
        """Nobody works on a task any more; unless it is done, it is the next one to begin."""
        self.at_work -= 1
        if self.budget is not None:
            self.budget.spending.is_cost_known = True
        if not is_done:
            self.pending.appendleft(index)

    # What to append.

    def answered(
        self, error: str | None = None, *, is_answer: bool
    ) -> list[tuple[str, Sequence[E]]]:
        """An invocation has ended; gives the verdicts to append before its events."""
        self.first_error = self.first_error or error
        self._failures += not is_answer
        if not is_answer or self.is_answered:
            return []
        self.is_answered = True
        released, self.withheld = self.withheld, []
        return released

    def settled(self, task_id: str, events: Sequence[E], *, is_done: bool) -> Sequence[E]:
        """What came of an answer, verdicts included; gives what of it to append now."""
        self.left -= is_done
        if self.is_answered:
            return events
        self.withheld.append((task_id, [each for each in events if is_verdict(each)]))
        return [each for each in events if not is_verdict(each)]

    def without_verdict(self, task_id: str, reason: str) -> None:
        """Judges have failed: a task has ended without a verdict."""
        self.left -= 1
        self.unjudged[task_id] = reason

    # How it ends.

    def failure(self) -> "RunEnd | None":
        """Why the run must end without a result, once nothing is at work.

        None: it is complete, or it goes on if tasks are left.
        """
        if self.budget and (over := self.budget.overspent(is_complete=not self.left)):
            return over
        if self.left:
            return None
        if not self.is_answered and self._failures:
            agent, first = self._plan.agent, self.first_error or "unknown"
            times = f"all {self._failures} invocations; the first"
            if self._failures == 1:
                times = "its only invocation"
            message = f"agent {agent.agent_id} ({agent.ref}) failed in {times}: {first}"
            return run_end("agent_unavailable", message)
        if self.unjudged:
            task_id, first = next(iter(self.unjudged.items()))
            tasks = f"{len(self.unjudged)} of {len(self._plan.suite.tasks)} tasks"
            message = f"{tasks} have no verdict; the first, {task_id}: {first}"
            return run_end(
                code_of_unjudged(self.unjudged.values()), message, unjudged=self.unjudged
            )
        return None


def code_of_unjudged(reasons: Iterable[str]) -> str:
    """The code of a run with tasks that have no verdict."""
    is_users = all(reason.startswith("the simulated user") for reason in reasons)
    return USER_FAILED if is_users else "judge_failed"


class RunEnd(NamedTuple):
    """The end of a run that has no result, for now: all of these can be gone on with."""

    error: ErrorDetail
    breached: CapBreached | None = None
    said: OptionText | None = None  # the message, where every edge has words of its own for it

    def events(self, duration_ms: int) -> list[Payload]:
        """The events that end the run."""
        failure = RunFailure(self.error, duration_ms)
        return [failure] if self.breached is None else [self.breached, failure]


def run_end(
    code: str, message: str, breached: CapBreached | None = None, **details: object
) -> RunEnd:
    """The end of a run for a reason."""
    return RunEnd(ErrorDetail(code, message, details or None, retryable=True), breached)


def out_of_time(limit_s: float, duration_ms: int) -> RunEnd:
    """The end of a run that took too long; the clock of the day may have been set back."""
    limit_ms = limit_s * 1000
    breached = CapBreached("run-duration", limit_ms, max(limit_ms, duration_ms))
    return run_end("run_timeout", f"the run took longer than {limit_s:g} s", breached)


def completion(summary: EvalSummary, duration_ms: int) -> tuple[EvalCompleted, RunCompleted]:
    """The events that end a run with its result."""
    completed = EvalCompleted(
        summary.aggregate_score,
        summary.passed,
        summary.task_count,
        summary.passed_count,
        summary.regression.score_delta if summary.regression else None,
    )
    return completed, RunCompleted({"evalSummary": summary}, duration_ms)


def cut_off(attempt_id: str, agent_id: str, code: str, message: str) -> tuple[Payload, Payload]:
    """The events that end an invocation of which nobody saw the end: it may have cost."""
    error = ErrorDetail(code, message)
    return error_decision(agent_id, error), InvocationCompleted(attempt_id, agent_id, "failed")


def error_decision(agent_id: str, error: ErrorDetail) -> Decided:
    """The decision of an agent that gave none."""
    return Decided(agent_id, {"error": error})


def is_verdict(event: Payload | NewEvent) -> bool:
    """Whether an event says what an answer is worth."""
    return (event.type if isinstance(event, NewEvent) else event.TYPE) in _VERDICTS


def is_answer(error: ErrorDetail | None) -> bool:
    """Whether an agent was there: with an answer, or one that contradicts what is claimed of it."""
    return error is None or error.code == CLAIM_CONTRADICTED


def first_answer(events: Iterable[NewEvent]) -> tuple[bool, str | None]:
    """Whether an invocation in these events was answered, and the first error before that."""
    failed, first = None, None
    for event in events:
        if event.type == Decided.TYPE:
            decision = msgspec.json.decode(event.body, type=Decided).decision
            failed = decision.get("error") if isinstance(decision, dict) else None
        elif event.type == InvocationCompleted.TYPE:
            completed = msgspec.json.decode(event.body, type=InvocationCompleted)
            error = msgspec.convert(failed, ErrorDetail) if completed.outcome == "failed" else None
            if error is not None:
                first = first or error.message
            if is_answer(error):
                return True, first
    return False, first


class Budget:
    """The budget of a run: a task begins only if what the run may then spend is within it.

    Whatever is limited, cost and tokens, must leave room for it.
    """

    def __init__(self, plan: Plan, spending: RunSpending) -> None:
        self.spending = spending
        self._ceilings: list[Ceiling] = []
        if plan.settings.max_cost_usd is not None:
            self._ceilings.append(CostCeiling(plan, spending, plan.settings.max_cost_usd))
        if plan.settings.max_tokens_total is not None:
            self._ceilings.append(TokenCeiling(plan, spending, plan.settings.max_tokens_total))

    def room(self, most: int) -> int:
        """How many tasks may be at work at once, `most` at most; 0 if none fits any more."""
        return min(each.room(most) for each in self._ceilings)

    def overspent(self, *, is_complete: bool) -> RunEnd | None:
        """Why a run must end that has nothing at work, if it must."""
        ends = (each.overspent(is_complete=is_complete) for each in self._ceilings)
        return next(filter(None, ends), None)


class Ceiling:
    """One limit of what a run may spend.

    A task is expected to take as much as the dearest so far, or what was declared if that is more.
    Until a task has ended nothing is known, and one task runs alone, unless an estimate was
    declared, or whoever pays is somebody else. An attempt whose process was stopped may have taken
    more than it could report: it counts as much as a task is expected to take, so that the ceiling
    holds however often a run is stopped and resumed.
    """

    kind: CapKind
    next_task: str  # why the next task does not fit, as a template
    by_lost: str  # what tasks may have taken that were cut off, within it

    def __init__(self, plan: Plan, spending: RunSpending, limit: float) -> None:
        self.settings = plan.settings
        self.spending = spending
        self.limit = limit
        self.declared = Decimal(0)  # what a task is expected to take
        self.is_declared = False
        self._exact_limit = decimal_sum((limit,))
        self._words = ON_THE_WIRE if plan.origin else IN_LOGS

    @property
    def spent(self) -> float:
        """What was spent so far."""
        raise NotImplementedError

    @property
    def attempts(self) -> tuple[Decimal, Sequence[Decimal]]:
        """The most that an attempt has taken, and what those had whose process was stopped."""
        raise NotImplementedError

    @property
    def why_exceeded(self) -> OptionText | None:
        """Why nothing more may be spent, if nothing may."""
        raise NotImplementedError

    def room(self, most: int) -> int:
        """How many tasks may be at work at once, `most` at most; 0 if none fits any more."""
        expected, _, left = self._outlook()
        if self.why_exceeded is not None or expected > left:
            return 0
        if not (self.spending.is_cost_known or self.is_declared):
            return min(most, 1)
        return most if most * expected <= left else int(left // expected)

    def overspent(self, *, is_complete: bool) -> RunEnd | None:
        """Why a run must end that has nothing at work, if it must."""
        spent, (expected, unreported, left) = self.spent, self._outlook()
        if (why := self.why_exceeded) is not None:
            if spent <= self.limit:
                return self._end("price_unknown", why)
            return self._end("budget_exhausted", why, spent)
        if is_complete or expected <= left:
            return None
        lost = self.by_lost if unreported else ""
        message = phrase(
            self.next_task.replace("BY_LOST", lost),
            spent=spent,
            lost=unreported,
            expected=expected,
            limit=self.limit,
        )
        observed = finite(decimal_sum((spent,)) + unreported + expected)
        return self._end("budget_exhausted", message, observed)

    def _end(self, code: str, said: OptionText, observed: float | None = None) -> RunEnd:
        breached = None if observed is None else CapBreached(self.kind, self.limit, observed)
        return run_end(code, said.told(self._words), breached)._replace(said=said)

    def _outlook(self) -> tuple[Decimal, Decimal, Decimal]:
        """What a task is expected to take, what those may have that were cut off; what is left."""
        dearest, cut_off = self.attempts
        expected = max(self.declared, dearest)
        unreported = sum((expected - had for had in cut_off if had < expected), Decimal(0))
        return expected, unreported, self._exact_limit - decimal_sum((self.spent,)) - unreported


class CostCeiling(Ceiling):
    """The most that a run may cost.

    Calls without a price do not count of which whoever started the run knew.
    """

    kind = "budget-cost"
    next_task = (
        "${spent:.6g} was spent, BY_LOSTthe next task may cost ${expected:.6g}, "
        "and {@max_cost_usd} is ${limit:.6g}"
    )
    by_lost = "up to ${lost:.6g} more by tasks that were cut off, "

    def __init__(self, plan: Plan, spending: RunSpending, limit: float) -> None:
        super().__init__(plan, spending, limit)
        self.declared = decimal_sum((self.settings.task_cost_usd or 0.0,))
        is_free = self.settings.known_costs_only and plan.panel is None  # agents may pay
        self.is_declared = is_free or self.settings.task_cost_usd is not None

    @property
    def spent(self) -> float:
        return self.spending.cost.known_usd

    @property
    def attempts(self) -> tuple[Decimal, Sequence[Decimal]]:
        return self.spending.dearest, self.spending.cut_off

    @property
    def why_exceeded(self) -> OptionText | None:
        cost, known_only = self.spending.cost, self.settings.known_costs_only
        before = None if known_only else self.spending.unpriced_before
        is_exceeded = known_only and self.spending.unpriced_verdicts
        if is_exceeded or cost.exceeds(self.limit, before):
            return cost.why_exceeded(self.limit)
        return None


class TokenCeiling(Ceiling):
    """The most tokens that a run may use, its agent and its judges together."""

    kind = "budget-tokens"
    next_task = (
        "{spent:,} tokens were used, BY_LOSTthe next task may use {expected:,}, "
        "and {@max_tokens_total} is {limit:,}"
    )
    by_lost = "up to {lost:,} more by tasks that were cut off, "

    @property
    def spent(self) -> float:
        return self.spending.tokens

    @property
    def attempts(self) -> tuple[Decimal, Sequence[Decimal]]:
        had = [Decimal(each) for each in self.spending.cut_off_tokens]
        return Decimal(self.spending.most_tokens), had

    @property
    def why_exceeded(self) -> OptionText | None:
        used = self.spending.tokens
        if used <= self.limit:
            return None
        message = "{used:,} tokens were used, and {@max_tokens_total} is {limit:,}"
        return phrase(message, used=used, limit=self.limit)
