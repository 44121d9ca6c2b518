"""`run --baseline` and `compare` say the same of the same two runs, or why they do not."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import a_suite, a_task
from comparison.own_runs import compared, notes_of
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import TaskSelection
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.engine.baselines import read_baseline
from evalwright.scoring.regression import RegressionReport, compare_to_baseline
from subjects.runs import Workshop

SECRET = "AKIAQ3EGUBUEXAMPL7TZ"  # whoever says it has a finding
MODES = ("golden", "adversarial")
ANSWERS = ("right", "wrong", "half", "error", SECRET)


@st.composite
def tasks(draw: st.DrawFn, task_id: str) -> Task:
    """A task of any kind: golden, or with checks that are weighed, repeated or have a bar."""
    if draw(st.booleans()):
        value = draw(st.sampled_from(["right", "half"]))
        return a_task(task_id, strategy=draw(st.sampled_from(["exact", "contains"])), value=value)
    expected = Expected(
        "checks",
        checks=[{"equals": "right"}, {"not": {"contains": "wrong"}, "weight": 3}],
        threshold=draw(st.sampled_from([None, 0.5])),
    )
    repeat = draw(st.sampled_from([1, 2, 3]))
    rate, weight = draw(st.sampled_from([1.0, 0.5])), draw(st.sampled_from([1.0, 2.5]))
    return Task(task_id, "Say it.", expected, weight=weight, repeat=repeat, pass_rate=rate)


@st.composite
def suites(draw: st.DrawFn) -> tuple[Suite, Suite]:
    """A suite, and the same once it has grown: at least one task is in both."""
    names = [f"task-{n}" for n in range(draw(st.integers(1, 5)))]
    before = {name: draw(tasks(name)) for name in names}
    after = dict(before)
    for name in names[1:]:
        match draw(st.sampled_from(["same", "same", "changed", "removed"])):
            case "changed":
                after[name] = msgspec.structs.replace(after[name], input="Say it well.")
            case "removed":
                del after[name]
    if draw(st.booleans()):
        after["added"] = draw(tasks("added"))
    return a_suite(list(before.values()), modes=MODES), a_suite(list(after.values()), modes=MODES)


def agent_of(said: list[str]) -> Any:
    """An agent that gives these answers in turn, over and over."""
    answers = itertools.cycle(said)

    def answer(_task: Any) -> str:
        text = next(answers)
        if text == "error":
            raise ValueError("no idea")
        return text

    return answer


def both_ways(workshop: Workshop, before: str, after: str) -> tuple[RegressionReport, Any]:
    """What `run --baseline` says of two runs, and the summary of `compare`."""
    from evalwright.engine.history import read_history
    from evalwright.engine.replay import project

    history = read_history(workshop.log, after)
    baseline = read_baseline(workshop.log, before, history.plan.suite)
    report = compare_to_baseline(project(history).summary, baseline)
    return report, compared(workshop, before, after)[1]


@settings(max_examples=15, deadline=None)
@given(
    suites(),
    st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=7),
    st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=7),
)
def test_counts_rates_and_p_value_are_the_same(
    pair: tuple[Suite, Suite], old: list[str], new: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder) / "log.db")
        try:
            before = workshop.run(pair[0], agent_of(old), modes=MODES)
            after = workshop.run(pair[1], agent_of(new), modes=MODES)
            assume(not before.failure and not after.failure)  # an agent that only fails: no result
            report, summary = both_ways(workshop, before.run_id, after.run_id)
        finally:
            workshop.close()
    assert summary.total_cases == len(report.tasks)
    assert summary.regressions == len(report.newly_failing)
    assert summary.improvements == len(report.newly_passing)
    assert summary.baseline_pass == sum(task.passed_before for task in report.tasks)
    assert summary.new_pass == sum(task.passed for task in report.tasks)
    change = report.pass_change
    assert change is not None
    assert summary.significance.sentence == report.sentence
    assert summary.significance.p_value == change.p_value
    assert summary.significance.difference == change.difference
    assert summary.significance.new_rate == change.new_rate


def test_a_suite_that_grew_is_compared_by_the_tasks_that_stayed(workshop: Workshop) -> None:
    before = workshop.run(a_suite([a_task("same"), a_task("other"), a_task("gone")]), _yes)
    grown = [a_task("same"), a_task("other", input="Another?"), a_task("fresh")]
    after = workshop.run(a_suite(grown), lambda _task: "no")
    items, summary = compared(workshop, before.run_id, after.run_id)
    assert list(items) == ["same"]
    assert (summary.total_cases, summary.regressions) == (1, 1)
    (note,) = notes_of(workshop, before.run_id, after.run_id)
    assert "changed: other; new: fresh; removed: gone" in note


def test_runs_without_a_common_task_cannot_be_compared(workshop: Workshop) -> None:
    before = workshop.run(a_suite([a_task("one")]), _yes)
    after = workshop.run(a_suite([a_task("two")]), _yes)
    with pytest.raises(BadInput, match="no task is the same in both runs"):
        compared(workshop, before.run_id, after.run_id)


def test_a_run_of_a_part_is_compared_and_said_to_be_one(workshop: Workshop) -> None:
    before = workshop.run(a_suite(3), _yes)
    part = TaskSelection(3, ["--limit 2"])
    after = workshop.run(a_suite(2), _yes, selection=part)
    items, _ = compared(workshop, before.run_id, after.run_id)
    assert list(items) == ["task-1", "task-2"]
    notes = notes_of(workshop, before.run_id, after.run_id)
    assert "a part of its suite (2 of 3 tasks, by --limit 2)" in notes[0]


def test_a_run_that_did_not_end_is_said_to_be_one(workshop: Workshop) -> None:
    def broken(_task: Any) -> str:
        raise ValueError("away")

    before = workshop.run(a_suite(2), _yes)
    after = workshop.run(a_suite(2), broken)
    assert after.failure is not None
    notes = notes_of(workshop, before.run_id, after.run_id)
    assert "New run: the run is not complete (failed)" in notes[0]


def test_a_run_compared_with_itself_has_not_changed(workshop: Workshop) -> None:
    run_id = workshop.run(a_suite(2), _yes).run_id
    _, summary = compared(workshop, run_id, run_id)
    assert summary.verdict.startswith("No change")


def _yes(_task: Any) -> str:
    return "yes"
