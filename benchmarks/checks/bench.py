"""What checks cost: each alone, on hostile outputs, and in a whole run of 10,000 tasks.

    python benchmarks/checks/bench.py [--tasks 10000]

All figures are CPU time. The run has five checks for each task, of which three differ from task to
task, and an agent that answers at once.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evalwright.scoring.checks.base import AnswerCheck, Examined, MadeCall, Spent, run_checks
from evalwright.scoring.checks.table import prepare_checks

BEST_OF = 5
GOAL_US = 8.0
GOAL_RUN_S = 2.0
TEXT = 'Your order A-17 has been shipped, for 12.50 EUR. {"order": {"id": "A-17"}}'
CALLS = [MadeCall("orders.get", {"id": "A-17"}), MadeCall("mail.send", {"to": "a@b.example"})]
CHECKS: list[dict[str, Any]] = [
    {"equals": TEXT},
    {"contains": "shipped"},
    {"contains": {"value": "SHIPPED", "ignore_case": True}},
    {"contains_all": ["order", "A-17"]},
    {"starts_with": "Your"},
    {"regex": "A-[0-9]+"},
    {"not": {"contains": "sorry"}},
    {"number": {"value": 12.5, "within": 0.01}},
    {"json": {"path": "$.order.id", "equals": "A-17"}},
    {"json": {"schema": {"type": "object", "required": ["order"]}}},
    {"calls": {"tool": "orders.get", "args": {"id": "A-17"}, "times": 1}},
    {"calls_in_order": ["orders.get", "mail.send"]},
    {"does_not_call": "orders.delete"},
    {"max": {"cost_usd": 0.02, "latency_ms": 800}},
    {"any": [{"contains": "sent"}, {"contains": "shipped"}]},
    {"similar": {"to": "Your order has been shipped for 12.50 EUR", "at_least": 0.5}},
]
HOSTILE = {
    "200 KB of one letter": "a" * 200_000,
    "200 KB of brackets": "[" * 200_000,
    "200 KB of numbers": "1," * 100_000,
    "200 KB of words": "to be or not " * 15_385,
}
AGENT = """\
def answer(task):
    order = task.input["order"]
    return 'Order %s has been shipped. {"order": {"id": "%s"}}' % (order, order)
"""


def best(work: Callable[[], object], times: int) -> float:
    """Microseconds of CPU that one of many calls takes, the best of several tries."""
    found = []
    for _ in range(BEST_OF):
        started = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - started) / times * 1e6)
    return min(found)


def prepared(*documents: dict[str, Any]) -> Sequence[AnswerCheck]:
    """Checks that are ready."""
    ready, problems = prepare_checks(documents, "$")
    assert problems == []
    return ready


def examined(output: Any) -> Examined:
    """A new answer, so that nothing of it is known from before."""
    return Examined(output=output, calls=CALLS, spent=Spent(0.01, 100, 12, 2))


def each_check() -> None:
    """Print what each check takes for one answer, and to be prepared."""
    for document in CHECKS:
        ready = prepared(document)
        look = best(lambda ready=ready: run_checks(ready, examined(TEXT)), 2_000)  # type: ignore[misc]
        print(f"{look:8.1f} us  {json.dumps(document)[:80]}")
    distinct = [{"contains": f"order A-{number}"} for number in range(8_000)]
    started = time.process_time()
    prepared(*distinct)
    print(f"{(time.process_time() - started) / len(distinct) * 1e6:8.1f} us  to prepare `contains`")


def hostile_outputs() -> None:
    """Print what all checks together take for outputs that are made to be slow."""
    ready = prepared(*CHECKS)
    for name, output in HOSTILE.items():
        took = best(lambda output=output: run_checks(ready, examined(output)), 1)  # type: ignore[misc]
        print(f"{took / 1000:8.1f} ms  all {len(CHECKS)} on {name}")


def whole_run(tasks: int) -> None:
    """Print what a run takes from its start to its end, in a process of its own."""
    suite = {
        "evalwright": 1,
        "name": "bench",
        "agent": "agent.py:answer",
        "tasks": [
            {
                "id": f"t{number:06}",
                "input": {"order": f"A-{number}"},
                "checks": [
                    {"contains": f"A-{number}"},
                    {"regex": "A-[0-9]+"},
                    {"not": {"contains": "sorry"}},
                    {"number": number},
                    {"json": {"path": "$.order.id", "equals": f"A-{number}"}},
                ],
            }
            for number in range(tasks)
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "suite.json").write_text(json.dumps(suite))
        (Path(folder) / "agent.py").write_text(AGENT)
        command = [sys.executable, "-m", "evalwright", "run", "suite.json", "--quiet"]
        environment = {**os.environ, "EVALWRIGHT_DB": str(Path(folder) / "log.db")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr.decode()
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{took:8.2f} s   a run of {tasks} tasks with 5 checks each (goal {GOAL_RUN_S} s)")


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    tasks = parser.parse_args().tasks
    print(f"CPU time of a check for one answer (goal {GOAL_US} us, `similar` aside)")
    each_check()
    hostile_outputs()
    whole_run(tasks)


if __name__ == "__main__":
    main()
