"""Whoever adds a check, or gets a worse answer, gets no better verdict than before."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import a_suite
from evalwright.contracts.suite import Expected, Suite, TagBar, Task, Thresholds
from evalwright.contracts.summary import TaskResult
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.base import verdict_of
from evalwright.scoring.pass_bars import missed_bars, task_score

SHARES = st.sampled_from([0.0, 0.25, 0.5, 2 / 3, 0.75, 0.9, 1.0])
WEIGHTS = st.sampled_from([0.5, 1.0, 3.0])


class Answered(NamedTuple):
    """A task with what its checks say of an answer."""

    checks: list[CheckResult]
    tags: list[str]
    weight: float
    threshold: float | None


@st.composite
def checks(draw: st.DrawFn, *, graded: bool = True) -> CheckResult:
    passed, broken = draw(st.sampled_from([(True, False), (False, False), (False, True)]))
    score = draw(SHARES) if graded and not broken else float(passed)
    return CheckResult("any", passed, score, weight=draw(WEIGHTS), broken=broken)


def answers(*, graded: bool = True, threshold: bool = False) -> st.SearchStrategy[list[Answered]]:
    found = st.lists(checks(graded=graded), min_size=1, max_size=4)
    tags = st.lists(st.sampled_from(["money", "safety"]), unique=True)
    at_least = st.one_of(st.none(), SHARES) if threshold else st.none()
    return st.lists(st.builds(Answered, found, tags, WEIGHTS, at_least), min_size=1, max_size=5)


def tag_bars(*, score: bool) -> st.SearchStrategy[dict[str, TagBar]]:
    bars = st.builds(
        TagBar, pass_rate=SHARES, pass_score=st.one_of(st.none(), SHARES if score else st.none())
    )
    return st.dictionaries(st.sampled_from(["money", "safety"]), bars)


def bars_over(*, score: bool) -> st.SearchStrategy[Thresholds]:
    """Bars; those on the score are a mean, in which a check that passes counts for others."""
    share = st.one_of(st.none(), SHARES)
    mean = share if score else st.none()
    return st.builds(Thresholds, pass_rate=share, pass_score=mean, tags=tag_bars(score=score))


def fails(tasks: list[Answered], bars: Thresholds) -> bool:
    """Whether a run in which the checks say this misses a bar."""
    known = [
        Task(f"t{n}", "x", Expected("checks", checks=[]), tags=each.tags, weight=each.weight)
        for n, each in enumerate(tasks)
    ]
    results = {}
    for task, each in zip(known, tasks, strict=True):
        mean, passed = verdict_of(each.checks, each.threshold)
        score = task_score(mean, each.threshold, passed=passed)
        results[task.task_id] = TaskResult(task.task_id, score, passed)
    suite: Suite = replace(a_suite(known), thresholds=bars)
    return bool(missed_bars(suite, results))


@given(answers(), bars_over(score=False), st.data())
def test_a_check_that_is_added_lets_no_failing_run_pass(
    tasks: list[Answered], bars: Thresholds, data: Any
) -> None:
    """It may be graded, it may pass, and it may be added to any of the tasks."""
    guarded = [
        each._replace(checks=[*each.checks, data.draw(checks())])
        if data.draw(st.booleans())
        else each
        for each in tasks
    ]
    assert fails(guarded, bars) or not fails(tasks, bars)


@settings(max_examples=250)  # of which few are near the bar
@given(answers(graded=False), st.builds(Thresholds, pass_score=SHARES), st.data())
def test_nor_does_it_by_a_score_if_checks_hold_or_do_not(
    tasks: list[Answered], bars: Thresholds, data: Any
) -> None:
    guard = data.draw(checks(graded=False))
    guarded = [each._replace(checks=[*each.checks, guard]) for each in tasks]
    assert fails(guarded, bars) or not fails(tasks, bars)


@given(answers(threshold=True), bars_over(score=True), st.data())
def test_a_worse_answer_lets_no_failing_run_pass(
    tasks: list[Answered], bars: Thresholds, data: Any
) -> None:
    """Whatever the bars, and with partial credit, too."""

    def worse(check: CheckResult) -> CheckResult:
        if data.draw(st.booleans()):
            return check
        return replace(check, passed=False, score=min(check.score, data.draw(SHARES)))

    spoilt = [each._replace(checks=[worse(check) for check in each.checks]) for each in tasks]
    assert fails(spoilt, bars) or not fails(tasks, bars)


@given(answers(threshold=True), bars_over(score=True), answers(graded=False))
def test_tasks_that_fail_beside_the_others_let_no_failing_run_pass(
    tasks: list[Answered], bars: Thresholds, more: list[Answered]
) -> None:
    failing = [
        each._replace(checks=[replace(check, passed=False, score=0.0) for check in each.checks])
        for each in more
    ]
    assert fails([*tasks, *failing], bars) or not fails(tasks, bars)


@given(answers(threshold=True), bars_over(score=True))
def test_no_run_passes_in_which_no_task_did(tasks: list[Answered], bars: Thresholds) -> None:
    if not any(verdict_of(each.checks, each.threshold)[1] for each in tasks):
        assert fails(tasks, bars)
