"""A budget is a ceiling: at any concurrency and whatever tasks cost, the verdict keeps to it."""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_rubric_task, a_suite
from evalwright.engine.judges import Panel
from evalwright.engine.task_work import RunResources
from evalwright.models.protocol import Reply, Request
from faults.soaking import scaled
from subjects.judges import JUDGE, a_judge
from subjects.runs import Recording, Workshop

EXAMPLES = settings(max_examples=scaled(12, 40), deadline=None)
CENTS = Decimal("0.01")

cents = st.integers(0, 60)
ceilings = st.integers(1, 200)
concurrencies = st.sampled_from([1, 2, 4, 10])


class Spender:
    """An agent whose tasks cost what they are told to; it remembers what was paid, and when."""

    def __init__(self, costs: list[int | None], hold_s: float = 0) -> None:
        self.costs = costs
        self.hold_s = hold_s
        self.paid: list[int] = []
        self.running = 0
        self.begun: list[tuple[int, int]] = []  # what was paid, and how many ran with the new one

    async def __call__(self, task: Any) -> str:
        number = int(task.id.removeprefix("task-")) - 1
        self.running += 1
        self.begun.append((sum(self.paid), self.running))
        for _ in range(number % 3):
            await asyncio.sleep(self.hold_s)
        cost = self.costs[number]
        known = None if cost is None else float(cost * CENTS)
        if cost != 0:
            task.report_usage(input_tokens=1, output_tokens=1, cost_usd=known)
        self.paid.append(cost or 0)
        self.running -= 1
        return "yes"


def run(
    costs: list[int | None], ceiling: int, concurrency: int, hold_s: float = 0, **more: Any
) -> tuple[Spender, Recording]:
    """The agent, and the recording of its run with a ceiling in cents."""
    agent = Spender(costs, hold_s)
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder) / "runs.db")
        try:
            recording = workshop.run(
                a_suite(len(costs)),
                agent,
                concurrency=concurrency,
                max_cost_usd=float(ceiling * CENTS),
                **more,
            )
        finally:
            workshop.close()
    return agent, recording


def code(recording: Recording) -> str | None:
    return recording.failure.code if recording.failure else None


@EXAMPLES
@given(st.lists(cents, min_size=1, max_size=12), ceilings, concurrencies)
def test_who_spends_more_than_the_ceiling_fails_and_who_completes_has_not(
    costs: list[int], ceiling: int, concurrency: int
) -> None:
    agent, recording = run([*costs], ceiling, concurrency)
    if sum(costs) > ceiling:
        assert code(recording) == "budget_exhausted"
    elif sum(costs) + max(costs) <= ceiling:
        assert recording.summary.passed
    if recording.failure is None:
        assert sum(agent.paid) <= ceiling
    else:
        (breached,) = recording.of("cap.breached")
        assert breached["observed"] > breached["limit"] == float(ceiling * CENTS)


@EXAMPLES
@given(st.lists(cents, min_size=1, max_size=12), ceilings)
def test_a_task_begins_only_if_one_like_the_dearest_so_far_fits(
    costs: list[int], ceiling: int
) -> None:
    agent, _ = run([*costs], ceiling, 1)
    for number in range(1, len(agent.paid)):
        assert sum(costs[:number]) + max(costs[:number]) <= ceiling


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_task_that_costs_nothing_does_not_raise_the_ceiling(concurrency: int) -> None:
    agent, recording = run([0, 60, 60, 60], 100, concurrency, task_cost_usd=0.6)
    assert code(recording) == "budget_exhausted"
    assert sum(agent.paid) == 60


@EXAMPLES
@given(st.integers(1, 60), st.integers(1, 12), ceilings, concurrencies)
def test_tasks_that_cost_the_same_are_done_up_to_the_ceiling_and_never_beyond(
    cost: int, count: int, ceiling: int, concurrency: int
) -> None:
    agent, recording = run([cost] * count, ceiling, concurrency)
    fitting = max(1, ceiling // cost)  # the first is let in: nobody knows what it costs
    assert len(recording.of("eval.scored")) == len(agent.paid) == min(count, fitting)
    assert code(recording) == (None if count * cost <= ceiling else "budget_exhausted")


@EXAMPLES
@given(st.lists(cents, min_size=1, max_size=12), ceilings, concurrencies)
def test_never_more_tasks_run_at_once_than_fit(
    costs: list[int], ceiling: int, concurrency: int
) -> None:
    dearest = max(1, *costs)
    agent, _ = run([*costs], ceiling, concurrency, task_cost_usd=float(dearest * CENTS))
    for paid, running in agent.begun:
        assert running == 1 or paid + running * dearest <= ceiling


@EXAMPLES
@given(st.lists(st.none() | cents, min_size=1, max_size=8), concurrencies)
def test_a_call_without_a_price_fails_the_run_at_any_concurrency(
    costs: list[int | None], concurrency: int
) -> None:
    _, recording = run(costs, 10_000, concurrency)
    assert code(recording) == ("price_unknown" if None in costs else None)


@pytest.mark.parametrize("concurrency", [1, 2, 10])
def test_four_tasks_of_60_cents_do_not_pass_with_a_dollar(concurrency: int) -> None:
    agent, recording = run([60] * 4, 100, concurrency)
    assert code(recording) == "budget_exhausted"
    assert sum(agent.paid) <= 100


def test_with_an_estimate_that_is_too_low_all_are_scored_and_the_run_fails() -> None:
    agent, recording = run([60] * 4, 100, 4, task_cost_usd=0.01)
    assert len(agent.paid) == len(recording.of("eval.scored")) == 4
    assert code(recording) == "budget_exhausted"
    assert "$2.4 was spent, and max_cost_usd is $1" in str(recording.failure)


def test_a_free_agent_keeps_its_concurrency_after_the_first_answer() -> None:
    agent, recording = run([0] * 30, 1, 4, hold_s=0.02)
    assert recording.summary.passed
    at_once = [running for _, running in agent.begun]
    assert at_once[:2] == [1, 1]
    assert max(at_once) == 4


class DearJudge:
    """A judge that finds everything met, for 30 cents or a price that nobody knows."""

    name = JUDGE

    def __init__(self, price: float | None = 0.3) -> None:
        self.price = price

    async def ask(self, request: Request) -> Reply:
        reply = await a_judge(c1=True).model().ask(request)
        usage = msgspec.structs.replace(reply.usage, provider="own", cost_estimate_usd=self.price)
        return msgspec.structs.replace(reply, usage=usage)

    async def close(self) -> None: ...


def test_what_judges_cost_counts(workshop: Workshop) -> None:
    resources = RunResources(panel=Panel([DearJudge()]))
    suite = a_suite([a_rubric_task(f"task-{n}") for n in range(1, 6)], modes=("rubric",))
    recording = workshop.run(
        suite, lambda _: "yes", resources=resources, judges=(JUDGE,), max_cost_usd=0.7
    )
    assert code(recording) == "budget_exhausted"
    assert len(recording.of("provider.usage")) == len(recording.of("eval.scored")) == 2


def judged(workshop: Workshop, price: float | None, agent: Any, **more: Any) -> Recording:
    """A run on a host: the agent pays for itself, the host for the judge."""
    resources = RunResources(panel=Panel([DearJudge(price)]))
    suite = a_suite([a_rubric_task(f"task-{n}") for n in range(1, 9)], modes=("rubric",))
    return workshop.run(
        suite,
        agent,
        resources=resources,
        judges=(JUDGE,),
        max_cost_usd=0.7,
        known_costs_only=True,
        **more,
    )


def test_judges_keep_to_the_ceiling_where_agents_pay_for_themselves(workshop: Workshop) -> None:
    recording = judged(workshop, 0.3, lambda _: "yes", concurrency=8)
    assert code(recording) == "budget_exhausted"
    assert len(recording.of("provider.usage")) == 2


def test_judges_without_a_price_end_the_run_where_agents_may_have_none(workshop: Workshop) -> None:
    def unpriced(task: Any) -> str:
        task.report_usage(provider="own", model="m", input_tokens=1, output_tokens=1)
        return "yes"

    assert code(judged(workshop, None, unpriced)) == "price_unknown"
    assert judged(workshop, 0.0, unpriced).summary.passed
