"""From recorded scores and usage to the EvalSummary: the one way, for run, show and replay."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from evalwright.contracts.coverage import Coverage
from evalwright.contracts.events import (
    EvalScored,
    ProviderUsage,
)
from evalwright.contracts.run_plan import CURRENT_RULE, FIRST_RULE, Baseline
from evalwright.contracts.suite import ModelClass, Suite
from evalwright.contracts.summary import EvalSummary, Regression, SafetyFinding, TaskResult
from evalwright.scoring.pass_bars import missed_bars
from evalwright.scoring.thresholds import Cost, broken_bars, decimal_sum, finite, mean

FREE = ("scripted", "local")  # providers of models on this machine: without a price, they are free


class AttemptSpending(NamedTuple):
    """What an attempt at a task has spent so far."""

    usd: Decimal = Decimal(0)
    tokens: int = 0


NOTHING_SPENT = AttemptSpending()


class RunSpending(msgspec.Struct):
    """What was spent on the calls of a run that were really made; workers keep it as JSON."""

    known_usd: Decimal = Decimal(0)
    calls: int = 0
    unpriced: int = 0
    dearest: Decimal = Decimal(0)  # the most that an attempt at a task has cost
    cut_off: list[Decimal] = []  # what attempts had cost when their process was stopped
    unpriced_verdicts: int = 0  # calls of judges and simulated users without a known price
    unpriced_before: int = 0  # calls without a price that whoever began the run knew of
    is_cost_known: bool = False  # whether a task has ended
    lost: dict[str, int] = {}  # how many attempts at a task were counted as cut off
    tokens: int = 0  # of all calls, those of models on this machine included
    most_tokens: int = 0  # that an attempt at a task has used
    cut_off_tokens: list[int] = []

    @property
    def cost(self) -> Cost:
        """The cost of all calls."""
        return Cost(finite(self.known_usd), self.calls, self.unpriced)

    def add(
        self, usage: ProviderUsage, before: AttemptSpending, *, is_verdict: bool
    ) -> AttemptSpending:
        """Take a call of an attempt that has spent so much before; gives what it has spent now.

        Answers from cassettes cost nothing, and those of models on this machine only tokens.
        """
        if usage.cache_hit:
            return before
        used, price, usd = usage.total_tokens, usage.cost_estimate_usd, before.usd
        used = usage.input_tokens + usage.output_tokens if used is None else used
        self.tokens += used
        self.most_tokens = max(self.most_tokens, before.tokens + used)
        if price is not None:
            self.calls += 1
            self.known_usd += Decimal(repr(price))
            usd += Decimal(repr(price))
        elif usage.provider not in FREE:
            self.calls += 1
            self.unpriced += 1
            self.unpriced_verdicts += is_verdict or usage.is_of_user
        self.dearest = max(self.dearest, usd)
        return AttemptSpending(usd, before.tokens + used)

    def cut(self, spent: AttemptSpending = NOTHING_SPENT) -> None:
        """Take an attempt that ended with its process: nobody knows all that it has spent."""
        self.cut_off.append(spent.usd)
        self.cut_off_tokens.append(spent.tokens)


class Tally:
    """Collects what a run recorded; the order of arrival does not matter."""

    def __init__(
        self,
        suite: Suite,
        model_class: ModelClass | None = None,
        *,
        looks_for_findings: bool = False,
        is_recorded: bool = False,
        scoring: int = CURRENT_RULE,
        lacking: Sequence[str] = (),
    ) -> None:
        self._suite = suite
        self._lacking = lacking
        self._scoring = scoring
        self._model_class = model_class
        self._looks_for_findings = looks_for_findings
        self._is_recorded = is_recorded  # by others, who may not have measured everything
        self.results: dict[str, TaskResult] = {}  # of the tasks that have their score
        self._findings: dict[str, list[SafetyFinding]] = {}
        self._kept_findings: dict[str, list[SafetyFinding]] = {}  # of earlier repetitions
        weighs = any(task.weight != 1 for task in suite.tasks)
        self._weights = {task.task_id: task.weight for task in suite.tasks} if weighs else None
        self._known_usd = Decimal(0)  # of all calls, those that cost nothing included
        self._calls = self._unpriced = 0
        self.users = Cost()  # what playing users has cost of that
        self.spending = RunSpending()
        self._spent_on: dict[
            str, AttemptSpending
        ] = {}  # tasks without a score, in their last attempt
        # With checks only: the bar of an OpenWOP suite is on what is known, by the specification.
        self._asks_usage = (
            scoring != FIRST_RULE and suite.thresholds.max_cost_usd is not None and suite.has_checks
        )
        self._unseen: set[str] = set()  # tasks of which an answer came without its usage
        self._used: set[str] = set()  # tasks with usage, also where a log knows no coverage

    def add_score(self, scored: EvalScored) -> None:
        self._spent_on.pop(scored.task_id, None)
        self.results[scored.task_id] = TaskResult(
            task_id=scored.task_id,
            score=scored.score,
            passed=scored.passed,
            cost_usd=scored.cost_usd,
            latency_ms=scored.latency_ms,
            schema_valid=scored.schema_valid,
            safety_findings=self.findings(scored.task_id) if self._looks_for_findings else None,
        )

    def add_findings(self, task_id: str, findings: Sequence[SafetyFinding]) -> None:
        self._findings.setdefault(task_id, []).extend(findings)

    def findings(self, task_id: str) -> list[SafetyFinding] | None:
        """What was found in a task so far; None where nobody looks for anything."""
        if not self._looks_for_findings:
            return None
        found = self._findings.get(task_id, [])
        kept = self._kept_findings.get(task_id)
        return found if kept is None else _worst(kept + found)

    def keep_findings(self, task_id: str) -> None:
        """Remember what a repetition was found to do beside what the next ones are."""
        if found := self._findings.pop(task_id, None):
            self._kept_findings.setdefault(task_id, []).extend(found)

    def start_again(self, task_id: str) -> None:
        """Forget what an earlier attempt at a task was found to do: it does not count."""
        self._findings.pop(task_id, None)
        self._spent_on.pop(task_id, None)

    def add_answer(self, task_id: str, coverage: Coverage) -> None:
        if self._asks_usage and coverage.usage is None:
            self._unseen.add(task_id)

    def add_cut_off(self, task_id: str) -> None:
        """Take an attempt at a task that ended with its process: nobody knows all of its cost."""
        self.spending.cut(self._spent_on.get(task_id, NOTHING_SPENT))

    def add_usage(
        self, usage: ProviderUsage, task_id: str = "", *, is_verdict: bool = False
    ) -> None:
        self._calls += 1
        if usage.cost_estimate_usd is None:
            self._unpriced += 1
        else:
            self._known_usd += Decimal(repr(usage.cost_estimate_usd))
        if usage.is_of_user:
            price, users = usage.cost_estimate_usd, self.users
            known_usd = float(decimal_sum((users.known_usd, price or 0.0)))
            self.users = Cost(known_usd, users.calls + 1, users.unpriced_calls + (price is None))
        if self._asks_usage and not (is_verdict or usage.is_of_user):
            self._used.add(task_id)
        before = self._spent_on.get(task_id, NOTHING_SPENT)
        self._spent_on[task_id] = self.spending.add(usage, before, is_verdict=is_verdict)

    @property
    def passed_count(self) -> int:
        return sum(result.passed for result in self.results.values())

    @property
    def cost(self) -> Cost:
        return Cost(finite(self._known_usd), self._calls, self._unpriced)

    @property
    def spent(self) -> Cost:
        return self.spending.cost

    def broken_bars(self) -> list[str]:
        measured = [result.latency_ms for result in self.results.values()]
        latencies = [latency for latency in measured if latency is not None]
        unmeasured = len(measured) - len(latencies) if self._is_recorded else 0
        missed = missed_bars(self._suite, self.results, self._scoring)
        missed += broken_bars(self._suite.thresholds, self.cost, latencies, unmeasured)
        if unseen := len(self._unseen - self._used):
            tasks = f"{unseen:,} of {len(self.results):,} tasks"
            limit = f"maxCostUsd ${self._suite.thresholds.max_cost_usd:.6g}"
            missed.append(
                f"the model usage of {tasks} was not observed, so {limit} cannot be shown to hold; "
                "return or report it, or claim `usage: none` of the agent"
            )
        return [*missed, *self._lacking]

    def summary(self, run_id: str = "", baseline: Baseline | None = None) -> EvalSummary:
        results = [self.results[task.task_id] for task in self._suite.tasks]
        weighs = self._weights
        weights = [weighs[result.task_id] for result in results] if weighs else None
        aggregate = mean([result.score for result in results], weights)
        return EvalSummary(
            suite_id=self._suite.suite_id,
            suite_version=self._suite.version,
            aggregate_score=aggregate,
            passed=not self.broken_bars(),
            task_count=len(results),
            passed_count=sum(result.passed for result in results),
            tasks=results,
            evaluated_model_class=self._model_class,
            total_cost_usd=self.cost.total_usd,
            regression=_regression(run_id, aggregate, baseline)
            if baseline and baseline.left_out is None
            else None,
        )


def _worst(findings: Sequence[SafetyFinding]) -> list[SafetyFinding]:
    from evalwright.contracts.report import SEVERITIES  # only repeated tasks come here

    worst: dict[str, SafetyFinding] = {}
    for finding in sorted(findings, key=lambda each: -SEVERITIES.index(each.severity)):
        worst.setdefault(finding.kind, finding)
    return list(worst.values())


def _regression(run_id: str, aggregate: float, baseline: Baseline) -> Regression:
    delta = decimal_sum([aggregate, -baseline.aggregate_score])
    diff_ref = f"/v1/runs/{run_id}:diff?against={baseline.run_id}"
    return Regression(baseline.run_id, float(delta), diff_ref)


def task_cost(usages: Sequence[ProviderUsage]) -> float | None:
    """The cost of one task: known only when every call's price is."""
    prices = [usage.cost_estimate_usd for usage in usages]
    known = [price for price in prices if price is not None]
    if not prices or len(known) < len(prices):
        return None
    return finite(decimal_sum(known))
