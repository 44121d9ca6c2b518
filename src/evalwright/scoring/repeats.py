"""The same suite run several times: which tasks can be relied on, and which pass sometimes."""

from collections.abc import Sequence
from math import comb
from typing import Literal

import msgspec

from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.statistics import LEVEL, wilson
from evalwright.scoring.thresholds import mean


class Spread(msgspec.Struct, frozen=True):
    """A mean, with the least and the greatest value."""

    mean: float
    low: float
    high: float


class TaskRepeats(msgspec.Struct, frozen=True):
    """One task over all runs."""

    task_id: str
    runs: int
    passes: int
    score: Spread

    @property
    def verdict(self) -> Literal["passed", "failed", "flaky"]:
        if self.passes == self.runs:
            return "passed"
        return "flaky" if self.passes else "failed"

    @property
    def pass_rate(self) -> float:
        return self.passes / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the pass rate."""
        return wilson(self.passes, self.runs)

    def pass_hat(self, k: int) -> float:
        """pass^k: how likely all of k runs pass, estimated without bias."""
        _check_k(k, self.runs)
        return comb(self.passes, k) / comb(self.runs, k)


class RepeatsReport(msgspec.Struct, frozen=True):
    """All runs together; tasks in the order of the suite."""

    runs: int
    runs_passed: int
    score: Spread
    tasks: tuple[TaskRepeats, ...]

    @property
    def flaky(self) -> tuple[str, ...]:
        return tuple(task.task_id for task in self.tasks if task.verdict == "flaky")

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(task.task_id for task in self.tasks if task.verdict == "failed")

    def pass_hat(self, k: int) -> float:
        _check_k(k, self.runs)
        return mean([task.pass_hat(k) for task in self.tasks])

    @property
    def sentence(self) -> str:
        if not self.tasks:
            return "There are no tasks."
        if self.runs == 1:
            return "One run cannot show which tasks are flaky: repeat it."
        if self.flaky:
            are = "is" if len(self.flaky) == 1 else "are"
            count = f"{len(self.flaky)} of {len(self.tasks)} tasks {are}"
            return f"{count} flaky over {self.runs} runs."
        if len(self.failing) == len(self.tasks):
            return f"No task was flaky in {self.runs} runs."
        # What agreement of so few runs leaves open.
        least = LEVEL ** (1 / self.runs)  # rarer ones pass every time in less than 1 of 20 series
        return (
            f"No task was flaky in {self.runs} runs, though of tasks that pass {least:.0%} of the "
            "time, 1 in 20 would pass in all too."
        )


def summarise_repeats(summaries: Sequence[EvalSummary]) -> RepeatsReport:
    """Join the summaries of runs of one suite; `ValueError` if they are not that."""
    if not summaries:
        raise ValueError("there are no runs to summarise: give at least one")
    first = summaries[0]
    for number, summary in enumerate(summaries[1:], 2):
        _check_same_suite(first, summary, number)
    by_task = zip(*(summary.tasks for summary in summaries), strict=True)
    return RepeatsReport(
        runs=len(summaries),
        runs_passed=sum(summary.passed for summary in summaries),
        score=_spread([summary.aggregate_score for summary in summaries]),
        tasks=tuple(
            TaskRepeats(
                task_id=results[0].task_id,
                runs=len(results),
                passes=sum(result.passed for result in results),
                score=_spread([result.score for result in results]),
            )
            for results in by_task
        ),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(mean(values), min(values), max(values))


def _check_same_suite(first: EvalSummary, other: EvalSummary, number: int) -> None:
    names = [f"{summary.suite_id}@{summary.suite_version}" for summary in (first, other)]
    if names[0] != names[1]:
        raise ValueError(
            f"run 1 is of {names[0]} and run {number} of {names[1]}: "
            "only runs of the same suite and version are repeats"
        )
    if [task.task_id for task in first.tasks] != [task.task_id for task in other.tasks]:
        raise ValueError(
            f"run 1 and run {number} have different tasks: only runs of the same tasks are repeats"
        )


def _check_k(k: int, runs: int) -> None:
    if not 1 <= k <= runs:
        raise ValueError(f"k is {k}, and must be from 1 to the number of runs, {runs}")
