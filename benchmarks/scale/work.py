"""The log and the workers: events taken, CPU for each task, more workers, fair shares."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import postgres_log
from machines import PostgresServer, Workshop, cpu_of, cpu_of_server
from postgres_log import UNIT, WRITERS, in_processes, in_threads

from builders import a_suite
from evalwright.contracts.suite import Suite
from evalwright.store.location import open_log
from fleet.workers_here import Fleet, GivenEquipment

Measured = Iterator[tuple[str, str, str, bool | None]]

EVENTS_GOAL = 20_000
TASK_MS_GOAL = 1.0
LINEAR_GOAL = 0.95
SHARE_GOAL = 1.3


def appends(server: PostgresServer, *, quick: bool) -> Measured:
    """Twenty writers that append ten events at a time and wait for each append."""
    postgres_log.SECONDS = 2.0 if quick else 5.0
    ways: dict[str, Callable[[str], float]] = {
        "threads, one run": lambda address: in_threads(address, WRITERS, one_run=True),
        "threads, a run each": lambda address: in_threads(address, WRITERS, one_run=False),
        "processes, a run each": lambda address: in_processes(address, WRITERS),
    }
    for way, measure in ways.items():
        address = server.new_database()
        open_log(address).close()
        rate = median(measure(address) for _ in range(1 if quick else 3))
        server.drop_database(address)
        yield (
            f"events from {WRITERS} writers, {UNIT} per append: {way}",
            f"{rate:,.0f}/s",
            f"≥ {EVENTS_GOAL:,}/s",
            rate >= EVENTS_GOAL,
        )


def cpu_per_task(server: PostgresServer, *, quick: bool) -> Measured:
    """What a task that does nothing costs: its queue, its events, its invocation and its score."""
    few, many = (100, 600) if quick else (200, 3_000)
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(server, Path(folder))
        with shop.workers(1, 50) as (worker,):
            shop.hand_over(few, "instant", 200)  # warm
            own, database = cpu_of(worker.pid), cpu_of_server(server)
            shop.hand_over(many, "instant", 200)
            own = (cpu_of(worker.pid) - own) / many * 1000
            database = (cpu_of_server(server) - database) / many * 1000
    yield (
        "a task that does nothing: CPU of its worker and of PostgreSQL, all in all",
        f"{own + database:.2f} ms ({own:.2f} and {database:.2f})",
        f"≤ {TASK_MS_GOAL:g} ms for queue and log",
        own + database <= TASK_MS_GOAL,
    )


def scaling(server: PostgresServer, *, quick: bool) -> Measured:
    """Tasks that take 100 ms, four at a time in each worker."""
    at_once, seconds = 4, 4 if quick else 10
    rates: dict[int, float] = {}
    for count in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            shop = Workshop(server, Path(folder))
            with shop.workers(count, at_once):
                shop.hand_over(at_once * count * 2, "slow", 100)  # warm
                tasks = at_once * count * 10 * seconds
                shop.hand_over(tasks, "slow", 100)
                rates[count] = tasks / _span(shop)
    for count in (2, 4):
        linear = rates[count] / rates[1] / count
        yield (
            f"1 → {count} workers on tasks of 100 ms, 4 at a time each",
            f"{linear:.2f} of linear ({rates[1]:.1f} → {rates[count]:.1f} tasks/s)",
            f"≥ {LINEAR_GOAL:g}",
            linear >= LINEAR_GOAL,
        )


def _span(shop: Workshop) -> float:
    """Seconds from the first to the last event of the newest run's tasks."""
    ((first, last),) = shop.ask(
        "SELECT min(at_us), max(at_us) FROM events WHERE run = (SELECT max(run) FROM events)"
        " AND type IN ('agent.invocation.started', 'eval.scored')"
    )
    return float(last - first) / 1e6


def fairness(server: PostgresServer, *, quick: bool) -> Measured:
    """A thousand runs of ten tenants, who come one after the other with all of theirs."""
    tenants, runs = 10, 10 if quick else 100
    address = server.new_database()
    open_log(address).close()
    counts = asyncio.run(_shares(address, tenants, runs, a_suite(20)))
    fair = sum(counts.values()) / tenants
    worst = max(max(each / fair, fair / max(1, each)) for each in counts.values())
    yield (
        f"{tenants * runs:,} runs of 20 tasks of {tenants} tenants: farthest from its fair share",
        f"{worst:.2f} (of {sum(counts.values()):,} tasks until the first had all of theirs)",
        f"≤ {SHARE_GOAL:g}",
        worst <= SHARE_GOAL,
    )


async def _shares(address: str, tenants: int, runs: int, suite: Suite) -> Counter[str]:
    """How many tasks of each tenant had ended when the first tenant had none left."""
    here = Fleet(address)

    async def answer(_task: object) -> str:
        await asyncio.sleep(0.01)
        return "right"

    plan = here.plan(suite, answer, concurrency=10)
    names = [f"tenant-{n}" for n in range(tenants)]
    async with here.database() as database:
        for name in names:
            for _ in range(runs):
                await here.hand_over(database, plan, name)
        async with here.workers(GivenEquipment(answer), 3, 20):
            while True:
                await asyncio.sleep(0.05)
                rows = await database.fetch("SELECT owner, scored FROM fleet_owners")
                counts = Counter({row["owner"]: row["scored"] for row in rows})
                if max(counts.values(), default=0) >= runs * len(suite.tasks) * 0.9:
                    break
    await asyncio.to_thread(here.log.close)
    return counts
