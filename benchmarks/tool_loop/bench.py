"""What a turn of the tool loop costs: CPU time of the process per call of the model.

    python benchmarks/tool_loop/bench.py [--tasks 200] [--turns 10]

The model answers at once and in this process: it asks for one tool with a few arguments on every
turn but the last. Fixtures answer with about 1 KB of JSON. What is measured twice:

- the loop alone, with events that go nowhere;
- whole runs into an SQLite log, scoring and the writing thread included.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from evalwright.agents.manifest import ManifestAgent, load_manifest
from evalwright.agents.protocol import Invocation
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.suite import Suite
from evalwright.engine.plan import RunOptions, plan_run
from evalwright.engine.runner import start_run
from evalwright.models.protocol import Reply, Request, ToolUse
from evalwright.store.sqlite.log import SqliteLog

SAMPLES = 5
TOOL = "shop:orders.get"
TARGET_MS = 1.0
USAGE = ProviderUsage("scripted", "instant", 400, 40)
ORDER = {"id": "A-17", "lines": [{"sku": f"S-{n}", "name": "Widget", "n": n} for n in range(24)]}


class InstantModel:
    """Asks for a tool until its turns are used up, then answers."""

    name = "scripted:instant"

    def __init__(self, turns: int) -> None:
        self.turns = turns

    async def ask(self, request: Request) -> Reply:
        turn = sum(message.role == "assistant" for message in request.messages) + 1
        if turn == self.turns:
            return Reply("yes", "stop", USAGE)
        use = ToolUse(f"call_{turn}", "shop_orders_get", '{"id": "A-17", "fields": ["lines"]}')
        return Reply("Let me look.", "tools", USAGE, tool_uses=(use,), reasoning="The order tells.")

    async def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--turns", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as scratch:
        folder = Path(scratch)
        agent = an_agent(folder, chosen.turns)
        suite = a_suite(chosen.tasks)
        turns = chosen.tasks * chosen.turns
        print(f"{chosen.tasks} tasks of {chosen.turns} turns, CPU per turn, {SAMPLES} samples")
        show("loop alone, events dropped", turns, lambda _: loop_alone(agent, suite))
        show("whole run into SQLite", turns, lambda n: whole_run(agent, suite, folder / f"{n}.db"))
    print(f"target: {TARGET_MS:g} ms")


def show(name: str, turns: int, work: Callable[[int], Any]) -> None:
    samples = []
    for sample in range(SAMPLES):
        started = time.process_time()
        asyncio.run(work(sample))
        samples.append((time.process_time() - started) / turns * 1000)
    print(f"  {name:28}  median {statistics.median(samples):.3f} ms  best {min(samples):.3f} ms")


async def loop_alone(agent: ManifestAgent, suite: Suite) -> None:
    for task in suite.tasks:
        invocation = Invocation(
            run_id="run_a",
            invocation_id="inv-0001",
            agent_id=agent.agent_id,
            task=task,
            record=lambda _: None,
            keep_pace=nothing,
        )
        invocation.allowed_tools = agent.allowed_tools
        assert await agent.invoke(invocation) == "yes"


async def whole_run(agent: ManifestAgent, suite: Suite, path: Path) -> None:
    log = SqliteLog(path)
    try:
        plan = plan_run(suite, "suite.json", agent, RunOptions())
        outcome = await start_run(log, agent, plan)
        assert outcome.summary.passed_count == len(suite.tasks)
    finally:
        log.close()


async def nothing() -> None:
    pass


def an_agent(folder: Path, turns: int) -> ManifestAgent:
    manifest = {
        "agentId": "local.bench.clerk",
        "persona": "Clerk",
        "modelClass": "general",
        "systemPrompt": "You are a clerk. " * 20,
        "toolAllowlist": [TOOL, "shop:refund", "shop:mail"],
    }
    path = folder / "agent.json"
    path.write_text(json.dumps(manifest), "utf-8")
    return load_manifest(str(path), InstantModel(turns))


def a_suite(tasks: int) -> Suite:
    document = {
        "suiteId": "bench.shop.evals.loop",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [
            {
                "taskId": f"task-{number}",
                "input": {"question": "Is the order complete?", "orderId": "A-17"},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}},
                "fixtures": {"toolResponses": [{"tool": TOOL, "response": ORDER}]},
            }
            for number in range(tasks)
        ],
    }
    return msgspec.convert(document, Suite)


if __name__ == "__main__":
    main()
