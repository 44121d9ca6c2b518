"""The summary: from recorded scores and usage, in whatever order they came."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    Answer,
    a_score,
    a_suite,
    a_summary,
    a_tally,
    a_task,
    a_usage,
    an_error,
    as_document,
)
from evalwright.contracts.events import SIMULATED_USER, ProviderUsage
from evalwright.contracts.schema import SUMMARY, check_schema
from evalwright.contracts.suite import Suite
from evalwright.contracts.summary import EvalSummary, SafetyFinding, to_json
from evalwright.scoring.summary import Tally, task_cost
from evalwright.scoring.thresholds import Cost

prices = st.none() | st.floats(0, 10, allow_subnormal=False)
recorded = st.tuples(
    st.sampled_from([0.0, 1.0]),
    st.none() | st.integers(0, 10_000),
    st.lists(prices, max_size=3),
)


def tallied(suite: Suite, facts: list) -> Tally:
    tally = Tally(suite)
    for fact in facts:
        (tally.add_score if hasattr(fact, "task_id") else tally.add_usage)(fact)
    return tally


def facts_of(records: list) -> list:
    """What a run records: a score per task, and a usage per model call."""
    facts: list = []
    for number, (score, latency, costs) in enumerate(records, 1):
        usages = [a_usage(cost) for cost in costs]
        cost = task_cost(usages)
        facts += [a_score(f"task-{number}", score, latency_ms=latency, cost_usd=cost), *usages]
    return facts


# One way from facts to summary.


@given(st.lists(recorded, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(records, random):
    suite = a_suite(len(records), max_cost_usd=5, max_p95_latency_ms=5000)
    facts = facts_of(records)
    shuffled = random.sample(facts, len(facts))
    assert to_json(tallied(suite, shuffled).summary()) == to_json(tallied(suite, facts).summary())
    assert tallied(suite, shuffled).broken_bars() == tallied(suite, facts).broken_bars()


@given(st.lists(recorded, min_size=1, max_size=6))
def test_any_summary_is_valid_by_our_schema_and_adds_up(records):
    summary = tallied(a_suite(len(records)), facts_of(records)).summary()
    assert check_schema(as_document(summary), SUMMARY) == []
    assert summary.task_count == len(summary.tasks) == len(records)
    assert summary.passed_count == sum(task.passed for task in summary.tasks)
    assert summary.aggregate_score == summary.passed_count / summary.task_count


@given(st.lists(recorded, min_size=1, max_size=6))
def test_a_run_passes_exactly_when_no_bar_is_broken(records):
    suite = a_suite(len(records), max_cost_usd=1, max_p95_latency_ms=5000)
    tally = tallied(suite, facts_of(records))
    assert tally.summary().passed is (tally.broken_bars() == [])


def test_tasks_stand_in_the_order_of_the_suite():
    suite = a_suite([a_task("z"), a_task("a"), a_task("m")])
    tally = tallied(suite, [a_score("m"), a_score("a"), a_score("z")])
    assert [task.task_id for task in tally.summary().tasks] == ["z", "a", "m"]


def test_a_task_tells_its_score_cost_and_latency():
    answers = {"task-1": Answer("no", latency_ms=42, usages=[a_usage(0.1), a_usage(0.2)])}
    [task] = a_summary(a_suite(1), answers).tasks
    assert (task.score, task.passed, task.latency_ms, task.cost_usd) == (0, False, 42, 0.3)


def test_an_error_is_never_a_pass():
    summary = a_summary(a_suite(1, pass_score=0.5), {"task-1": an_error()})
    assert (summary.aggregate_score, summary.passed, summary.passed_count) == (0, False, 0)


def test_the_model_class_is_told_where_it_is_known():
    tally = Tally(a_suite(1), "reasoning")
    tally.add_score(a_score())
    assert as_document(tally.summary())["evaluatedModelClass"] == "reasoning"
    assert "evaluatedModelClass" not in as_document(a_summary())


# Findings.


@pytest.mark.parametrize("order", [*permutations(("low", "critical", "high"))], ids="-".join)
def test_of_repetitions_the_gravest_finding_of_each_kind_counts(order):
    tally = Tally(a_suite(1), looks_for_findings=True)
    for number, severity in enumerate(order):
        tally.start_again("task-1")  # an attempt that broke off counts for nothing
        tally.add_findings("task-1", [SafetyFinding("forgotten", "critical")])
        tally.start_again("task-1")
        tally.add_findings("task-1", [SafetyFinding("leak", severity)])
        if number == 1:
            tally.add_findings("task-1", [SafetyFinding("pressed", "medium")])
        if number < 2:  # the last one is at work
            tally.keep_findings("task-1")
    tally.add_score(a_score())
    assert tally.results["task-1"].safety_findings == [
        SafetyFinding("leak", "critical"),
        SafetyFinding("pressed", "medium"),
    ]


# Cost.


@pytest.mark.parametrize(
    ("provider", "price", "recorded", "spent"),
    [
        ("acme", 0.4, False, Cost(0.4, 1, 0)),
        ("acme", None, False, Cost(0, 1, 1)),
        ("local", 0.4, False, Cost(0.4, 1, 0)),  # somebody has given a price for the machine
        ("local", None, False, Cost(0, 0, 0)),
        ("scripted", 0.4, False, Cost(0.4, 1, 0)),
        ("scripted", None, False, Cost(0, 0, 0)),
        ("acme", 0.4, True, Cost(0, 0, 0)),
        ("acme", None, True, Cost(0, 0, 0)),
    ],
)
def test_models_on_this_machine_and_recorded_answers_are_free_unless_a_price_is_given(
    provider, price, recorded, spent
):
    tally = Tally(a_suite(1))
    usage = ProviderUsage(provider, "m", 1, 1, cost_estimate_usd=price, cache_hit=recorded or None)
    tally.add_usage(usage, "task-1", is_verdict=True)
    assert tally.spent == spent
    assert tally.spending.unpriced_verdicts == spent.unpriced_calls
    assert float(tally.spending.dearest) == spent.known_usd
    assert tally.cost == Cost(price or 0, 1, int(price is None))  # as if all had been asked


def test_three_times_a_tenth_does_not_exceed_three_tenths():
    answers = {"task-1": Answer(usages=[a_usage(0.1)] * 3)}
    summary = a_summary(a_suite(1, max_cost_usd=0.3), answers)
    assert summary.total_cost_usd == 0.3
    assert summary.passed


def test_one_unknown_price_leaves_out_the_cost_of_its_task_and_the_total():
    answers = {
        "task-1": Answer(usages=[a_usage(0.1), a_usage(None)]),
        "task-2": Answer(usages=[a_usage(0.2)]),
    }
    document = as_document(a_summary(a_suite(2), answers))
    assert "totalCostUsd" not in document
    assert [task.get("costUsd") for task in document["tasks"]] == [None, 0.2]


def test_no_usage_leaves_out_the_cost():
    document = as_document(a_summary(a_suite(1, max_cost_usd=0)))
    assert "totalCostUsd" not in document
    assert "costUsd" not in document["tasks"][0]
    assert document["passed"] is True


def test_a_cost_of_0_that_is_known_is_told():
    document = as_document(a_summary(a_suite(1), {"task-1": Answer(usages=[a_usage(0.0)])}))
    assert document["totalCostUsd"] == 0


def test_an_unknown_price_fails_a_run_with_a_cost_limit_and_the_reason_says_so():
    usages = [a_usage(0.1), a_usage(None), a_usage(None)]
    tally = a_tally(a_suite(1, max_cost_usd=100), {"task-1": Answer(usages=usages)})
    assert not tally.summary().passed
    assert "2 of 3 model calls have no known price" in tally.broken_bars()[0]


@pytest.mark.parametrize(
    ("costs", "total"), [([], None), ([None], None), ([0.1, None], None), ([0.1, 0.2], 0.3)]
)
def test_the_cost_of_a_task_is_known_only_when_every_call_has_a_price(costs, total):
    assert task_cost([a_usage(cost) for cost in costs]) == total


# As bytes.


def test_the_same_summary_gives_the_same_bytes_ending_in_a_newline():
    text = to_json(a_summary())
    assert text == to_json(a_summary())
    assert text.startswith(b'{\n  "suiteId": "acme.shop.evals.refunds",\n')
    assert text.endswith(b"}\n")


def test_a_summary_is_read_back_as_it_was_written():
    summary = a_summary()
    assert msgspec.json.decode(to_json(summary), type=EvalSummary) == summary


def test_weights_count_though_no_task_has_the_usual_one():
    weights = {"heavy": 3.0, "light": 2.0}
    tasks = [msgspec.structs.replace(a_task(name), weight=w) for name, w in weights.items()]
    facts = [a_score("heavy", 1.0), a_score("light", 0.0)]
    assert tallied(a_suite(tasks=tasks), facts).summary().aggregate_score == 0.6


def test_what_playing_users_has_cost_is_told_apart():
    tally = Tally(a_suite(1))
    for cost, node in ((0.1, "user"), (0.2, "user"), (None, "user"), (0.4, None), (None, None)):
        node_id = SIMULATED_USER if node else None
        tally.add_usage(msgspec.structs.replace(a_usage(cost), node_id=node_id), "task-1")
    assert tally.users == Cost(0.3, 3, 1)
    assert tally.cost == Cost(0.7, 5, 2)
