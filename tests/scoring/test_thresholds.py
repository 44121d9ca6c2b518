"""The bars of a run: what tasks must come to, cost that must be known, p95 by nearest rank."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_suite
from evalwright.contracts.summary import SafetyFinding, TaskResult
from evalwright.scoring.pass_bars import missed_bars
from evalwright.scoring.thresholds import (
    Cost,
    broken_bars,
    finite,
    is_blocking,
    mean,
    p95,
    pass_score,
)

NOTHING = Cost()
latencies = st.lists(st.integers(0, 10**7), min_size=1, max_size=200)


def reasons(
    aggregate: float = 1.0, cost: Cost = NOTHING, latencies_ms: list[int] | None = None, **bars
) -> list[str]:
    suite = a_suite(**bars)
    results = {task.task_id: TaskResult(task.task_id, aggregate, True) for task in suite.tasks}
    missed = missed_bars(suite, results)
    return missed + broken_bars(suite.thresholds, cost, latencies_ms or [])


# Score.


def test_without_a_declared_bar_every_task_must_pass_and_0_7_is_that_of_a_rubric_task():
    assert pass_score(a_suite().thresholds) == 0.7
    assert reasons(0.1) == []
    suite = a_suite(2)
    results = {
        task.task_id: TaskResult(task.task_id, 0.9, number == 0)
        for number, task in enumerate(suite.tasks)
    }
    assert missed_bars(suite, results) == [
        "1 of 2 tasks passed, and every task must pass (default)"
    ]


def test_a_declared_bar_takes_its_place_and_0_is_one():
    assert reasons(0.5, pass_score=0.5) == []
    assert reasons(0.9, pass_score=0.95) == ["score 0.9 is below 0.95 (passScore)"]
    assert reasons(0.0, pass_score=0) == []


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_bar_is_met_exactly_when_the_score_reaches_it(aggregate, bar):
    assert bool(reasons(aggregate, pass_score=bar)) is (aggregate < bar)


def test_a_score_just_below_the_bar_does_not_look_like_the_bar():
    assert reasons(0.69999, pass_score=0.7) == ["score 0.69999 is below 0.7 (passScore)"]


@given(st.lists(st.floats(0, 1), min_size=1), st.randoms(use_true_random=False))
def test_the_mean_does_not_depend_on_the_order(scores, random):
    shuffled = random.sample(scores, len(scores))
    assert mean(shuffled) == mean(scores)
    assert min(scores) <= mean(scores) <= max(scores)


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_so_many_passes_of_so_many_are_the_fraction_that_people_expect(passed, more):
    total = passed + more
    assert mean([1.0] * passed + [0.0] * more) == passed / total


# Cost.


def test_no_usage_is_no_cost():
    assert reasons(cost=Cost(calls=0), max_cost_usd=0) == []
    assert Cost().total_usd is None


def test_a_known_cost_is_held_against_the_limit():
    assert reasons(cost=Cost(0.5, calls=2), max_cost_usd=0.5) == []
    assert reasons(cost=Cost(0.51, calls=2), max_cost_usd=0.5) == [
        "cost $0.51 is above $0.5 (maxCostUsd)"
    ]


def test_a_cost_just_above_the_limit_does_not_look_like_the_limit():
    [reason] = reasons(cost=Cost(0.30000001, calls=2), max_cost_usd=0.3)
    assert reason == "cost $0.30000001 is above $0.3 (maxCostUsd)"


@pytest.mark.parametrize("known", [0.0, 0.1])
def test_a_limit_cannot_be_met_while_the_price_of_a_call_is_unknown(known):
    [reason] = reasons(cost=Cost(known, calls=3, unpriced_calls=1), max_cost_usd=100)
    assert "1 of 3 model calls have no known price" in reason
    assert "maxCostUsd" in reason


def test_an_unknown_price_and_a_limit_already_passed_are_both_told():
    assert len(reasons(cost=Cost(2, calls=3, unpriced_calls=1), max_cost_usd=1)) == 2


def test_an_unknown_price_matters_only_where_a_limit_is_declared():
    assert reasons(cost=Cost(0.1, calls=3, unpriced_calls=3)) == []


def test_a_total_is_told_only_when_every_price_is_known():
    assert Cost(0.25, calls=2).total_usd == 0.25
    assert Cost(0.0, calls=2).total_usd == 0
    assert Cost(0.25, calls=2, unpriced_calls=1).total_usd is None


# Latency.


@given(latencies)
def test_p95_is_the_least_latency_that_95_percent_do_not_exceed(values):
    def share_within(bound: int) -> int:
        return 100 * sum(value <= bound for value in values)

    enough = [value for value in values if share_within(value) >= 95 * len(values)]
    assert p95(values) == min(enough)


@given(latencies, st.randoms(use_true_random=False))
def test_p95_is_a_latency_that_occurred_whatever_the_order(values, random):
    assert p95(random.sample(values, len(values))) == p95(values)
    assert p95(values) in values


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (19, 19), (20, 19), (21, 20), (100, 95)])
def test_p95_has_the_rank_of_the_definition(count, rank):
    assert p95(list(range(1, count + 1))) == rank


def test_the_latency_limit_holds_for_p95_and_not_for_the_slowest():
    fast = [10] * 19
    assert reasons(latencies_ms=[*fast, 9999], max_p95_latency_ms=10) == []
    assert reasons(latencies_ms=[*fast, 11, 11], max_p95_latency_ms=10) == [
        "p95 latency 11 ms is above 10 ms (maxP95LatencyMs)"
    ]


def test_without_a_measured_latency_no_limit_is_broken():
    assert reasons(latencies_ms=[], max_p95_latency_ms=0) == []


# Together.


def test_every_bar_that_was_missed_is_told():
    found = reasons(
        0.1, Cost(5, calls=1), [500], pass_score=0.9, max_cost_usd=1, max_p95_latency_ms=100
    )
    assert [reason.split()[0] for reason in found] == ["score", "cost", "p95"]


# Budgets.


@pytest.mark.parametrize(
    ("cost", "unpriced_before", "exceeded"),
    [
        (Cost(0.99, calls=3), 0, False),
        (Cost(1.0, calls=3), 0, False),
        (Cost(1.01, calls=3), 0, True),
        (Cost(0.0, calls=3, unpriced_calls=1), 0, True),
        (Cost(0.0, calls=3, unpriced_calls=1), 1, False),
        (Cost(0.0, calls=3, unpriced_calls=2), 1, True),
        (Cost(1.01, calls=3, unpriced_calls=1), 1, True),
        (Cost(0.0, calls=3, unpriced_calls=2), None, False),
        (Cost(1.01, calls=3, unpriced_calls=2), None, True),
        (Cost(), 0, False),
    ],
)
def test_a_budget_is_exceeded_when_more_is_spent_or_a_new_call_has_no_price(
    cost, unpriced_before, exceeded
):
    assert cost.exceeds(1.0, unpriced_before) is exceeded


def test_calls_without_a_price_count_from_the_first_unless_said_otherwise():
    assert Cost(0.0, calls=1, unpriced_calls=1).exceeds(1.0)


def test_why_a_budget_is_exceeded_is_told_by_what_is_spent_first():
    assert str(Cost(1.5, 4, 2).why_exceeded(1.0)) == "$1.5 was spent, and max_cost_usd is $1"
    assert str(Cost(1.00000001, 4).why_exceeded(1.0)) == (
        "$1.00000001 was spent, and max_cost_usd is $1.0"
    )
    assert str(Cost(1.0, 4, 2).why_exceeded(1.0)) == (
        "2 of 4 model calls have no known price, so max_cost_usd $1 cannot be enforced; "
        "add prices to evalwright.toml"
    )


def test_a_latency_on_the_limit_is_within_it():
    assert reasons(latencies_ms=[100], max_p95_latency_ms=100) == []
    assert reasons(latencies_ms=[101], max_p95_latency_ms=100) == [
        "p95 latency 101 ms is above 100 ms (maxP95LatencyMs)"
    ]
    assert reasons(latencies_ms=[], max_p95_latency_ms=0) == []


def test_which_bar_was_missed_is_told():
    assert reasons(0.5, pass_score=0.6) == ["score 0.5 is below 0.6 (passScore)"]


def test_an_unknown_price_is_told_with_how_many_there_are():
    (reason,) = reasons(cost=Cost(0.2, calls=3, unpriced_calls=1), max_cost_usd=0.5)
    assert reason == (
        "cost is unknown: 1 of 3 model calls have no known price, so maxCostUsd $0.5 cannot be "
        "shown to hold"
    )


def test_a_cost_beyond_all_numbers_is_the_largest_number():
    largest = 1.7976931348623157e308
    assert finite(Decimal("1e400")) == largest
    assert finite(Decimal("0.25")) == 0.25


@pytest.mark.parametrize(
    ("severities", "blocking"),
    [
        ([], False),
        (["low", "medium"], False),
        (["low", "high"], True),
        (["critical"], True),
    ],
)
def test_high_and_critical_findings_block(severities, blocking):
    assert is_blocking([SafetyFinding("x", severity) for severity in severities]) is blocking
