"""Agents and models beside each other: their figures, and where they differ."""

import pytest

from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.scoring.agent_comparison import VariantRuns, side_by_side


def summary(passed: str, latencies: tuple[int, ...] = (), cost: float | None = None) -> EvalSummary:
    """A run of tasks that passed (`+`) or failed (`-`)."""
    tasks = [
        TaskResult(
            f"task-{number}",
            float(each == "+"),
            each == "+",
            latency_ms=latencies[number] if latencies else None,
        )
        for number, each in enumerate(passed)
    ]
    count = passed.count("+")
    score = count / len(passed)
    return EvalSummary(
        "acme.evals.desk", "1.0.0", score, True, len(passed), count, tasks, total_cost_usd=cost
    )


def variant(name: str, *summaries: EvalSummary) -> VariantRuns:
    return VariantRuns(name, [f"run_{name}"], summaries)


def test_each_variant_has_its_figures_with_an_interval() -> None:
    fast = variant("fast", summary("++-+", (1, 2, 3, 40), 0.5))
    slow = variant("slow", summary("++++", (10, 20, 30, 40)))
    found = side_by_side([fast, slow]).variants
    assert [each.passed_count for each in found] == [3, 4]
    assert [each.cost_usd for each in found] == [0.5, None]
    assert [(each.median_latency_ms, each.p95_latency_ms) for each in found] == [(2, 40), (20, 40)]
    low, high = found[0].pass_interval
    assert low < 0.75 < high


def test_each_is_compared_with_the_first_over_the_same_tasks() -> None:
    found = side_by_side(
        [variant("a", summary("-" * 10 + "+" * 10)), variant("b", summary("+" * 20))]
    )
    (change,) = found.changes
    assert (change.name, change.newly_passing, change.newly_failing) == ("b", 10, 0)
    assert change.pass_rate_change == pytest.approx(0.5)
    assert change.pass_rate_p < 0.01
    assert change.score_interval[0] > 0


def test_only_tasks_that_came_out_differently_are_listed() -> None:
    runs = [
        variant("a", summary("+-+")),
        variant("b", summary("++-")),
        variant("c", summary("+++")),
    ]
    found = side_by_side(runs)
    assert [(each.task_id, each.passed) for each in found.differences] == [
        ("task-1", [False, True, True]),
        ("task-2", [True, False, True]),
    ]


def test_a_repeated_task_passed_if_it_did_so_every_time() -> None:
    found = side_by_side([variant("a", summary("++"), summary("+-")), variant("b", summary("++"))])
    assert [each.passed_count for each in found.variants] == [1, 2]
    assert found.differences[0].scores == [0.5, 1.0]


def test_a_variant_that_fails_six_more_tasks_is_worse_beyond_chance_and_five_are_not() -> None:
    first = variant("a", summary("+" * 40))
    six, five = (variant(f"{n}", summary("-" * n + "+" * (40 - n))) for n in (6, 5))
    changes = side_by_side([first, six, five, first]).changes
    assert [change.is_worse for change in changes] == [True, False, False]
    assert changes[0].sentence == "Worse beyond chance: 40 of 40 → 34 of 40 passed (p = 0.031)."


def test_repeats_of_a_variant_show_that_a_single_task_broke() -> None:
    before = variant("a", *[summary("+++")] * 5)
    (change,) = side_by_side([before, variant("b", *[summary("++-")] * 5)]).changes
    assert change.is_worse
    assert [each.task_id for each in change.fallen] == ["task-2"]


def test_a_rate_is_of_all_tasks() -> None:
    (found,) = side_by_side([variant("a", summary("+---"))]).variants
    assert (found.pass_rate, found.passed_count, found.task_count) == (0.25, 1, 4)
