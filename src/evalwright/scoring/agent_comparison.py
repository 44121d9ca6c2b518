"""The same tasks with several agents or models: figures of each, and how sure a difference is."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from evalwright.contracts.short_names import suite_name
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.bootstrap import score_change
from evalwright.scoring.chance import FallenTask, Passes, change_verdict
from evalwright.scoring.statistics import paired_change, wilson
from evalwright.scoring.thresholds import decimal_sum, finite, mean, p95


class VariantFigures(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one agent or model came to; with repeats, a task passed if it did so every time."""

    name: str
    run_ids: list[str]
    task_count: int
    passed_count: int
    pass_rate: float
    pass_interval: tuple[float, float]  # Wilson's, of 95 %
    score: float
    cost_usd: float | None = None
    median_latency_ms: int | None = None
    p95_latency_ms: int | None = None


class VariantChange(msgspec.Struct, frozen=True, rename="camel"):
    """How far one is from the first, over the same tasks."""

    name: str
    newly_passing: int
    newly_failing: int
    pass_rate_change: float
    pass_rate_interval: tuple[float, float]
    pass_rate_p: float
    score_change: float
    score_interval: tuple[float, float]
    score_p: float
    sentence: str
    is_worse: bool  # beyond chance, which fails the side-by-side run
    fallen: tuple[FallenTask, ...]


class TaskDifference(msgspec.Struct, frozen=True, rename="camel"):
    """A task that did not come out the same everywhere; in the order of the variants."""

    task_id: str
    passed: list[bool]
    scores: list[float]


class SideBySide(msgspec.Struct, frozen=True, rename="camel"):
    """Variants beside each other, the changes against the first, and where they differ."""

    suite_id: str
    suite_version: str
    variants: list[VariantFigures]
    changes: list[VariantChange]
    differences: list[TaskDifference]

    @property
    def name(self) -> str:
        return suite_name(f"{self.suite_id}@{self.suite_version}")


class VariantRuns(NamedTuple):
    """The runs of one variant: one, or its repeats."""

    name: str
    run_ids: list[str]
    summaries: Sequence[EvalSummary]


class _VariantResult(NamedTuple):
    task_id: str
    passed: bool
    score: float
    passes: int
    runs: int


def side_by_side(runs: Sequence[VariantRuns], name_of: Callable[[str], str] = str) -> SideBySide:
    """Compare variants that ran the same tasks, the first with each of the others.

    `name_of` tells by which name people know a task.
    """
    results = [_results(variant) for variant in runs]
    first = runs[0].summaries[0]
    by_task = zip(*results, strict=True)
    return SideBySide(
        first.suite_id,
        first.suite_version,
        [_figures(variant, each) for variant, each in zip(runs, results, strict=True)],
        [
            _change(variant.name, results[0], each, name_of)
            for variant, each in zip(runs[1:], results[1:], strict=True)
        ],
        [
            TaskDifference(
                each[0].task_id, [one.passed for one in each], [one.score for one in each]
            )
            for each in by_task
            if len({(one.passed, one.score) for one in each}) > 1
        ],
    )


def _results(variant: VariantRuns) -> list[_VariantResult]:
    results = []
    for repeats in zip(*(summary.tasks for summary in variant.summaries), strict=True):
        passes, runs = sum(one.passed for one in repeats), len(repeats)
        score = mean([one.score for one in repeats])
        results.append(_VariantResult(repeats[0].task_id, passes == runs, score, passes, runs))
    return results


def _figures(variant: VariantRuns, results: Sequence[_VariantResult]) -> VariantFigures:
    tasks = [task for summary in variant.summaries for task in summary.tasks]
    latencies = sorted(task.latency_ms for task in tasks if task.latency_ms is not None)
    costs = [summary.total_cost_usd for summary in variant.summaries]
    known = [cost for cost in costs if cost is not None]
    passed = sum(result.passed for result in results)
    return VariantFigures(
        name=variant.name,
        run_ids=variant.run_ids,
        task_count=len(results),
        passed_count=passed,
        pass_rate=passed / len(results),
        pass_interval=wilson(passed, len(results)),
        score=mean([summary.aggregate_score for summary in variant.summaries]),
        cost_usd=finite(decimal_sum(known)) if known and len(known) == len(costs) else None,
        median_latency_ms=latencies[(len(latencies) - 1) // 2] if latencies else None,
        p95_latency_ms=p95(latencies) if latencies else None,
    )


def _change(
    name: str,
    first: Sequence[_VariantResult],
    other: Sequence[_VariantResult],
    name_of: Callable[[str], str],
) -> VariantChange:
    pairs = [(one.passed, two.passed) for one, two in zip(first, other, strict=True)]
    failing, passing = pairs.count((True, False)), pairs.count((False, True))
    both, neither = pairs.count((True, True)), pairs.count((False, False))
    rates = paired_change(both, failing, passing, neither)
    scores = score_change([two.score - one.score for one, two in zip(first, other, strict=True)])
    verdict = change_verdict(
        {
            one.task_id: Passes(one.passes, one.runs, two.passes, two.runs)
            for one, two in zip(first, other, strict=True)
        },
        name_of,
    )
    assert rates is not None
    assert scores is not None
    return VariantChange(
        name=name,
        newly_passing=passing,
        newly_failing=failing,
        pass_rate_change=rates.difference,
        pass_rate_interval=(rates.low, rates.high),
        pass_rate_p=verdict.p_value,
        score_change=scores.difference,
        score_interval=(scores.low, scores.high),
        score_p=scores.p_value,
        sentence=verdict.sentence,
        is_worse=verdict.is_worse,
        fallen=verdict.fallen,
    )
