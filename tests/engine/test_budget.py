"""A budget for a run: it stops in good order, and goes on when there is more to spend."""

from typing import Any

from builders import a_suite
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.machine import Budget
from evalwright.engine.plan import plan_run
from evalwright.scoring.summary import Tally
from subjects.runs import Workshop, as_agent


def costing(price: float | None) -> Any:
    def answer(task: Any) -> str:
        task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=price)
        return "yes"

    return answer


def test_a_run_stops_when_its_budget_is_spent(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(10), costing(0.4), concurrency=1, max_cost_usd=1.0)
    assert recording.failure is not None
    assert recording.failure.code == "budget_exhausted"
    why = "$0.8 was spent, the next task may cost $0.4, and {} is $1"
    assert why.format("max_cost_usd") in str(recording.failure)
    assert recording.of("run.failed")[0]["error"]["message"] == why.format("--max-cost")
    assert len(recording.of("eval.scored")) == 2
    (breached,) = recording.of("cap.breached")
    assert breached == {"kind": "budget-cost", "limit": 1.0, "observed": 1.2}


def test_it_goes_on_with_a_larger_budget_and_counts_what_was_spent(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(4), costing(0.4), concurrency=1, max_cost_usd=1.0)
    resumed = workshop.resume(failed.run_id, costing(0.4), max_cost_usd=9.0)
    assert resumed.summary.passed_count == 4
    assert resumed.summary.total_cost_usd == 1.6


def test_it_stops_again_at_once_with_the_same_budget(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(4), costing(0.4), concurrency=1, max_cost_usd=1.0)
    again = workshop.resume(failed.run_id, costing(0.4))
    assert again.failure is not None
    assert again.failure.code == "budget_exhausted"
    assert len(again.of("eval.scored")) == 2


def test_attempts_that_a_kill_cut_off_count_as_much_as_a_task_may_cost() -> None:
    tally = Tally(a_suite(4))
    for task_id, price in (("task-1", 0.3), ("task-2", 0.1)):
        usage = ProviderUsage("acme", "small-1", 1, 1, cost_estimate_usd=price)
        tally.add_usage(usage, task_id)
        tally.add_cut_off(task_id)
    tally.add_cut_off("task-3")
    tally.spending.is_cost_known = True
    agent = as_agent(costing(0.1))
    plan = plan_run(a_suite(4), "suite.json", agent, RunOptions(max_cost_usd=1.0))
    budget = Budget(plan, tally.spending)

    assert budget.room(4) == 0
    over = budget.overspent(is_complete=False)
    assert over is not None
    assert over.error.message == (
        "$0.4 was spent, up to $0.5 more by tasks that were cut off, the next task may cost $0.3, "
        "and --max-cost is $1"
    )
    assert over.breached is not None
    assert over.breached.observed == 1.2


def test_a_budget_that_lasts_changes_nothing(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(3), costing(0.4), max_cost_usd=1.2)
    assert recording.summary.passed


def test_what_a_cassette_answers_spends_nothing(workshop: Workshop) -> None:
    def taped(task: Any) -> str:
        usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.4, "cache_hit": True}
        task.report_usage(usage, model="small-1")
        return "yes"

    recording = workshop.run(a_suite(9), taped, concurrency=1, max_cost_usd=1.0)
    assert recording.summary.total_cost_usd == 3.6


def test_a_call_without_a_price_cannot_be_held_to_a_budget(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(9), costing(None), concurrency=1, max_cost_usd=1.0)
    assert recording.failure is not None
    assert "no known price" in str(recording.failure)
    assert len(recording.of("eval.scored")) == 1


def test_whoever_has_given_a_price_may_go_on(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(4), costing(None), concurrency=1, max_cost_usd=1.0)
    resumed = workshop.resume(failed.run_id, costing(0.1))
    assert resumed.summary.passed_count == 4
    assert resumed.summary.total_cost_usd is None


def of_tokens(count: int) -> Any:
    def answer(task: Any) -> str:
        task.report_usage(model="small-1", input_tokens=count - 1, output_tokens=1)
        return "yes"

    return answer


def test_tokens_are_a_budget_whatever_they_cost(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(10), of_tokens(400), concurrency=1, max_tokens_total=1000)
    assert failed.failure is not None
    assert failed.failure.code == "budget_exhausted"
    why = "800 tokens were used, the next task may use 400, and {} is 1,000"
    assert why.format("max_tokens_total") in str(failed.failure)
    assert failed.of("run.failed")[0]["error"]["message"] == why.format("--max-tokens-total")
    assert failed.of("cap.breached") == [
        {"kind": "budget-tokens", "limit": 1000.0, "observed": 1200.0}
    ]
    assert len(failed.of("eval.scored")) == 2
    again = workshop.resume(failed.run_id, of_tokens(400))
    assert again.failure is not None
    assert again.failure.code == "budget_exhausted"
    assert len(again.of("eval.scored")) == 2
    resumed = workshop.resume(again.run_id, of_tokens(400), max_tokens_total=9000)
    assert resumed.summary.passed_count == 10


def test_a_task_that_uses_more_tokens_than_all_fails_the_run(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(2), of_tokens(1200), concurrency=1, max_tokens_total=1000)
    assert "1,200 tokens were used, and max_tokens_total is 1,000" in str(failed.failure)


def test_tokens_of_judges_and_of_models_on_this_machine_count_and_recorded_ones_do_not() -> None:
    tally = Tally(a_suite(4))
    tally.add_usage(ProviderUsage("acme", "small-1", 10, 5), "task-1")
    tally.add_usage(ProviderUsage("acme", "judge-1", 20, 5), "task-1", is_verdict=True)
    tally.add_usage(ProviderUsage("local", "smollm2", 3, 2, total_tokens=6), "task-2")
    tally.add_usage(ProviderUsage("acme", "small-1", 100, 5, cache_hit=True), "task-2")
    assert (tally.spending.tokens, tally.spending.most_tokens) == (46, 40)


def test_of_two_budgets_the_narrower_one_holds(workshop: Workshop) -> None:
    limits: dict[str, Any] = {"max_cost_usd": 1.0, "max_tokens_total": 100}
    by_cost = workshop.run(a_suite(10), costing(0.4), concurrency=1, **limits)
    assert by_cost.of("cap.breached")[0]["kind"] == "budget-cost"
    limits["max_cost_usd"] = 100.0
    by_tokens = workshop.run(a_suite(60), costing(0.4), concurrency=1, **limits)
    assert by_tokens.of("cap.breached")[0]["kind"] == "budget-tokens"
    assert len(by_tokens.of("eval.scored")) == 50
