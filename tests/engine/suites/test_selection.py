"""A part of a suite: which tasks it has, what it says when it has none, and what it is not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_suite, a_task
from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import RunOptions, TaskSelection
from evalwright.contracts.suite import Suite
from evalwright.engine.baselines import read_baseline
from evalwright.engine.session import Session
from evalwright.engine.suites.selection import NothingSelected, Wanted, select
from subjects.runs import Workshop, as_agent

IDS = ("order-status", "order-refund", "greeting", "farewell", "smoke-order")
TAGS = {"order-status": ["orders", "smoke"], "greeting": ["talk"], "smoke-order": ["smoke"]}


def a_tagged_suite() -> Suite:
    tasks = [msgspec.structs.replace(a_task(each), tags=TAGS.get(each, [])) for each in IDS]
    return a_suite(tasks)


def ids(suite: Suite) -> list[str]:
    return [task.task_id for task in suite.tasks]


def selected(**wanted: Any) -> list[str]:
    return ids(select(a_tagged_suite(), Wanted(**wanted), "suite.yaml")[0])


def refusal(**wanted: Any) -> str:
    with pytest.raises(NothingSelected) as refused:
        select(a_tagged_suite(), Wanted(**wanted), "suite.yaml")
    return str(refused.value)


def test_tasks_are_selected_by_patterns_of_their_ids() -> None:
    assert selected(tasks=("order-*",)) == ["order-status", "order-refund"]
    assert selected(tasks=("farewell", "*ing")) == ["greeting", "farewell"]
    assert selected(tasks=("order-[rx]*",)) == ["order-refund"]


def test_rows_are_selected_by_their_names_unless_another_task_has_that_id() -> None:
    rows = ["row-a1b200000000", "row-a1b200000000-2"]
    suite = a_suite([a_task(each, input="How long?") for each in rows])

    def chosen(suite: Suite, typed: str) -> list[str]:
        return [each.task_id for each in select(suite, Wanted(tasks=(typed,)), "s")[0].tasks]

    assert chosen(suite, "how-long-a1b2") == rows[:1]
    assert chosen(suite, "*-a1b2-2") == rows[1:]
    other = a_task("how-long-a1b2")
    suite = a_suite([*suite.tasks, other])
    assert chosen(suite, "how-long-a1b2") == ["how-long-a1b2"]
    assert chosen(suite, "how-long-a1b2*") == [*rows, "how-long-a1b2"]


def test_tasks_are_selected_by_one_of_several_tags() -> None:
    assert selected(tagged=("smoke",)) == ["order-status", "smoke-order"]
    assert selected(tagged=("talk", "orders")) == ["order-status", "greeting"]


def test_every_choice_must_agree_and_a_limit_comes_last() -> None:
    assert selected(tagged=("smoke",), tasks=("order-*",)) == ["order-status"]
    assert selected(tasks=("*order*",), limit=2) == ["order-status", "order-refund"]


def test_a_part_says_how_much_of_the_suite_it_is_and_why() -> None:
    _, selection = select(a_tagged_suite(), Wanted(tasks=("order-*",), limit=1), "suite.yaml")
    assert selection == TaskSelection(5, ["--task order-*", "--limit 1"])


def test_a_choice_that_takes_every_task_is_no_part() -> None:
    suite = a_tagged_suite()
    assert select(suite, Wanted(tasks=("*",), limit=9, sample=7), "suite.yaml") == (suite, None)


def test_a_choice_without_tasks_names_near_ones() -> None:
    assert refusal(tasks=("ordr-status",)) == (
        'suite.yaml: no task fits tasks=["ordr-status"]; did you mean order-status, order-refund?'
    )
    assert "did you mean order-status, order-refund, smoke-order?" in refusal(tasks=("Order",))
    assert "there are order-status, order-refund, " in refusal(tasks=("xyzzy",))
    assert refusal(tagged=("smok",)).endswith("no task has the tag smok; did you mean smoke?")
    assert "is selected otherwise" in refusal(tasks=("farewell",), tagged=("smoke",)).replace(
        "are selected otherwise", "is selected otherwise"
    )


@given(st.integers(1, 30), st.integers(), st.integers(1, 12))
def test_a_sample_is_the_same_for_the_same_seed_and_keeps_the_order(
    count: int, seed: int, size: int
) -> None:
    suite = a_suite(tasks=count)
    part, _ = select(suite, Wanted(sample=size, seed=seed), "suite.yaml")
    again, _ = select(suite, Wanted(sample=size, seed=seed), "suite.yaml")
    assert part == again
    assert len(part.tasks) == min(size, count)
    assert ids(part) == [each for each in ids(suite) if each in set(ids(part))]


def test_another_seed_takes_other_tasks_and_a_new_task_changes_a_sample_by_one_at_most() -> None:
    def sample(count: int, seed: int) -> set[str]:
        return set(ids(select(a_suite(tasks=count), Wanted(sample=10, seed=seed), "s")[0]))

    assert sample(100, 1) != sample(100, 2)
    assert len(sample(100, 1) - sample(101, 1)) <= 1


def test_without_a_seed_one_is_drawn_and_told() -> None:
    _, selection = select(a_suite(tasks=9), Wanted(sample=2), "s")
    assert selection is not None
    assert selection.by[0].startswith("--sample 2 --seed ")


def troubled(task: Any) -> str:
    """Passes task 1, fails task 2, and ends task 3 in an error."""
    if task.id == "task-3":
        raise ValueError("too hard")
    return "yes" if task.id == "task-1" else "no"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [({"failed": ""}, ["task-2", "task-3"]), ({"errors": ""}, ["task-3"])],
    ids=["failed", "errors"],
)
def test_tasks_are_selected_by_what_became_of_them_in_the_latest_run_of_the_suite(
    workshop: Workshop, choice: dict[str, str], expected: list[str]
) -> None:
    suite = a_suite(tasks=3)
    run_id = workshop.run(suite, troubled).run_id
    other = msgspec.structs.replace(suite, suite_id="acme.shop.evals.other")
    workshop.run(other, lambda _: "yes")
    part, selection = select(suite, Wanted(**choice), "suite.yaml", workshop.log)
    assert ids(part) == expected
    assert selection == TaskSelection(3, [f"--{next(iter(choice))} {run_id}"])


def test_of_repeats_every_task_that_failed_once_is_selected(workshop: Workshop) -> None:
    from evalwright.contracts.run_plan import Group

    suite = a_suite(tasks=3)
    for index, failing in enumerate(("task-1", "task-3"), 1):
        agent = lambda task, failing=failing: "no" if task.id == failing else "yes"  # noqa: E731
        workshop.run(suite, agent, group=Group("group_1", index, 2))
    part, _ = select(suite, Wanted(failed=""), "suite.yaml", workshop.log)
    assert ids(part) == ["task-1", "task-3"]


def test_a_run_without_failures_selects_nothing(workshop: Workshop) -> None:
    suite = a_suite(tasks=2)
    with pytest.raises(NothingSelected, match="there is no run of"):
        select(suite, Wanted(failed=""), "suite.yaml", workshop.log)
    run_id = workshop.run(suite, lambda _: "yes").run_id
    with pytest.raises(NothingSelected, match=f"no task failed in run {run_id}"):
        select(suite, Wanted(failed=""), "suite.yaml", workshop.log)


def test_after_a_part_without_failures_the_run_of_all_tasks_is_named(workshop: Workshop) -> None:
    suite = a_suite(tasks=3)
    whole = workshop.run(suite, troubled).run_id
    part, selection = select(suite, Wanted(tasks=("task-1",)), "suite.yaml")
    workshop.run(part, troubled, selection=selection, tags=["partial"])
    with pytest.raises(NothingSelected, match=f'of a part of the suite, .*: failed="{whole}"$'):
        select(suite, Wanted(failed=""), "suite.yaml", workshop.log)


def test_the_failures_of_another_suite_are_refused(workshop: Workshop) -> None:
    suite = a_suite(tasks=2)
    run_id = workshop.run(suite, lambda _: "no").run_id
    other = msgspec.structs.replace(suite, suite_id="acme.shop.evals.other")
    with pytest.raises(BadInput, match=r"is of acme\.shop\.evals\.refunds@"):
        select(other, Wanted(failed=run_id), "suite.yaml", workshop.log)


def test_a_plan_of_a_part_is_marked_and_remembers_what_chose_it() -> None:
    suite, selection = select(a_tagged_suite(), Wanted(limit=2), "suite.yaml")
    (plan,) = Session(as_agent(lambda _: "yes"), RunOptions(tags=("ci",))).plan(
        suite, "suite.yaml", selection=selection
    )
    _, opened, planned = plan.opening()
    assert plan.tags == ["ci", "partial"]
    assert opened.task_count == 2
    assert planned.selection == TaskSelection(5, ["--limit 2"])


def test_a_run_of_a_part_is_no_baseline_unless_it_is_allowed_to_be(workshop: Workshop) -> None:
    suite = a_suite(tasks=3)
    part, selection = select(suite, Wanted(limit=2), "suite.yaml")
    run_id = workshop.run(part, lambda _: "yes", selection=selection).run_id
    with pytest.raises(BadInput, match=r"is of a part of its suite \(2 of 3 tasks, by --limit 2"):
        read_baseline(workshop.log, run_id, part)
    assert len(read_baseline(workshop.log, run_id, part, allow_partial=True).tasks) == 2


def test_a_part_is_compared_with_the_same_part_of_a_whole_run(workshop: Workshop) -> None:
    suite = a_suite(tasks=3)
    run_id = workshop.run(suite, lambda task: "no" if task.id == "task-3" else "yes").run_id
    part, _ = select(suite, Wanted(tasks=("task-2", "task-3")), "suite.yaml")
    baseline = read_baseline(workshop.log, run_id, part, is_part=True)
    assert [task.passed for task in baseline.tasks] == [True, False]
    assert baseline.aggregate_score == 0.5


def test_a_part_that_is_resumed_stays_the_same_part(workshop: Workshop) -> None:
    part, selection = select(a_suite(tasks=3), Wanted(limit=2), "suite.yaml")

    def broken(_task: Any) -> str:
        raise ValueError("not there yet")

    failed = workshop.run(part, broken, selection=selection, tags=("partial",))
    assert failed.failure is not None
    resumed = workshop.resume(failed.run_id, lambda _: "yes")
    assert resumed.summary.task_count == 2
    assert resumed.of("run.started")[0]["tags"] == ["partial"]
    assert resumed.of("evalwright.planned")[0]["selection"] == {"of": 3, "by": ["--limit 2"]}
