"""Two runs task by task: what got worse, how sure that is, and what speaks against comparing them.

Of each run only the lists of its tasks and its plan are needed, so it is quick for any run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from evalwright.comparison.logged_run import in_words
from evalwright.contracts.run_plan import FIRST_RULE, LeftOut
from evalwright.contracts.suite import Task
from evalwright.engine.baselines import scores_of_today
from evalwright.reports.run.bars import score_so_far
from evalwright.reports.run.task_list import RunFrame, TaskList, TaskRow
from evalwright.scoring.bootstrap import score_change
from evalwright.scoring.chance import ChangeVerdict, Passes, change_verdict
from evalwright.scoring.regression import RESCORED, RegressionReport, TaskChange, difference
from evalwright.scoring.statistics import PairedChange, paired_change
from evalwright.scoring.thresholds import mean, pass_score
from evalwright.store.protocol import EventLog

Repeats: TypeAlias = Mapping[str, Sequence[bool | None]]  # of each task, whether it passed in each
ChangeGroup: TypeAlias = Literal["worse", "lower", "better", "failing", "unchanged", "alone"]
GROUPS: dict[ChangeGroup, str] = {
    "worse": "Got worse",
    "lower": "Lower score, same verdict",
    "better": "Got better",
    "failing": "Still failing",
    "unchanged": "Unchanged",
    "alone": "In one run only",
}
OLD_S = 7 * 86_400  # seconds after which a baseline is called old


class ComparedSide(NamedTuple):
    """A run as comparisons see it."""

    run_id: str
    started_us: int
    status: str
    frame: RunFrame
    tasks: TaskList
    number: int = 0  # in its log


class PairedTask(NamedTuple):
    """A task in both runs; None where a run does not have it, or has no score for it."""

    task_id: str
    before: TaskRow | None
    after: TaskRow | None

    @property
    def group(self) -> ChangeGroup:
        before, after = self.before, self.after
        if before is None or after is None or before.score is None or after.score is None:
            return "alone"
        if before.passed != after.passed:
            return "better" if after.passed else "worse"
        if after.score < before.score:
            return "lower"
        if not after.passed:
            return "failing"
        return "better" if after.score > before.score else "unchanged"

    @property
    def change(self) -> float:
        """By how much the score rose; below 0 if it fell, 0 where it cannot be told."""
        scores = [row.score for row in (self.before, self.after) if row is not None]
        if len(scores) < 2 or scores[0] is None or scores[1] is None:
            return 0.0
        return difference(scores[1], scores[0])


class ScoreBounds(NamedTuple):
    """Score thresholds for both runs."""

    before_least: float | None = None
    before_most: float | None = None
    after_least: float | None = None
    after_most: float | None = None

    def holds(self, task: PairedTask) -> bool:
        return _within(task.before, self.before_least, self.before_most) and _within(
            task.after, self.after_least, self.after_most
        )


def _within(row: TaskRow | None, least: float | None, most: float | None) -> bool:
    if least is None and most is None:
        return True
    if row is None or row.score is None:
        return False
    return (least is None or row.score >= least) and (most is None or row.score <= most)


class PairedRuns:
    """Two runs, the first of which is the baseline."""

    def __init__(self, before: ComparedSide, after: ComparedSide, remark: str = "") -> None:
        self.before = before
        self.after = after
        self._remark = remark  # on the scores
        self.left_out = _left_out(before.frame, after.frame)

    def worked_out(self) -> Self:
        """The same, with what takes long found out now."""
        _ = self.groups, self.verdict
        return self

    @cached_property
    def tasks(self) -> Sequence[PairedTask]:
        """All tasks of both: in the order of the new run, then those that only the baseline has."""
        old = {row.task_id: row for row in self.before.tasks.rows}
        new = self.after.tasks.rows
        known = self.after.tasks.places
        others = set(self.left_out.changed)  # a task that is another one now has no partner
        pairs = [
            PairedTask(row.task_id, None if row.task_id in others else old.get(row.task_id), row)
            for row in new
        ]
        pairs += [PairedTask(name, row, None) for name, row in old.items() if name not in known]
        return pairs

    @cached_property
    def groups(self) -> Mapping[ChangeGroup, Sequence[PairedTask]]:
        """The tasks by how they changed, those that fell most first."""
        found: dict[ChangeGroup, list[PairedTask]] = {name: [] for name in GROUPS}
        for task in self.tasks:
            found[task.group].append(task)
        for name in ("worse", "lower"):
            found[name].sort(key=lambda task: task.change)
        return found

    @cached_property
    def changes(self) -> tuple[TaskChange, ...]:
        """The tasks that have a score in both."""
        return tuple(
            TaskChange(
                task.task_id,
                task.before.score or 0.0,
                task.after.score or 0.0,
                task.before.passed is True,
                task.after.passed is True,
            )
            for task in self.tasks
            if task.group != "alone" and task.before is not None and task.after is not None
        )

    @cached_property
    def pass_change(self) -> PairedChange | None:
        """How the pass rate changed; it is found without the resampling that a report needs."""
        verdicts = Counter((task.passed_before, task.passed) for task in self.changes)
        return paired_change(
            both=verdicts[True, True],
            only_baseline=verdicts[True, False],
            only_new=verdicts[False, True],
            neither=verdicts[False, False],
        )

    @cached_property
    def verdict(self) -> ChangeVerdict:
        return self.verdict_on({}, {})

    def verdict_on(self, before: Repeats, after: Repeats) -> ChangeVerdict:
        """Whether what changed is more than chance by all repeats that the runs are among."""
        passes = {
            each.task_id: Passes(
                *_counted(before.get(each.task_id, ()), passed=each.passed_before),
                *_counted(after.get(each.task_id, ()), passed=each.passed),
            )
            for each in self.changes
        }
        verdict = change_verdict(passes, self.after.frame.names.name_of)
        return replace(verdict, remark=self._remark)

    @cached_property
    def report(self) -> RegressionReport:
        """How much changed; it takes a moment where runs are large."""
        if self.left_out == LeftOut():
            old, new = score_so_far(self.before.tasks), score_so_far(self.after.tasks)
        else:
            old = mean([task.baseline_score for task in self.changes])
            new = mean([task.score for task in self.changes])
        return RegressionReport(
            baseline_run_id=self.before.run_id,
            baseline_score=old,
            score=new,
            score_delta=difference(new, old),
            tasks=self.changes,
            verdict=self.verdict,
            pass_change=self.pass_change,
            score_change=score_change([task.difference for task in self.changes]),
        )

    @property
    def age_s(self) -> float:
        """How much older the baseline is than the new run, in seconds."""
        return (self.after.started_us - self.before.started_us) / 1_000_000

    def warnings(self) -> Iterator[str]:
        """What speaks against comparing the two."""
        old, new, out = self.before.frame, self.after.frame, self.left_out
        if old.suite.suite_id != new.suite.suite_id:
            yield f"Not comparable: the baseline is of another suite, {old.name}."
        elif old.suite.version != new.suite.version:
            versions = f"{old.suite.version} before, {new.suite.version} now"
            yield f"Not fully comparable: other version of the suite, {versions}."
        if (out.changed or out.new or out.removed) and old.suite.suite_id == new.suite.suite_id:
            yield in_words(out)
        judges = [
            ", ".join(sorted(frame.panel.judges)) if frame.panel else "no judge"
            for frame in (old, new)
        ]
        if judges[0] != judges[1]:
            judged = f"the baseline was judged by {judges[0]}, the new run by {judges[1]}"
            yield f"Not fully comparable: {judged}."
        modes = [sorted(side.tasks.modes) for side in (self.before, self.after)]
        # A run that is put beside a baseline is of the mode `regression` by that alone.
        if ({*modes[0]} ^ {*modes[1]}) - {"regression"}:
            yield f"Other modes: {', '.join(modes[0])} before, {', '.join(modes[1])} now."
        if "live-shadow" in {*modes[0], *modes[1]}:
            yield "A live-shadow run is not deterministic: another one may give a different result."
        bars = pass_score(old.suite.thresholds), pass_score(new.suite.thresholds)
        if bars[0] != bars[1]:
            yield f"The bar for the score was {bars[0]:.4g} and is {bars[1]:.4g}."
        sides = (("baseline", self.before), ("new run", self.after))
        for name, side in sides:
            if side.status != "completed":
                state = side.status if side.status in ("failed", "cancelled") else "not ended"
                open_tasks = side.tasks.counts["open"]
                yield f"The {name} is {state}: {open_tasks:,} of its tasks have no score."
        for name, side in sides:
            if side.frame.selection is not None:
                count = f"{len(side.tasks.rows):,} of {side.frame.selection.of:,} tasks"
                yield f"The {name} is of a part of its suite: {count}."
        if self.age_s < 0:
            yield "The baseline is newer than the run that it is compared with."
        elif self.age_s > OLD_S:
            yield f"The baseline is old: {int(self.age_s // 86_400)} days before the new run."


def pair_runs(log: EventLog, before: ComparedSide, after: ComparedSide) -> PairedRuns:
    """Two runs; if an earlier rule scored one of them, both by the rule of today."""
    if before.frame.scoring == after.frame.scoring:
        return PairedRuns(before, after)
    if after.frame.scoring == FIRST_RULE:
        now = _scored_now(log, after)
        is_other = now.tasks.rows != after.tasks.rows
        return PairedRuns(before, now, RESCORED.format("new run") if is_other else "")
    now = _scored_now(log, before)
    is_other = now.tasks.rows != before.tasks.rows
    return PairedRuns(now, after, RESCORED.format("baseline") if is_other else "")


def _scored_now(log: EventLog, side: ComparedSide) -> ComparedSide:
    """A run that the first rule scored, by the rule of today."""
    tasks = [msgspec.json.decode(each, type=Task) for each in side.frame.suite.tasks]
    scores = scores_of_today(log, side.run_id, tasks)
    rows = [replace(row, score=scores.get(row.task_id, row.score)) for row in side.tasks.rows]
    totals = side.tasks.totals
    if totals is not None:
        weights = {task.task_id: task.weight for task in tasks}
        score = mean([row.score or 0.0 for row in rows], [weights[row.task_id] for row in rows])
        totals = replace(totals, aggregate_score=score)
    return side._replace(tasks=TaskList(rows, side.tasks.modes, totals))


def _counted(passed_in: Sequence[bool | None], *, passed: bool) -> tuple[int, int]:
    """How often a task passed, of how many runs; of a run alone, whether it did."""
    known = [each for each in passed_in if each is not None] or [passed]
    return sum(known), len(known)


def _left_out(before: RunFrame, after: RunFrame) -> LeftOut:
    """The tasks that are not the same in both, as `left_out_tasks` finds them in parsed suites."""
    is_other_bar = pass_score(before.suite.thresholds) != pass_score(after.suite.thresholds)
    worlds = before.suite.worlds, after.suite.worlds
    other_worlds = {name for name in worlds[1] if worlds[0].get(name) != worlds[1][name]}
    is_other_suite = is_other_bar or bool(other_worlds)
    if before.suite.tasks == after.suite.tasks and not is_other_suite:
        return LeftOut()

    def is_other(name: str) -> bool:
        """Whether a task decides otherwise now: not by its title, but a rubric by its bar."""
        if old[name] == new[name] and not is_other_suite:
            return False
        was, now = (msgspec.json.decode(each[name], type=dict[str, Any]) for each in (old, new))
        if is_other_bar and now.get("expected", {}).get("kind") == "rubric":
            return True
        if now.get("world") in other_worlds:
            return True
        return {**was, "title": ""} != {**now, "title": ""}

    old, new = before.raw_tasks(), after.raw_tasks()
    return LeftOut(
        changed=[name for name in new if name in old and is_other(name)],
        new=[name for name in new if name not in old],
        removed=[name for name in old if name not in new],
    )
