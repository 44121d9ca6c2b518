"""A run with repeated tasks is killed and resumed: each repetition has one result in the end."""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from faults.soaking import scaled, seeds
from subjects.command import Evalwright
from subjects.waiting import eventually

AGENT = """
import asyncio
import os

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

async def answer(task):
    os.write(calls, b"x")
    task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=0.01)
    await asyncio.sleep(0.02)
    return "Order A-17 is shipped."
"""
CHECKS = """
import time

def is_short(output):
    time.sleep(0.01)
    return len(output) < 100
"""
TASKS, REPEAT, AT_ONCE = scaled(4, 30), 4, 3


def suite() -> str:
    checks = [{"contains": "shipped"}, {"python": "checks.py:is_short"}]
    tasks = [{"id": f"task-{n}", "input": n, "checks": checks} for n in range(TASKS)]
    return json.dumps({"evalwright": 1, "defaults": {"repeat": REPEAT}, "tasks": tasks})


@pytest.mark.parametrize("seed", seeds(short=1, long=20))
def test_no_repetition_is_lost_or_made_twice_without_need(
    evalwright: Evalwright, tmp_path: Path, seed: int
) -> None:
    folder, chance, kills = evalwright.folder, random.Random(seed), 0
    for name, text in {"evals.json": suite(), "agent.py": AGENT, "checks.py": CHECKS}.items():
        (folder / name).write_text(text)
    journal = tmp_path / "calls"
    env = {"CALLS": str(journal)}

    def calls() -> int:
        return journal.stat().st_size if journal.exists() else 0

    begin = ["evals.json", "--agent", "agent.py:answer", "--concurrency", str(AT_ONCE)]
    while True:
        process, before = evalwright.start("run", *begin, "--quiet", env=env), calls()
        if kills == scaled(2, 10):
            assert process.wait(240) == 0
            break
        eventually(lambda: calls() >= before + 4 or process.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 0.03))
        process.kill()
        process.wait()
        kills += 1
        begin = ["--resume", "latest"]

    events = evalwright.events()
    for n in range(TASKS):
        mine = [each for each in events if each.get("nodeId") == f"task-{n}"]
        kinds = Counter(each["type"] for each in mine)
        done = [
            each["payload"].get("repetition", 1)
            for each in mine
            if each["type"] == "evalwright.checked"
        ]
        assert done == list(range(1, REPEAT + 1))
        assert kinds["eval.scored"] == 1
    assert calls() <= TASKS * REPEAT + kills * AT_ONCE
    assert evalwright("replay", "latest").code == 0
