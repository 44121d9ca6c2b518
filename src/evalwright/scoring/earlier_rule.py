"""Suites on which the verdict may differ from that of earlier versions, which had another rule.

By that rule a task with checks that failed had the mean of its checks, and a suite without a
bar wanted a score of 0.7.
"""

from collections.abc import Iterable

from evalwright.contracts import amounts
from evalwright.contracts.suite import Task, Thresholds
from evalwright.scoring.checks.table import WEIGHT, name_and_argument
from evalwright.scoring.thresholds import DEFAULT_PASS_SCORE

_LEAST = 1e-9  # that a failure is below what would be good enough
# Checks that have a part of their score where they fail.
_GRADED = frozenset(
    {"all", "any", "at_least", "calls", "calls_in_order", "contains_all", "max"}
    | {"judge", "judge_against", "similar", "python"}
)


class EarlierRule:
    """Takes the tasks of a suite, and says how a verdict on them may differ now."""

    def __init__(self) -> None:
        self._tasks: list[tuple[float, float, bool]] = []  # weight, most of a failure, kept now
        self._has_checks = False

    def add(self, task: Task) -> None:
        is_checked = task.expected.kind == "checks"
        keeps = task.expected.threshold is not None or not is_checked
        self._tasks.append((task.weight, _most_of_failure(task), keeps))
        self._has_checks = self._has_checks or is_checked

    def note(self, bars: Thresholds) -> str | None:
        """What may be another verdict now, and the remedy; None where nothing may."""
        if bars.pass_rate is not None or bars.tags:
            return None  # there were no such bars
        whole = sum(weight for weight, *_ in self._tasks)
        if not whole:
            return None
        if bars.pass_score is None:
            best = max(whole - weight * (1 - most) for weight, most, _ in self._tasks)
            if best / whole < DEFAULT_PASS_SCORE:
                return None
            return (
                "without a bar every task must pass; in earlier versions a score of "
                f"{DEFAULT_PASS_SCORE} was enough. Say in `thresholds` how much is enough"
            )
        if not self._has_checks or not self._may_fall_below(bars.pass_score, whole):
            return None
        bar = amounts.bar(bars.pass_score)
        return (
            "a task that fails scores 0, and a run in which none passes fails; in earlier versions "
            f"a failed task had the mean of its checks. So passScore {bar} may be missed now; a "
            "`threshold` of a task keeps the mean"
        )

    def _may_fall_below(self, bar: float, whole: float) -> bool:
        """Whether failures could reach the bar with a part of their score, and do not without."""
        if sum(weight * most for weight, most, _ in self._tasks) / whole >= bar:
            return True  # no task passed
        before, now = whole, whole
        lossy = [(weight, most) for weight, most, keeps in self._tasks if most and not keeps]
        for weight, most in sorted(lossy, key=lambda each: each[1], reverse=True):
            before, now = before - weight * (1 - most), now - weight
            if before / whole >= bar > now / whole:
                return True
        return False


def _most_of_failure(task: Task) -> float:
    """The most that a task had by the earlier rule though it failed, or just below that."""
    expected = task.expected
    if expected.kind == "rubric":
        return DEFAULT_PASS_SCORE - _LEAST
    if expected.threshold is not None:
        return max(expected.threshold - _LEAST, 0.0)
    checks = [(each, float(each.get(WEIGHT, 1))) for each in expected.checks or ()]
    counted = [each for each in checks if each[1]] or [(each, 1.0) for each, _ in checks]
    whole = sum(weight for _, weight in counted)
    parts = (
        _LEAST if name_and_argument(each)[0] in _GRADED else weight / whole
        for each, weight in counted
    )
    return 1 - min(parts, default=1.0)


def earlier_rule(tasks: Iterable[Task]) -> EarlierRule:
    """The rule with all tasks of a suite."""
    rule = EarlierRule()
    for task in tasks:
        rule.add(task)
    return rule
