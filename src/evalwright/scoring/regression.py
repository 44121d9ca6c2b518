"""A run beside its baseline: which tasks changed, and whether that is more than noise."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from evalwright.contracts.run_plan import Baseline, LeftOut
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import EvalSummary
from evalwright.contracts.times import span_in_words
from evalwright.scoring.bootstrap import ScoreChange, score_change
from evalwright.scoring.chance import ChangeVerdict, Passes, change_verdict
from evalwright.scoring.statistics import PairedChange, paired_change
from evalwright.scoring.thresholds import decimal_sum, mean, pass_score

RESCORED = "Both are scored by the rule of today; the {} was recorded under an earlier one."


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
    verdict: ChangeVerdict
    pass_change: PairedChange | None
    score_change: ScoreChange | None
    called: str = ""  # how people know the baseline
    left_out: LeftOut | None = None  # tasks that only one side has, or has otherwise

    @property
    def newly_failing(self) -> tuple[str, ...]:
        return _ids(task for task in self.tasks if task.passed_before and not task.passed)

    @property
    def newly_passing(self) -> tuple[str, ...]:
        return _ids(task for task in self.tasks if task.passed and not task.passed_before)

    @property
    def still_failing(self) -> tuple[str, ...]:
        return _ids(task for task in self.tasks if not task.passed_before and not task.passed)

    @property
    def score_drops(self) -> tuple[TaskChange, ...]:
        same = (task for task in self.tasks if task.passed == task.passed_before)
        return tuple(task for task in same if task.score < task.baseline_score)

    @property
    def changed_scores(self) -> int:
        return sum(task.score != task.baseline_score for task in self.tasks)

    @property
    def regressed(self) -> bool:
        """Whether the score is lower than the baseline's, or a task that passed fails now."""
        return self.score_delta < 0 or bool(self.newly_failing)

    @property
    def sentence(self) -> str:
        return self.verdict.sentence


def left_out_tasks(
    before: Suite, now: Suite, redact: Callable[[bytes], bytes] = lambda task: task
) -> LeftOut:
    """The tasks that are not the same in both; `redact` takes out what a recorded one lacks.

    A bar that decides on rubric tasks is a part of them, and so is the world of a task.
    """
    old = {task.task_id: _told(task) for task in before.tasks}
    new = {task.task_id: redact(_told(task)) for task in now.tasks}
    other_bar = pass_score(before.thresholds) != pass_score(now.thresholds)
    other = {task.task_id for task in now.tasks if task.expected.kind == "rubric" and other_bar}
    worlds = {
        name
        for name, world in now.worlds.items()
        if msgspec.json.encode(before.worlds.get(name)) != redact(msgspec.json.encode(world))
    }
    other |= {task.task_id for task in now.tasks if task.world in worlds}
    return LeftOut(
        changed=[each for each in new if each in old and (old[each] != new[each] or each in other)],
        new=[each for each in new if each not in old],
        removed=[each for each in old if each not in new],
    )


def _told(task: Task) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(task, title="") if task.title else task)


def compare_to_baseline(
    summary: EvalSummary, baseline: Baseline, name_of: Callable[[str], str] = str
) -> RegressionReport:
    """Set a run beside its baseline; of a suite that has changed, the tasks that both have.

    `name_of` tells by which name people know a task.
    """
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
    verdicts = [(task.passed_before, task.passed) for task in tasks]
    return RegressionReport(
        baseline_run_id=baseline.run_id,
        baseline_score=baseline.aggregate_score,
        score=score,
        score_delta=difference(score, baseline.aggregate_score),
        called=called(baseline),
        left_out=baseline.left_out,
        tasks=tasks,
        verdict=change_against_baseline([verdicts_of(summary)], baseline, name_of),
        pass_change=paired_change(
            both=verdicts.count((True, True)),
            only_baseline=verdicts.count((True, False)),
            only_new=verdicts.count((False, True)),
            neither=verdicts.count((False, False)),
        ),
        score_change=score_change([task.difference for task in tasks]),
    )


def change_against_baseline(
    runs: Sequence[Mapping[str, bool]], baseline: Baseline, name_of: Callable[[str], str] = str
) -> ChangeVerdict:
    """Whether a run, or its repeats, differ from the baseline, or its repeats, beyond chance.

    `runs` say of each task in the order of the suite whether it passed.
    """
    out = baseline.left_out or LeftOut()
    others = {*out.changed, *out.new}
    tasks = {}
    shared = (task_id for task_id in runs[0] if task_id not in others)
    for task_id, before in zip(shared, baseline.tasks, strict=True):
        passed, of = before.repeats or (int(before.passed), 1)
        tasks[task_id] = Passes(passed, of, sum(run[task_id] for run in runs), len(runs))
    verdict = change_verdict(tasks, name_of)
    if not baseline.rescored:
        return verdict
    return msgspec.structs.replace(verdict, remark=RESCORED.format("baseline"))


def verdicts_of(summary: EvalSummary) -> dict[str, bool]:
    """Of each task whether it passed."""
    return {task.task_id: task.passed for task in summary.tasks}


def called(baseline: Baseline) -> str:
    """How people know a baseline: by its name and age, where it has one, and its run or group."""
    run = baseline.run_id
    if baseline.group is not None:
        repeats = max((each.repeats[1] for each in baseline.tasks if each.repeats), default=0)
        run = f"{baseline.group}, {repeats} {'run' if repeats == 1 else 'runs'}"
    if baseline.name is None:
        return run
    return f"{baseline.name} ({run}, {span_in_words(baseline.age_s or 0)} old)"


def difference(score: float, baseline_score: float) -> float:
    """One score less the other, exact in decimal: 0.3 less 0.1 is 0.2."""
    return float(decimal_sum((score, -baseline_score)))


def _ids(tasks: Iterable[TaskChange]) -> tuple[str, ...]:
    return tuple(task.task_id for task in tasks)
