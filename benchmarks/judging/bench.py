"""What judging adds to the time that a judge takes: 1,000 rubric tasks, 50 at a time.

    python benchmarks/judging/bench.py [--tasks 1000] [--concurrency 50] [--latency-ms 200]

The judge is a model in this process that waits and then answers by the schema it is given. The
ideal is the latency times the number of rounds; the bar is 1.15 times that. Every verdict is
checked, and every usage and verdict is recorded as a line of JSON in memory.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import msgspec

from evalwright.contracts.events import Payload, ProviderUsage
from evalwright.contracts.suite import Criterion, Expected, Task
from evalwright.engine.judge_prompt import questions_of
from evalwright.engine.judges import Panel
from evalwright.models.protocol import Reply, Request
from evalwright.scoring.rubric import rubric_result

RESULTS = Path(__file__).resolve().parents[1] / "results" / "judging.json"
BAR = 1.15
OUTPUT = "The blue one costs 42 euros and is in stock. " * 40
RUBRIC = [
    Criterion("names the price", 0.5),
    Criterion("says whether it is in stock", 0.3),
    Criterion("offers an alternative", 0.2),
]


class WaitingJudge:
    name = "bench:judge"

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    async def ask(self, request: Request) -> Reply:
        await asyncio.sleep(self._latency_s)
        assert request.output is not None
        names = request.output.schema["properties"]
        text = json.dumps({name: {"reason": "It says so.", "met": True} for name in names})
        return Reply(text, "stop", ProviderUsage("bench", "judge", 900, 60))

    async def close(self) -> None:
        pass


def main() -> None:
    options = _options()
    latency_s = options.latency_ms / 1000
    began, cpu = time.perf_counter(), time.process_time()
    lines = asyncio.run(_judge_all(options.tasks, options.concurrency, latency_s))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert lines == 2 * options.tasks, "a usage and a verdict per task"
    ideal = latency_s * ceil(options.tasks / options.concurrency)
    figure = {
        "tasks": options.tasks,
        "concurrency": options.concurrency,
        "latency_ms": options.latency_ms,
        "wall_s": round(wall, 3),
        "ideal_s": round(ideal, 3),
        "ratio": round(wall / ideal, 3),
        "bar": BAR,
        "cpu_ms_per_task": round(cpu * 1000 / options.tasks, 3),
    }
    print(json.dumps(figure, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(figure, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--latency-ms", type=float, default=200)
    return parser.parse_args()


async def _judge_all(tasks: int, concurrency: int, latency_s: float) -> int:
    panel = Panel([WaitingJudge(latency_s)])
    recorded: list[bytes] = []
    pending = iter(range(tasks))
    workers = (_work(panel, pending, recorded) for _ in range(concurrency))
    await asyncio.gather(*workers)
    await panel.close()
    return len(recorded)


async def _work(panel: Panel, pending: Iterator[int], recorded: list[bytes]) -> None:
    questions = questions_of([each.criterion for each in RUBRIC])

    def record(payload: Payload) -> None:
        recorded.append(msgspec.json.encode(payload))

    for number in pending:
        task = Task(f"task-{number}", f"Question {number}?", Expected("rubric", rubric=RUBRIC))
        output = f"{number}: {OUTPUT}"
        judged = await panel.judge("rubric", questions, task, output, (), record)
        assert rubric_result(RUBRIC, judged).score == 1.0


if __name__ == "__main__":
    main()
