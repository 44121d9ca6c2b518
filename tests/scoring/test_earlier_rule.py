"""The note on suites whose verdict may differ from that of earlier versions is true of them."""

from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.contracts.run_plan import FIRST_RULE
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.contracts.summary import TaskResult
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.base import verdict_of
from evalwright.scoring.earlier_rule import earlier_rule
from evalwright.scoring.pass_bars import missed_bars, task_score

BINARY, GRADED = {"contains": "a"}, {"contains_all": ["a", "b"]}
ALMOST = 0.9999


def checked(name: str, *checks: dict[str, Any], threshold: float | None = None) -> Task:
    return Task(name, name, Expected("checks", checks=list(checks), threshold=threshold))


def of(*tasks: Task, **bars: float) -> Suite:
    return a_suite(tasks, **bars)


def outcomes(task: Task) -> list[tuple[float, float, bool]]:
    """All that can become of a task: its score before and now, and whether it passes."""
    expected = task.expected
    if expected.kind != "checks":
        return [(1.0, 1.0, True), (0.0, 0.0, False)]
    possible = [
        (1.0, ALMOST, 0.0) if "contains_all" in each else (1.0, 0.0)
        for each in expected.checks or ()
    ]
    found = []
    for scores in product(*possible):
        results = [CheckResult("x", score == 1, score) for score in scores]
        mean, passed = verdict_of(results, expected.threshold)
        found.append((mean, task_score(mean, expected.threshold, passed=passed), passed))
    return sorted(set(found))


def may_differ(suite: Suite) -> bool:
    """Whether anything that can happen has another verdict now: every case of alike tasks."""
    for chosen in combinations_with_replacement(outcomes(suite.tasks[0]), len(suite.tasks)):
        pairs = list(zip(suite.tasks, chosen, strict=True))
        before = {task.task_id: TaskResult(task.task_id, was, ok) for task, (was, _, ok) in pairs}
        now = {task.task_id: TaskResult(task.task_id, score, ok) for task, (_, score, ok) in pairs}
        if bool(missed_bars(suite, before, FIRST_RULE)) != bool(missed_bars(suite, now)):
            return True
    return False


ONE, TWO, FOUR, SOFT = ((BINARY,), (BINARY,) * 2, (BINARY,) * 4, (BINARY, GRADED))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("checks", [ONE, TWO, FOUR, SOFT], ids=["1", "2", "4", "graded"])
@pytest.mark.parametrize("bar", [None, 0.0, 0.3, 0.5, 0.75, 0.9, 1.0])
def test_the_note_is_there_where_a_verdict_may_differ(
    count: int, checks: tuple[dict[str, Any], ...], bar: float | None
) -> None:
    bars = {} if bar is None else {"pass_score": bar}
    suite = of(*(checked(f"t{n}", *checks) for n in range(count)), **bars)
    rule = earlier_rule(suite.tasks)
    assert (rule.note(suite.thresholds) is not None) == may_differ(suite)


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_golden_tasks_without_a_bar_differ_where_three_in_ten_may_fail(count: int) -> None:
    suite = of(*(a_task(f"task-{n}") for n in range(count)))
    note = earlier_rule(suite.tasks).note(suite.thresholds)
    assert (note is not None) == may_differ(suite) == (count >= 4)
    assert note is None or "in earlier versions a score of 0.7 was enough" in note
    bar = of(*(a_task(f"task-{n}") for n in range(count)), pass_score=0.5)
    assert earlier_rule(bar.tasks).note(bar.thresholds) is None, "portable, by its own passScore"


def test_new_bars_and_thresholds_of_tasks_have_no_earlier_verdict_to_differ_from() -> None:
    tasks = [checked(f"t{n}", *FOUR) for n in range(5)]
    rule = earlier_rule(tasks)
    assert rule.note(of(*tasks, pass_rate=0.5).thresholds) is None
    kept = of(*(checked(f"t{n}", *FOUR, threshold=0.5) for n in range(5)), pass_score=0.8)
    assert earlier_rule(kept.tasks).note(kept.thresholds) is None
    assert not may_differ(kept)


def test_a_task_that_passed_with_a_score_of_0_may_be_all_that_passed() -> None:
    suite = of(checked("t0", BINARY, threshold=0.0), pass_score=0.0)
    assert earlier_rule(suite.tasks).note(suite.thresholds) is not None
