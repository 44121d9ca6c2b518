"""What a run with a budget has spent, where all workers see it: beside the run in `fleet_runs`.

It is all that a `Budget` asks of a tally, small enough to be read and written with every task.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from evalwright.contracts.events import InvocationCompleted, InvocationStarted, ProviderUsage
from evalwright.engine.budget import Budget, Overspent
from evalwright.engine.history import History
from evalwright.engine.plan import Plan
from evalwright.scoring.summary import FREE
from evalwright.scoring.thresholds import Cost, finite
from evalwright.store.protocol import NewEvent


class RunLedger(msgspec.Struct):
    """What was spent on a run, and what attempts that were lost may have cost."""

    known_usd: Decimal = Decimal(0)
    calls: int = 0
    unpriced: int = 0
    dearest: Decimal = Decimal(0)
    cut_off: list[Decimal] = []
    unpriced_verdicts: int = 0
    unpriced_before: int = 0
    is_cost_known: bool = False
    lost: dict[str, int] = {}  # how many attempts at a task were counted as cut off

    @property
    def spent(self) -> Cost:
        """The cost of all calls."""
        return Cost(finite(self.known_usd), self.calls, self.unpriced)

    def take(self, events: Iterable[NewEvent], plan: Plan) -> None:
        """Count the calls of a task that has ended."""
        on_attempt, has_answer = Decimal(0), plan.panel is not None
        for event in events:
            if event.type == InvocationStarted.TYPE:
                on_attempt, has_answer = Decimal(0), False
            elif event.type == InvocationCompleted.TYPE:
                has_answer = plan.panel is not None
            elif event.type == ProviderUsage.TYPE:
                usage = msgspec.json.decode(event.body, type=ProviderUsage)
                on_attempt += self._add(usage, is_verdict=has_answer)
                self.dearest = max(self.dearest, on_attempt)
        self.is_cost_known = True

    def _add(self, usage: ProviderUsage, *, is_verdict: bool) -> Decimal:
        if usage.cache_hit or (usage.provider in FREE and usage.cost_estimate_usd is None):
            return Decimal(0)
        self.calls += 1
        if usage.cost_estimate_usd is None:
            self.unpriced += 1
            self.unpriced_verdicts += is_verdict
            return Decimal(0)
        cost = Decimal(repr(usage.cost_estimate_usd))
        self.known_usd += cost
        return cost

    def lose(self, task_id: str, count: int) -> None:
        """Count the attempts at a task that ended with their workers, of which nobody knows all.

        A worker may have been killed before it counted the attempt before its own.
        """
        self.cut_off += [Decimal(0)] * (count - self.lost.get(task_id, 0))
        self.lost[task_id] = count

    def encoded(self) -> bytes:
        """As it is kept."""
        return msgspec.json.encode(self)


class Ceiling:
    """How many tasks of a run may be at work, by its concurrency and its budget."""

    def __init__(self, plan: Plan, ledger: RunLedger | None) -> None:
        self._most = plan.settings.concurrency or 1
        self._budget = None
        if ledger is not None:
            self._budget = Budget(
                plan.settings,
                ledger,
                unpriced_before=ledger.unpriced_before,
                is_cost_known=ledger.is_cost_known,
                is_judged=plan.panel is not None,
                called="maxCostUsd" if plan.origin else "--max-cost",
            )

    @property
    def height(self) -> int:
        """So many."""
        return self._most if self._budget is None else self._budget.room(self._most)

    def overspent(self, *, is_complete: bool) -> Overspent | None:
        """Why a run must end as failed, if it must and no task of it is at work."""
        if self._budget is None:
            return None
        self._budget.room(self._most)
        return self._budget.overspent(is_complete=is_complete)


def ledger_of(history: History) -> RunLedger | None:
    """The ledger of a run that has a budget, as far as its history has spent it."""
    if history.plan.settings.max_cost_usd is None:
        return None
    tally = history.tally
    spent, cut_off = tally.spent, list(tally.cut_off)
    interrupted: Sequence[tuple[str, str]] = list(history.open_invocations.values())
    return RunLedger(
        Decimal(repr(spent.known_usd)),
        spent.calls,
        spent.unpriced_calls,
        tally.dearest,
        cut_off + [Decimal(0)] * len(interrupted),
        tally.unpriced_verdicts,
        history.unpriced_before,
        bool(history.scored),
    )


def decoded_ledger(kept: bytes | None) -> RunLedger | None:
    """The ledger as it was kept."""
    return None if kept is None else msgspec.json.decode(kept, type=RunLedger)
