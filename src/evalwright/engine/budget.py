"""The budget of a run: a ceiling. A task begins only if what the run may then cost is within it.

A task is expected to cost as much as the dearest so far, or what was declared if that is more.
Until a task has ended nothing is known, and one task runs alone, unless an estimate was declared.
A run ends when nothing is running, and one more task is not expected to fit.

An attempt whose process was stopped may have cost more than it could report. It counts as much as
a task is expected to cost, so that the ceiling holds however often a run is stopped and resumed.
"""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from evalwright.contracts.run_plan import RunSettings
from evalwright.engine.history import History
from evalwright.scoring.thresholds import Cost, decimal_sum, finite


class RunSpending(Protocol):
    """What a run has spent so far."""

    @property
    def spent(self) -> Cost:
        """The cost of all calls."""

    @property
    def dearest(self) -> Decimal:
        """The most that an attempt at a task has cost."""

    @property
    def cut_off(self) -> Sequence[Decimal]:
        """What attempts had cost when their process was stopped."""

    @property
    def unpriced_verdicts(self) -> int:
        """Calls of judges without a known price."""


class Overspent(NamedTuple):
    """Why a run must end: its money is spent, or nobody knows what it spends."""

    code: str  # `budget_exhausted` or `price_unknown`
    message: str
    limit_usd: float
    observed_usd: float  # spent, or expected to be with the next task


class Budget:
    """Lets tasks begin as long as they fit.

    Used in one event loop. The first `unpriced_before` calls without a price do not count: whoever
    started the run knew of them.
    """

    def __init__(
        self,
        settings: RunSettings,
        tally: RunSpending,
        *,
        unpriced_before: int = 0,
        is_cost_known: bool = False,
        is_judged: bool = False,
        called: str,
    ) -> None:
        assert settings.max_cost_usd is not None
        self._limit_usd = settings.max_cost_usd
        self._limit = decimal_sum((settings.max_cost_usd,))
        self._declared = decimal_sum((settings.task_cost_usd or 0.0,))
        self._known_costs_only = settings.known_costs_only
        self._tally = tally
        self._unpriced_before = unpriced_before
        # Whoever does not pay need not wait to see what the first task costs; judges are paid here.
        is_free = settings.known_costs_only and not is_judged
        is_declared = is_free or settings.task_cost_usd is not None
        self._is_cost_known = is_cost_known or is_declared
        self._called = called
        self._running = 0
        self._is_refused = False
        self._turn = asyncio.Lock()  # one waits for a task to end, the others wait for their turn
        self._ended = asyncio.Event()

    async def admit(self) -> bool:
        """Wait until one more task fits; False if none will."""
        async with self._turn:
            while self._running and not self._fits() and not self._is_exceeded():
                self._ended.clear()
                await self._ended.wait()
            if self._is_exceeded() or not self._fits():
                self._is_refused = True
                return False
            self._running += 1
            return True

    def room(self, most: int) -> int:
        """How many tasks may run at once, `most` at most; 0 if none fits any more."""
        self._running = 0
        self._is_refused = self._is_exceeded() or not self._fits()
        if self._is_refused or not self._is_cost_known:
            return 0 if self._is_refused else 1
        left = self._limit - decimal_sum((self._tally.spent.known_usd,)) - self._unreported
        return min(most, int(left / self._expected)) if self._expected else most

    def release(self) -> None:
        """A task that was admitted has ended, and all of its cost is counted."""
        self._running -= 1
        self._is_cost_known = True
        self._ended.set()

    def overspent(self, *, is_complete: bool) -> Overspent | None:
        """Why the run must end as failed, if it must; one that was refused a task is incomplete."""
        cost = self._tally.spent
        if self._is_exceeded():
            code = "budget_exhausted" if cost.known_usd > self._limit_usd else "price_unknown"
            why = cost.why_exceeded(self._limit_usd, self._called)
            return Overspent(code, why, self._limit_usd, cost.known_usd)
        if is_complete or not self._is_refused:
            return None
        doubtful = (
            f"up to ${self._unreported:.6g} more by tasks that were cut off, "
            if self._unreported
            else ""
        )
        message = (
            f"${cost.known_usd:.6g} was spent, {doubtful}the next task may cost "
            f"${self._expected:.6g}, and {self._called} is ${self._limit_usd:.6g}"
        )
        observed = finite(decimal_sum((cost.known_usd,)) + self._unreported + self._expected)
        return Overspent("budget_exhausted", message, self._limit_usd, observed)

    @property
    def _expected(self) -> Decimal:
        """What a task is expected to cost."""
        return max(self._declared, self._tally.dearest)

    @property
    def _unreported(self) -> Decimal:
        """What attempts may have cost, beyond what they reported, when their process ended."""
        expected = self._expected
        return sum((expected - cost for cost in self._tally.cut_off if cost < expected), Decimal(0))

    def _fits(self) -> bool:
        spent = decimal_sum((self._tally.spent.known_usd,)) + self._unreported
        all_running = (self._running + 1) * self._expected
        is_guess = bool(self._running) and not self._is_cost_known
        return not is_guess and spent + all_running <= self._limit

    def _is_exceeded(self) -> bool:
        if self._known_costs_only and self._tally.unpriced_verdicts:
            return True  # agents may pay for themselves, judges do not
        before = None if self._known_costs_only else self._unpriced_before
        return self._tally.spent.exceeds(self._limit_usd, before)


def budget_of(history: History) -> Budget:
    """The budget of a run that has one, as far as its history has spent it."""
    plan = history.plan
    return Budget(
        plan.settings,
        history.tally,
        unpriced_before=history.unpriced_before,
        is_cost_known=bool(history.scored),
        is_judged=plan.panel is not None,
        called="maxCostUsd" if plan.origin else "--max-cost",  # hosts have no options
    )
