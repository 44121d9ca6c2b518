"""From recorded scores and usage to the EvalSummary: the one way, for run, show and replay."""

from collections.abc import Sequence
from decimal import Decimal

from evalwright.contracts.events import EvalScored, ProviderUsage
from evalwright.contracts.suite import ModelClass, Suite
from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.scoring.thresholds import Cost, broken_bars, decimal_sum, finite, mean


class Tally:
    """Collects what a run recorded; the order of arrival does not matter."""

    def __init__(self, suite: Suite, model_class: ModelClass | None = None) -> None:
        self._suite = suite
        self._model_class = model_class
        self._results: dict[str, TaskResult] = {}
        self._known_usd = Decimal(0)
        self._calls = 0
        self._unpriced = 0

    def add_score(self, scored: EvalScored) -> None:
        """Take a task's score."""
        self._results[scored.task_id] = TaskResult(
            task_id=scored.task_id,
            score=scored.score,
            passed=scored.passed,
            cost_usd=scored.cost_usd,
            latency_ms=scored.latency_ms,
            schema_valid=scored.schema_valid,
        )

    def add_usage(self, usage: ProviderUsage) -> None:
        """Take the usage of one model call."""
        self._calls += 1
        if usage.cost_estimate_usd is None:
            self._unpriced += 1
        else:
            self._known_usd += Decimal(repr(usage.cost_estimate_usd))

    @property
    def passed_count(self) -> int:
        """How many tasks passed so far."""
        return sum(result.passed for result in self._results.values())

    @property
    def cost(self) -> Cost:
        """What is known of the cost so far."""
        return Cost(finite(self._known_usd), self._calls, self._unpriced)

    def broken_bars(self) -> list[str]:
        """Why the run does not pass; empty when it does."""
        aggregate = mean([result.score for result in self._results.values()])
        return broken_bars(self._suite.thresholds, aggregate, self.cost, self._latencies())

    def summary(self) -> EvalSummary:
        """The scorecard, tasks in the order of the suite."""
        results = [self._results[task.task_id] for task in self._suite.tasks]
        return EvalSummary(
            suite_id=self._suite.suite_id,
            suite_version=self._suite.version,
            aggregate_score=mean([result.score for result in results]),
            passed=not self.broken_bars(),
            task_count=len(results),
            passed_count=sum(result.passed for result in results),
            tasks=results,
            evaluated_model_class=self._model_class,
            total_cost_usd=self.cost.total_usd,
        )

    def _latencies(self) -> Sequence[int]:
        measured = (result.latency_ms for result in self._results.values())
        return [latency for latency in measured if latency is not None]


def task_cost(usages: Sequence[ProviderUsage]) -> float | None:
    """The cost of one task: known only when every call's price is."""
    prices = [usage.cost_estimate_usd for usage in usages]
    known = [price for price in prices if price is not None]
    if not prices or len(known) < len(prices):
        return None
    return finite(decimal_sum(known))
