"""From what an agent reports to what a run costs, and the bars that decide a pass."""

from typing import Any

import pytest

from builders import a_suite
from subjects import logs
from subjects.runs import Workshop


class SlowTasks:
    """A clock by which the tasks of a run, one after the other, take these milliseconds."""

    def __init__(self, *latencies_ms: int) -> None:
        self._times = []
        now = 0.0
        for latency in latencies_ms:
            self._times += [now, now := now + latency / 1000]
        self._times.reverse()

    def now_us(self) -> int:
        return 1_767_225_600_000_000

    def monotonic_s(self) -> float:
        return self._times.pop()


def priced(*costs: float | None) -> Any:
    """An agent that makes one model call for each of these prices."""

    def agent(task: Any) -> str:
        for cost in costs:
            task.report_usage(
                provider="acme", model="m-1", input_tokens=10, output_tokens=5, cost_usd=cost
            )
        return "yes"

    return agent


def test_usage_becomes_an_event_and_the_cost_of_task_and_run(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=2), priced(0.1, 0.2))
    logs.assert_complete(recording.events)
    assert recording.of("provider.usage", "task-1") == [
        {
            "provider": "acme",
            "model": "m-1",
            "inputTokens": 10,
            "outputTokens": 5,
            "costEstimateUsd": cost,
        }
        for cost in (0.1, 0.2)
    ]
    assert recording.score("task-1")["costUsd"] == 0.3
    assert recording.summary.total_cost_usd == 0.6


def test_usage_may_be_told_in_either_spelling_and_in_full(workshop: Workshop) -> None:
    def agent(task: Any) -> str:
        task.report_usage({"inputTokens": 1, "outputTokens": 2, "costUsd": 0.5, "cacheHit": True})
        task.report_usage(
            input_tokens=1,
            output_tokens=2,
            total_tokens=3,
            cost_estimate_usd=0.25,
            currency="USD",
            cache_read_tokens=4,
            cache_write_tokens=5,
            trace_id="t-1",
        )
        return "yes"

    first, second = workshop.run(a_suite(1), agent).of("provider.usage")
    assert (first["costEstimateUsd"], first["cacheHit"]) == (0.5, True)
    assert second == {
        "provider": "unspecified",
        "model": "unspecified",
        "inputTokens": 1,
        "outputTokens": 2,
        "totalTokens": 3,
        "costEstimateUsd": 0.25,
        "currency": "USD",
        "cacheReadTokens": 4,
        "cacheWriteTokens": 5,
        "traceId": "t-1",
    }


def test_an_unknown_cost_is_left_out_and_not_called_zero(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=1), priced(0.1, None))
    assert "costEstimateUsd" not in recording.of("provider.usage")[1]
    assert "costUsd" not in recording.score("task-1")
    assert recording.summary.total_cost_usd is None


def test_no_usage_tells_of_no_cost(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=1, max_cost_usd=0), lambda _: "yes")
    assert recording.summary.passed
    assert recording.summary.total_cost_usd is None
    assert "costUsd" not in recording.score("task-1")


def test_a_known_cost_of_zero_is_told(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=1, max_cost_usd=0), priced(0))
    assert recording.summary.passed
    assert recording.summary.total_cost_usd == 0
    assert recording.score("task-1")["costUsd"] == 0


def test_a_failed_task_still_costs_what_it_used(workshop: Workshop) -> None:
    def agent(task: Any) -> str:
        priced(0.5)(task)
        if task.id == "task-1":
            raise ValueError("too hard")
        return "yes"

    recording = workshop.run(a_suite(tasks=2), agent)
    assert recording.score("task-1")["costUsd"] == 0.5
    assert recording.summary.total_cost_usd == 1.0


@pytest.mark.parametrize(
    "usage",
    [
        {"cost_usd": float("nan")},
        {"cost_usd": float("inf")},
        {"cost_usd": -0.01},
        {"cost_usd": "0.1"},
        {"input_tokens": -1},
        {"output_tokens": 1.5},
        {"provider": "\ud800"},
        {"provider": ""},
        {"model": 7},
        {"currency": "dollars"},
        {"api_key": "sk-123"},
    ],
    ids=repr,
)
def test_usage_that_cannot_be_is_refused_where_it_is_told(
    workshop: Workshop, usage: dict[str, Any]
) -> None:
    def agent(task: Any) -> str:
        with pytest.raises(ValueError, match="usage"):
            task.report_usage(**({"input_tokens": 1, "output_tokens": 1} | usage))
        return "yes"

    recording = workshop.run(a_suite(tasks=1, max_cost_usd=1), agent)
    assert recording.summary.passed
    assert recording.of("provider.usage") == []


class Name(str):
    """A name that carries more than its text."""

    __slots__ = ()


def test_usage_told_with_types_of_the_agents_own_does_not_crash_the_run(
    workshop: Workshop,
) -> None:
    """It may be taken for what it looks like or be refused; the run comes to an end either way."""

    def agent(task: Any) -> str:
        try:
            task.report_usage(model=Name("m-1"), input_tokens=1, output_tokens=1)
        except ValueError:
            return "yes"
        return "yes"

    recording = workshop.run(a_suite(tasks=2), agent)
    logs.assert_complete(recording.events)
    assert {usage["model"] for usage in recording.of("provider.usage")} <= {"m-1"}


def test_costs_too_large_for_a_number_do_not_break_the_summary(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=2, max_cost_usd=1), priced(1.5e308))
    assert not recording.summary.passed
    summary = recording.of("run.completed")[0]["outputs"]["evalSummary"]
    assert summary.get("totalCostUsd", 0) is not None


# Bars.


def test_a_run_passes_at_its_bar(workshop: Workshop) -> None:
    half = a_suite(tasks=2, pass_score=0.5)
    assert workshop.run(half, lambda task: "yes" if task.id == "task-1" else "no").summary.passed


def test_without_a_bar_of_its_own_a_run_needs_every_task(workshop: Workshop) -> None:
    def right_in(count: int) -> Any:
        return lambda task: "yes" if int(task.id.removeprefix("task-")) <= count else "no"

    assert workshop.run(a_suite(tasks=10), right_in(10)).summary.passed
    recording = workshop.run(a_suite(tasks=10), right_in(9))
    assert not recording.summary.passed
    assert recording.outcome is not None
    assert recording.outcome.broken_bars == [
        "9 of 10 tasks passed, and every task must pass (default)"
    ]


def test_a_run_may_not_cost_more_than_its_bar(workshop: Workshop) -> None:
    def passes(limit: float) -> bool:
        return workshop.run(a_suite(2, max_cost_usd=limit), priced(0.1, 0.2)).summary.passed

    assert passes(0.6)
    assert not passes(0.59)


def test_a_cost_bar_cannot_be_met_by_calls_of_unknown_price(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=2, max_cost_usd=100), priced(None))
    assert not recording.summary.passed
    assert recording.outcome is not None
    (reason,) = recording.outcome.broken_bars
    assert "2 of 2 model calls have no known price" in reason


def test_p95_is_a_latency_that_occurred(workshop: Workshop) -> None:
    """Of twenty tasks the nineteenth is the nearest rank; the slowest one does not count."""

    def passes(limit: int) -> bool:
        suite = a_suite(tasks=20, max_p95_latency_ms=limit)
        clock = SlowTasks(*range(10, 200, 10), 9000)
        recording = workshop.run(suite, lambda _: "yes", concurrency=1, clock=clock)
        assert recording.score("task-20")["latencyMs"] == 9000
        return recording.summary.passed

    assert passes(190)
    assert not passes(189)


def test_every_bar_that_was_missed_is_named(workshop: Workshop) -> None:
    suite = a_suite(tasks=1, pass_score=1, max_cost_usd=0.1, max_p95_latency_ms=5)

    def dear(task: Any) -> str:
        priced(0.5)(task)
        return "no"

    recording = workshop.run(suite, dear, concurrency=1, clock=SlowTasks(6))
    assert recording.outcome is not None
    assert [reason.split()[0] for reason in recording.outcome.broken_bars] == [
        "score",
        "cost",
        "p95",
    ]
