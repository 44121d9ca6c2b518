"""Budgets: what the host pays is watched over in full; what others pay, as far as it is known."""

from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from host.server import running_host

AGENT = """
async def answer(task):
    task.report_usage(provider="own", model="unpriced", input_tokens=1, output_tokens=1)
    return "yes"
"""

DEAR = """
import asyncio

async def answer(task):
    await asyncio.sleep(0.01)
    task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.6)
    return "yes"
"""


def outcome(tmp_path: Path, **configurable: Any) -> dict[str, Any]:
    (tmp_path / "agent.py").write_text(AGENT)
    settings = {
        "concurrency": 1,
        "agents": {"acme.unpriced": {"ref": f"{tmp_path / 'agent.py'}:answer"}},
    }
    with running_host(tmp_path / "host.db", settings=settings) as served:
        caller = served.caller()
        caller.publish(a_suite(3))
        run_id = caller.start(
            "acme.shop.evals.refunds@1.0.0", "acme.unpriced", configurable=configurable
        )
        caller.finish(run_id)
        return caller.snapshot(run_id)


def test_an_agent_that_pays_for_its_own_models_may_leave_their_prices_unknown(tmp_path: Path):
    assert outcome(tmp_path)["status"] == "completed"


def test_a_budget_that_was_asked_for_ends_with_the_first_call_of_unknown_price(tmp_path: Path):
    ended = outcome(tmp_path, maxCostUsd=1)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "price_unknown")


@pytest.mark.parametrize("configurable", [{}, {"concurrency": 1}, {"taskCostUsd": 0.01}])
def test_a_run_that_costs_more_than_the_host_allows_fails_at_any_concurrency(
    tmp_path: Path, configurable: dict[str, Any]
):
    (tmp_path / "dear.py").write_text(DEAR)
    agents = {"acme.dear": {"ref": f"{tmp_path / 'dear.py'}:answer"}}
    settings = {"max_cost_usd_per_suite": 1.0, "agents": agents}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        caller = served.caller()
        caller.publish(a_suite(4))
        run_id = caller.start(
            "acme.shop.evals.refunds@1.0.0", "acme.dear", configurable=configurable
        )
        caller.finish(run_id)
        ended = caller.snapshot(run_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "budget_exhausted")
    assert "--max-cost" not in ended["error"]["message"]
