"""A run beside its baseline: which tasks changed, and whether that is more than noise."""

from collections.abc import Callable, Iterable

import msgspec

from evalwright.contracts.planning import Baseline, LeftOut
from evalwright.contracts.suite import Suite
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.bootstrap import ScoreChange, score_change
from evalwright.scoring.statistics import (
    PairedChange,
    more_failures_needed,
    p_in_words,
    paired_change,
)
from evalwright.scoring.thresholds import decimal_sum, mean, pass_score


class TaskChange(msgspec.Struct, frozen=True):
    """A task in the baseline and now."""

    task_id: str
    baseline_score: float
    score: float
    passed_before: bool
    passed: bool

    @property
    def difference(self) -> float:
        """By how much the score rose; below 0 if it fell."""
        return difference(self.score, self.baseline_score)


class RegressionReport(msgspec.Struct, frozen=True):
    """All that a baseline tells of a run; tasks in the order of the suite.

    The statistics are None for a suite without tasks.
    """

    baseline_run_id: str
    baseline_score: float
    score: float
    score_delta: float
    tasks: tuple[TaskChange, ...]
    pass_change: PairedChange | None
    score_change: ScoreChange | None
    baseline_name: str | None = None
    baseline_age_s: int | None = None
    left_out: LeftOut | None = None  # tasks that only one side has, or has otherwise

    @property
    def newly_failing(self) -> tuple[str, ...]:
        """Tasks that passed in the baseline and fail now."""
        return _ids(task for task in self.tasks if task.passed_before and not task.passed)

    @property
    def newly_passing(self) -> tuple[str, ...]:
        """Tasks that failed in the baseline and pass now."""
        return _ids(task for task in self.tasks if task.passed and not task.passed_before)

    @property
    def still_failing(self) -> tuple[str, ...]:
        """Tasks that failed then and now."""
        return _ids(task for task in self.tasks if not task.passed_before and not task.passed)

    @property
    def score_drops(self) -> tuple[TaskChange, ...]:
        """Tasks whose score fell though the verdict is the same."""
        same = (task for task in self.tasks if task.passed == task.passed_before)
        return tuple(task for task in same if task.score < task.baseline_score)

    @property
    def changed_scores(self) -> int:
        """How many tasks have another score than in the baseline."""
        return sum(task.score != task.baseline_score for task in self.tasks)

    @property
    def regressed(self) -> bool:
        """Whether the score is lower than the baseline's, or a task that passed fails now."""
        return self.score_delta < 0 or bool(self.newly_failing)

    @property
    def significant(self) -> bool:
        """Whether pass rate or score fell by more than chance explains.

        Either is wrong in less than one of forty runs in which nothing but chance changed, and so
        both together in less than one of twenty.
        """
        return any(change.difference < 0 for change in self._beyond_chance())

    @property
    def sentence(self) -> str:
        """What the statistics say, for people."""
        if not any(_changed(task) for task in self.tasks):
            return f"No task changed against the baseline (n = {len(self.tasks):,})."
        evidence = f"at n = {len(self.tasks):,} ({self._p_values()})"
        if self.significant:
            return f"Worse than chance explains {evidence}."
        if self._beyond_chance():
            return f"Better than chance explains {evidence}."
        remedy = f": {self._remedy()}" if self.regressed else ""
        return f"Not distinguishable from noise {evidence}{remedy}."

    def _beyond_chance(self) -> list[PairedChange | ScoreChange]:
        changes = (self.pass_change, self.score_change)
        return [change for change in changes if change is not None and change.significant]

    def _p_values(self) -> str:
        """The p-value, or both where they differ."""
        assert self.pass_change is not None
        assert self.score_change is not None
        passes = p_in_words(self.pass_change.p_value)
        scores = p_in_words(self.score_change.p_value)
        return passes if passes == scores else f"pass rate {passes}, score {scores}"

    def _remedy(self) -> str:
        failing, passing = len(self.newly_failing), len(self.newly_passing)
        both = sum(task.passed and task.passed_before for task in self.tasks)
        needed = more_failures_needed(failing, passing, both)
        if needed is None:
            return "the suite has too few tasks for newly failing ones to show more"
        more = "more newly failing" if failing else "newly failing"
        return f"{needed} {more} {'task' if needed == 1 else 'tasks'} would show more than noise"


def left_out_tasks(
    before: Suite, now: Suite, redact: Callable[[bytes], bytes] = lambda task: task
) -> LeftOut:
    """The tasks that are not the same in both; `redact` takes out what a recorded one lacks.

    A bar that decides on rubric tasks is a part of them.
    """
    old = {task.task_id: msgspec.json.encode(task) for task in before.tasks}
    new = {task.task_id: redact(msgspec.json.encode(task)) for task in now.tasks}
    other_bar = pass_score(before.thresholds) != pass_score(now.thresholds)
    judged = {task.task_id for task in now.tasks if task.expected.kind == "rubric" and other_bar}
    return LeftOut(
        changed=[
            each for each in new if each in old and (old[each] != new[each] or each in judged)
        ],
        new=[each for each in new if each not in old],
        removed=[each for each in old if each not in new],
    )


def compare_to_baseline(summary: EvalSummary, baseline: Baseline) -> RegressionReport:
    """Set a run beside its baseline; of a suite that has changed, the tasks that both have."""
    results, score = summary.tasks, summary.aggregate_score
    if baseline.left_out is not None:
        others = {*baseline.left_out.changed, *baseline.left_out.new}
        results = [task for task in results if task.task_id not in others]
        score = mean([task.score for task in results])
    if len(results) != len(baseline.tasks):
        raise ValueError(
            f"the baseline {baseline.run_id} has {len(baseline.tasks)} tasks and the run has "
            f"{len(results)}: only the same tasks can be compared"
        )
    tasks = tuple(
        TaskChange(now.task_id, before.score, now.score, before.passed, now.passed)
        for now, before in zip(results, baseline.tasks, strict=True)
    )
    return RegressionReport(
        baseline_run_id=baseline.run_id,
        baseline_score=baseline.aggregate_score,
        score=score,
        score_delta=difference(score, baseline.aggregate_score),
        baseline_name=baseline.name,
        baseline_age_s=baseline.age_s,
        left_out=baseline.left_out,
        tasks=tasks,
        pass_change=_pass_change(tasks),
        score_change=score_change([task.difference for task in tasks]),
    )


def difference(score: float, baseline_score: float) -> float:
    """One score less the other, exact in decimal: 0.3 less 0.1 is 0.2."""
    return float(decimal_sum((score, -baseline_score)))


def _pass_change(tasks: Iterable[TaskChange]) -> PairedChange | None:
    verdicts = [(task.passed_before, task.passed) for task in tasks]
    return paired_change(
        both=verdicts.count((True, True)),
        only_baseline=verdicts.count((True, False)),
        only_new=verdicts.count((False, True)),
        neither=verdicts.count((False, False)),
    )


def _ids(tasks: Iterable[TaskChange]) -> tuple[str, ...]:
    return tuple(task.task_id for task in tasks)


def _changed(task: TaskChange) -> bool:
    return task.score != task.baseline_score or task.passed != task.passed_before
