"""The log in PostgreSQL: how fast it takes events, and whether it stays so with millions of them.

- `appends`: 20 writers append 10 events at a time to one log, and wait for each append: as threads
  of one process, and as processes with a connection each. The server makes every commit durable.
- `size`: the same appends, reads, lists and prunings in a log of 10 thousand events and in one of
  10 million, in turns.

`python benchmarks/scale/postgres_log.py [appends] [size] [--events N]`. No time makes it fail.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from evalwright.store.location import open_log
from evalwright.store.protocol import EventLog, NewEvent, RunFilter
from postgres_server import PostgresServer, execute, session_name, shared_server

WRITERS, UNIT, SECONDS = 20, 10, 5.0
DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "512MB", "autovacuum": "on"}
BODY = json.dumps({"text": "x" * 180}).encode()
EVENTS_PER_RUN = 200
SMALL, LARGE = 10_000, 10_000_000
REPEATS = 200


def unit() -> list[NewEvent]:
    return [NewEvent("agent.decided", f"task-{number}", number, BODY) for number in range(UNIT)]


def write_for(log: EventLog, run_id: str, seconds: float) -> int:
    """Append and wait, again and again; how many events."""
    events, count, end = unit(), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        log.request(run_id, events).result()
        count += len(events)
    return count


def in_threads(address: str, writers: int, *, one_run: bool) -> float:
    """Events per second of threads that share a log."""
    log = open_log(address)
    counts: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=number: counts.append(
                write_for(log, "one" if one_run else f"run-{n}", SECONDS)
            )
        )
        for number in range(writers)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    log.close()
    return sum(counts) / seconds


def process(address: str, number: int, ready: Any, counted: Any) -> None:
    log = open_log(address)
    log.request(f"run-{number}", unit()).result()
    ready.wait()
    counted.put(write_for(log, f"run-{number}", SECONDS))
    log.close()


def in_processes(address: str, writers: int) -> float:
    """Events per second of processes, each with a log of its own."""
    context = multiprocessing.get_context("spawn")
    ready, counted = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=process, args=(address, number, ready, counted))
        for number in range(writers)
    ]
    for each in processes:
        each.start()
    total = sum(counted.get() for _ in processes)
    for each in processes:
        each.join()
    return total / SECONDS


def appends(server: PostgresServer) -> None:
    for name, measure in (
        ("20 threads of one process, one run", lambda a: in_threads(a, WRITERS, one_run=True)),
        ("20 threads of one process, 20 runs", lambda a: in_threads(a, WRITERS, one_run=False)),
        ("20 processes, 20 runs", lambda a: in_processes(a, WRITERS)),
    ):
        address = server.new_database()
        open_log(address).close()
        found = [measure(address) for _ in range(3)]
        print(
            f"| {name} | {statistics.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f}) |"
        )
        server.drop_database(address)


FILL = """
INSERT INTO runs (run_id, tenant, last_seq, bytes, started_us, ended_us, status, suite, agent)
SELECT 'run-' || n, 'tenant-' || n % 10, {per_run} - 1, {per_run} * {size}, n, n, 'completed',
    'suite-' || n % 50, 'agent-' || n % 100 FROM generate_series(1, {runs}) AS n;
INSERT INTO tenant_sizes SELECT tenant, count(*), sum(last_seq + 1), sum(bytes) FROM runs
GROUP BY tenant;
INSERT INTO run_tags SELECT 'tenant-' || n % 10, 'tag-' || n % 1000, n
FROM generate_series(1, {runs}) AS n;
INSERT INTO events (run, seq, tenant, type, task_id, at_us, body)
SELECT run, seq, 'tenant-' || run % 10,
    CASE WHEN seq = {per_run} - 1 THEN 'run.completed' WHEN seq % 10 = 5 THEN 'eval.scored'
    ELSE 'agent.decided' END, 'task-' || seq / 10, seq, '{body}'::bytea
FROM generate_series(1, {runs}) AS run, generate_series(0, {per_run} - 1) AS seq;
"""


def filled(server: PostgresServer, events: int) -> str:
    """The address of a log with so many events."""
    address = server.new_database()
    open_log(address).close()
    runs = events // EVENTS_PER_RUN
    script = FILL.format(per_run=EVENTS_PER_RUN, runs=runs, size=len(BODY), body=BODY.decode())
    began = time.perf_counter()
    for statement in script.split(";\n")[:-1]:
        execute(address, statement)
    execute(address, "VACUUM ANALYZE")
    print(f"{events:,} events in {runs:,} runs written in {time.perf_counter() - began:.0f} s")
    return address


Work = Callable[[EventLog, int], object]


def works(runs: int) -> dict[str, Work]:
    """What is measured: each is given the log and how often it was done before."""

    def view(log: EventLog, n: int) -> EventLog:
        return log.for_tenant(f"tenant-{(n % runs + 1) % 10}")

    def mine(log: EventLog, n: int) -> tuple[EventLog, str]:
        number = (n * 7919) % runs + 1
        return log.for_tenant(f"tenant-{number % 10}"), f"run-{number}"

    def read(log: EventLog, n: int) -> int:
        own, run_id = mine(log, n)
        return sum(1 for _ in own.read(run_id, after=100, limit=32))

    return {
        "append 10 events": lambda log, _: log.request("appended", unit()).result(),
        "begin a run": lambda log, n: log.request(f"new-{n}", unit()).result(),
        "read 32 events of a run": lambda log, n: read(log, n % 20),
        "read 32 events of a run not read before": lambda log, n: read(log, n + 20),
        "the facts of a run": lambda log, n: mine(log, n)[0].facts(mine(log, n)[1]),
        "the score of a task": lambda log, n: log.upkeep.scored_at(mine(log, n)[1], ["task-7"]),
        "list 50 runs of a tenant": lambda log, n: view(log, n).find_runs(limit=50),
        "list 50 runs of an agent": lambda log, n: view(log, n).find_runs(
            RunFilter(agent=f"agent-{n % 100}"), limit=50
        ),
        "a tag that no run has": lambda log, n: view(log, n).find_runs(RunFilter(tag="none"), 50),
        "sizes of a tenant": lambda log, n: log.upkeep.sizes(f"tenant-{n % 10}"),
        "runs without an end": lambda log, _: log.open_runs(),
    }


def timed(log: EventLog, work: Work, repeats: int, first: int = 0) -> list[float]:
    taken = []
    for number in range(first, first + repeats):
        began = time.perf_counter()
        work(log, number)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def prune(log: EventLog, number: int) -> object:
    return log.upkeep.prune([f"run-{number + 5}"], "measured", ("annotation",))


def size(server: PostgresServer, large: int) -> None:
    sizes = (SMALL, large)
    logs = {events: open_log(filled(server, events)) for events in sizes}
    print(f"| work | {SMALL:,} events: median ms (p99) | {large:,} events | ratio |")
    print("| --- | --- | --- | --- |")
    names = works(SMALL // EVENTS_PER_RUN)
    for name in [*names, "prune a run of 200 events"]:
        taken: dict[int, list[float]] = {events: [] for events in sizes}
        for part in range(4):  # in turns: the machine may be busy for a while
            for events, log in logs.items():
                is_pruning = name not in names
                work = prune if is_pruning else works(events // EVENTS_PER_RUN)[name]
                repeats = 10 if is_pruning else REPEATS // 4
                taken[events] += timed(log, work, repeats, part * repeats)
        figures = [statistics.median(taken[events]) for events in sizes]
        p99 = [sorted(taken[events])[int(len(taken[events]) * 0.99) - 1] for events in sizes]
        print(
            f"| {name} | {figures[0]:.2f} ({p99[0]:.1f}) | {figures[1]:.2f} ({p99[1]:.1f})"
            f" | {figures[1] / figures[0]:.2f} |"
        )
    for log in logs.values():
        log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", choices=["appends", "size", []])
    parser.add_argument("--events", type=int, default=LARGE)
    parser.add_argument(
        "--no-fsync", action="store_true", help="measure without the disk, which others may use"
    )
    given = parser.parse_args()
    wanted = given.only or ["appends", "size"]
    settings = DURABLE | ({"fsync": "off"} if given.no_fsync else {})
    with ExitStack() as held:
        server = held.enter_context(shared_server(session_name(), settings=settings))
        if "appends" in wanted:
            appends(server)
        if "size" in wanted:
            size(server, given.events)


if __name__ == "__main__":
    main()
