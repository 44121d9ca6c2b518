"""Conversations with a world beside single questions: seconds of CPU for as many answers.

Each answer takes three calls of a world. Both suites are run in a process of their own, by turns.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import evalwright as ew

TURNS = 5
SHOP = ew.world(
    "shop",
    data={"orders": [{"id": f"A-{n}", "days": n} for n in range(20)], "refunds": []},
    tools={
        "orders.get": {"get": "orders"},
        "orders.find": {"find": "orders"},
        "refunds.create": {"create": "refunds"},
    },
)
CHECKS = [ew.equals("done")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(sample(given.child, given.conversations))
        return
    best: dict[str, float] = {}
    for _ in range(given.repeat):
        for kind in ("turns", "tasks"):
            command = [sys.executable, __file__, "--child", kind]
            command += ["--conversations", str(given.conversations)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            best[kind] = min(best.get(kind, 1e9), float(done.stdout))
    answers = given.conversations * TURNS
    print(f"{given.conversations:,} conversations of {TURNS} turns: {best['turns']:.2f} s of CPU")
    print(f"{answers:,} tasks of one question:       {best['tasks']:.2f} s of CPU")
    print(f"a turn costs {best['turns'] / best['tasks']:.2f} times a task")


def sample(kind: str, count: int) -> float:
    if kind == "turns":
        script = [ew.turn(f"say {number}", checks=CHECKS) for number in range(TURNS)]
        tasks = [ew.Task(f"t{n}", world=SHOP, turns=script, checks=CHECKS) for n in range(count)]
    else:
        tasks = [
            ew.Task(f"t{n}", world=SHOP, input="say", checks=CHECKS) for n in range(count * TURNS)
        ]
    suite = ew.Suite("bench", tasks=tasks)
    suite.subject()
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run = ew.run(suite, answer, db=Path(folder) / "log.db")
        taken = time.process_time() - began
    if not run.passed:
        raise SystemExit(run.report())
    return taken


def answer(task: Any) -> str:
    task.call_tool("orders.get", {"id": "A-3"})
    task.call_tool("orders.find", {"days": 4})
    task.call_tool("refunds.create", {"order": "A-3"})
    return "done"


if __name__ == "__main__":
    main()
