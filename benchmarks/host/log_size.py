"""A log of great weight and a log of great length: `make bench-log`.

- `weight`: eight runs of 1,000 tasks at once, with inputs of 20 bytes and of 4 KB, in turns; and
  beside each eight a run of five tasks of another tenant. What counts is the ratio.
- `length`: a log of 5,000 runs and 10 million events, written as schema 2 and brought up to date;
  then the start of a host on it, its lists, and filters that match nothing.

No time makes it fail.
"""

import argparse
import asyncio
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from hostile import LIMITS, Tenant, suite_of
from load import quantile

from bench import CONFIG, HERE, Served

WEIGHTS = {"light": 20, "heavy": 4_000}  # bytes of an input
RUNS, TASKS = 8, 1_000
FIVE = "bench.host.evals.five@1.0.0"
TENANTS, AGENTS, SUITES = 4, 50, 20
EMPTY_FILTERS = (
    "status=failed",
    "agentId=local.bench.nobody",
    "evalSuiteRef=bench.host.evals.none@1.0.0",
    "tag=none",
    "status=completed&agentId=local.bench.nobody&tag=nightly",
)


def weighty_suite(name: str, size: int) -> dict[str, Any]:
    document = suite_of(f"bench.host.evals.{name}@1.0.0", TASKS)
    for number, task in enumerate(document["tasks"]):
        task["input"] = f"task {number} ".ljust(size, "x")
    return document


async def eight_runs(mine: Tenant, other: Tenant, name: str) -> tuple[float, float]:
    """Seconds that eight runs take, and a short one of another tenant beside them."""
    ref = f"bench.host.evals.{name}@1.0.0"
    began = time.perf_counter()
    ids = await asyncio.gather(*(mine.create(ref) for _ in range(RUNS)))
    beside = asyncio.create_task(other.seconds_of(FIVE))
    await asyncio.gather(*(mine.finish(run_id) for run_id in ids))
    return time.perf_counter() - began, await beside


async def measure_weight(served: Served, rounds: int) -> dict[str, Any]:
    mine, other = Tenant(served, "bench"), Tenant(served, "other")
    await other.ask("POST", "/v1/suites", suite_of(FIVE, 5))
    for name, size in WEIGHTS.items():
        await mine.ask("POST", "/v1/suites", weighty_suite(name, size))
    await other.seconds_of(FIVE)  # warm
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in WEIGHTS}
    for _ in range(rounds):
        for name in WEIGHTS:
            taken[name].append(await eight_runs(mine, other, name))
    medians = {
        name: [statistics.median(each) for each in zip(*samples, strict=True)]
        for name, samples in taken.items()
    }
    return {
        **{f"{name}_s": round(seconds, 2) for name, (seconds, _) in medians.items()},
        "ratio": round(medians["heavy"][0] / medians["light"][0], 2),
        **{f"beside_{name}_s": round(beside, 3) for name, (_, beside) in medians.items()},
        "us_per_task": round(medians["heavy"][0] / RUNS / TASKS * 1e6),
    }


def events_of(run: int, count: int) -> Iterator[tuple[Any, ...]]:
    """A completed evaluation of so many events."""
    agent, suite = f"local.bench.agent-{run % AGENTS}", f"bench.host.evals.s-{run % SUITES}"
    tasks = (count - 5) // 4
    inputs = {"evalSuiteRef": f"{suite}@1.0.0", "agentId": agent}
    start = {"workflowId": "openwop.eval", "inputs": inputs, "tags": ["nightly"]}
    start["owner"] = {"tenant": f"tenant-{run % TENANTS}"}
    opened = {"suiteId": suite, "suiteVersion": "1.0.0", "taskCount": tasks, "modes": ["golden"]}
    plan = {"suite": {"suiteId": suite, "tasks": [f"task {number} ?" for number in range(tasks)]}}
    frame = [("run.started", start), ("eval.started", opened), ("evalwright.planned", plan)]
    score = {"aggregateScore": 1.0, "passed": True, "taskCount": tasks, "passedCount": tasks}
    for sequence, (kind, body) in enumerate(frame):
        yield run, sequence, kind, None, 1_700_000_000_000_000 + run, json.dumps(body)
    kinds = ("agent.invocation.started", "agent.decided", "agent.invocation.completed")
    bodies = [json.dumps({"invocationId": "inv-0001", "agentId": agent, "x": "y" * 60})] * 3
    for task in range(tasks):
        name, first = f"task-{task}", 3 + 4 * task
        for number, (kind, text) in enumerate(zip(kinds, bodies, strict=True)):
            yield run, first + number, kind, name, 1_700_000_000_000_000 + run, text
        scored = f'{{"taskId":"{name}","score":1.0,"passed":true}}'
        yield run, first + 3, "eval.scored", name, 1_700_000_000_000_000 + run, scored
    last = 3 + 4 * tasks
    yield run, last, "eval.completed", None, 1_700_000_000_000_000 + run, json.dumps(score)
    yield run, last + 1, "run.completed", None, 1_700_000_000_000_000 + run, '{"outputs":{}}'


def write_old_log(path: Path, runs: int, events: int) -> None:
    """A log of schema 2, written without its triggers, which it gets afterwards."""
    from evalwright.store.sqlite import schema

    script = Path(__file__).parents[2] / "tests/store/written_by_0_2/schema.sql"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(script.read_text())
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        named = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        triggers = connection.execute(named).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for run in range(1, runs + 1):
            connection.execute("BEGIN")
            partition = f"tenant-{run % TENANTS}"
            row = (run, f"run_{run:026}", partition)
            connection.execute("INSERT INTO runs VALUES (?, ?, ?)", row)
            insert = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)"
            connection.executemany(insert, events_of(run, events))
            connection.execute("COMMIT")
        for _, trigger in triggers:
            connection.execute(trigger)


def in_a_process(function: str, *arguments: object) -> dict[str, Any]:
    """What a function of this module returns in a process of its own, with its peak of memory."""
    command = [sys.executable, __file__, function, *map(str, arguments)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, Any] = json.loads(printed)
    return answer


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def open_log(path: str) -> dict[str, Any]:
    """Open a log, which is brought up to date if it is old."""
    from evalwright.store.sqlite.log import SqliteLog

    seconds = seconds_of(lambda: SqliteLog(Path(path)).close())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"seconds": round(seconds, 3), "peak_mb": round(peak)}


def list_log(path: str) -> dict[str, Any]:
    """What `evalwright runs` does, without the start of Python."""
    from evalwright.engine.runs import find_run, list_runs
    from evalwright.store.sqlite.log import SqliteLog

    log = SqliteLog(Path(path))
    works: dict[str, Callable[[], Any]] = {
        "list_20_ms": lambda: list_runs(log, 20),
        "list_all_ms": lambda: list_runs(log),
        "latest_ms": lambda: find_run(log, "latest"),
        "one_by_its_beginning_ms": lambda: find_run(log, f"run_{17:026}"),
    }
    return {
        name: round(statistics.median(seconds_of(work) for _ in range(9)) * 1000, 2)
        for name, work in works.items()
    }


async def measure_lists(served: Served, repeat: int) -> dict[str, Any]:
    tenant = Tenant(served, "tenant-1")
    connection = await tenant.opened()
    figures = {}
    for query in ("", "limit=200", "status=completed&tag=nightly", *EMPTY_FILTERS):
        request = connection.encoded("GET", f"/v1/runs?{query}")
        taken = []
        for _ in range(repeat):
            began = time.perf_counter()
            status, body = await connection.send(request)
            taken.append(time.perf_counter() - began)
            found = len(json.loads(body)["runs"])
            assert status == 200, body
            assert bool(found) == (query not in EMPTY_FILTERS), query
        milliseconds = [round(quantile(taken, share) * 1000, 1) for share in (0.5, 0.99)]
        figures[query or "no filter"] = dict(zip(("p50_ms", "p99_ms"), milliseconds, strict=True))
    return figures


def measure_length(folder: Path, runs: int, events: int) -> None:
    path = folder / "host.db"
    if not path.exists():
        seconds = seconds_of(lambda: write_old_log(path, runs, events))
        size = path.stat().st_size / 1e6
        print(
            f"written    {runs:,} runs, {runs * events:,} events, {size:,.0f} MB, {seconds:.0f} s"
        )
    print("migrated  ", in_a_process("open_log", path), flush=True)
    print("opened    ", in_a_process("open_log", path), flush=True)
    print("commands  ", in_a_process("list_log", path), flush=True)
    served = Served(folder, CONFIG)
    starts = []
    for _ in range(3):
        with served.serving():
            starts.append(served.start_s)
    print(f"host       start_s {min(starts):.2f}", flush=True)
    with served.serving():
        for name, figures in asyncio.run(measure_lists(served, 100)).items():
            print(f"GET        {name}:", figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["weight", "length"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--events", type=int, default=2_000, help="of a run")
    parser.add_argument("--folder", type=Path, help="keep the long log here, for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-log-", dir=HERE) as scratch:
        if options.only != "length":
            served = Served(Path(scratch), CONFIG.replace("[host]\n", f"[host]\n{LIMITS}"))
            with served.serving():
                figures = asyncio.run(measure_weight(served, options.rounds))
            print("weight    ", "  ".join(f"{key} {value}" for key, value in figures.items()))
        if options.only != "weight":
            folder = options.folder or Path(scratch) / "length"
            folder.mkdir(exist_ok=True)
            measure_length(folder, options.runs, options.events)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("open_log", "list_log"):
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
