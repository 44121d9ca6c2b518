"""Who is next: releases by tenant and run, so that few tasks never wait for many."""

import asyncio
import uuid
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_suite
from evalwright.contracts.events import RunCancelled
from evalwright.engine.fleet.status import fleet_numbers
from fleet.test_fencing import right
from fleet.test_fleet_orders import event
from fleet.workers_here import Fleet

REGISTER = (
    "INSERT INTO fleet_workers (worker, name, concurrency, tenants) VALUES ($1, 'crew', $2, NULL)"
)
FILL = "SELECT * FROM fleet_fill(NULL, $1)"
END = """
SELECT * FROM fleet_settle($1, ARRAY[$2], ARRAY[2]::smallint[], ARRAY[NULL]::bytea[], true, NULL,
    NULL, NULL)
"""


class Crew:
    """So many workers that take one task after the other, in the order in which they are due."""

    def __init__(self, database: Any, size: int) -> None:
        self.database = database
        self.size = size
        self.queue: list[tuple[str, str]] = []
        self.begun: list[str] = []  # runs, in the order in which their tasks began

    async def come(self) -> None:
        await self.database.fetch("DELETE FROM fleet_workers")
        await self.database.fetch(REGISTER, uuid.uuid4(), self.size)

    async def refill(self) -> None:
        """Ask for as many as there are hands, as workers with nothing to do would."""
        due = await self.database.fetch(FILL, max(0, self.size - len(self.queue)))
        self.queue += [(row["due_run"], row["due_task"]) for row in due]

    async def round(self) -> None:
        """Everybody does one task."""
        await self.refill()
        at_work, self.queue = self.queue[: self.size], self.queue[self.size :]
        self.begun += [run_id for run_id, _ in at_work]
        for run_id, task_id in at_work:
            due = await self.database.fetch(END, run_id, task_id)
            self.queue += [(row["due_run"], row["due_task"]) for row in due]


async def clear(fleet: Fleet, database: Any) -> None:
    for row in await database.fetch("SELECT run_id FROM fleet_runs"):
        await fleet.runs(database).end(row["run_id"], [event(RunCancelled(None, "test"))])


async def queued(fleet: Fleet, database: Any, crew: Crew) -> None:
    """What was released when runs were handed over."""
    rows = await database.fetch("SELECT run_id, task_id FROM attempts WHERE state = 1")
    crew.queue = [(row["run_id"], row["task_id"]) for row in rows]


def test_five_tasks_beside_ten_thousand_wait_for_one_round_at_most(fleet: Fleet) -> None:
    async def work(tenant: str) -> list[str]:
        async with fleet.database() as database:
            crew = Crew(database, 10)
            await crew.come()
            many = fleet.plan(a_suite(2_000), right, concurrency=1_000)
            await fleet.hand_over(database, many, "acme")
            await queued(fleet, database, crew)
            await crew.round()
            few = await fleet.hand_over(database, fleet.plan(a_suite(5), right), tenant)
            rows = await database.fetch(
                "SELECT run_id, task_id FROM attempts WHERE state = 1 AND run_id = $1", few
            )
            crew.queue += [(row["run_id"], row["task_id"]) for row in rows]
            await crew.round()
            await crew.round()
            await clear(fleet, database)
            return ["few" if run_id == few else "many" for run_id in crew.begun[10:]]

    for tenant in ("acme", "other"):
        begun = asyncio.run(work(tenant))
        assert begun.count("few") == 5, (tenant, begun)


def test_a_run_of_a_higher_priority_goes_first_among_those_of_its_tenant(fleet: Fleet) -> None:
    async def work() -> tuple[list[str], str]:
        async with fleet.database() as database:
            crew = Crew(database, 4)
            await crew.come()
            await fleet.hand_over(database, fleet.plan(a_suite(100), right, concurrency=50))
            await queued(fleet, database, crew)
            urgent = await fleet.hand_over(
                database, fleet.plan(a_suite(8), right, concurrency=50, priority=5)
            )
            for _ in range(4):
                await crew.round()
            await clear(fleet, database)
            return crew.begun, urgent

    begun, urgent = asyncio.run(work())
    assert begun[6 : 6 + 8] == [urgent] * 8, "after what was released before it came"


@settings(max_examples=5, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 30), st.integers(1, 8)),
        min_size=2,
        max_size=6,
    )
)
def test_no_more_tasks_of_a_run_are_released_than_it_may_have_at_once(
    fleet: Fleet, runs: list[tuple[str, int, int]]
) -> None:
    async def work() -> None:
        async with fleet.database() as database:
            crew = Crew(database, 6)
            await crew.come()
            for tenant, tasks, at_once in runs:
                plan = fleet.plan(a_suite(tasks), right, concurrency=at_once)
                await fleet.hand_over(database, plan, tenant)
            await queued(fleet, database, crew)
            for _ in range(4):
                await crew.round()
                over = await database.fetch("SELECT 1 FROM fleet_shares WHERE released > ceiling")
                assert not over
                wrong = await database.fetch(
                    "SELECT 1 FROM fleet_owners o WHERE released <> (SELECT coalesce(sum("
                    "s.released), 0) FROM fleet_shares s WHERE s.owner = o.owner)"
                )
                assert not wrong
            await clear(fleet, database)

    asyncio.run(work())


def test_tenants_share_the_fleet_equally_however_many_runs_they_have(fleet: Fleet) -> None:
    async def work() -> Counter[str]:
        async with fleet.database() as database:
            crew, owners = Crew(database, 12), dict[str, str]()
            await crew.come()
            for tenant, runs in (("one", 1), ("four", 4), ("nine", 9)):
                for _ in range(runs):
                    plan = fleet.plan(a_suite(60), right, concurrency=20)
                    owners[await fleet.hand_over(database, plan, tenant)] = tenant
            await queued(fleet, database, crew)
            for _ in range(12):
                await crew.round()
            numbers = await fleet_numbers(database)
            assert numbers.largest_share <= 0.5
            await clear(fleet, database)
            return Counter(owners[run_id] for run_id in crew.begun)

    begun = asyncio.run(work())
    fair = sum(begun.values()) / 3
    assert begun["one"] == 60 or begun["one"] >= fair / 1.3
    assert max(begun["four"], begun["nine"]) <= 1.3 * min(begun["four"], begun["nine"])


TOUCHED = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'attempts'"


def test_what_the_database_reads_for_a_task_does_not_grow_with_its_run(fleet: Fleet) -> None:
    """Also with plans that were made while there were no tasks: there are none between runs."""

    async def work(tasks: int) -> int:
        async with fleet.database() as database, database.connection() as connection:
            await connection.execute("DELETE FROM fleet_workers")
            worker, plan = uuid.uuid4(), fleet.plan(a_suite(tasks), right, concurrency=20)
            await fleet.hand_over(database, plan, "reading")
            await connection.execute(REGISTER, worker, 8)
            async with connection.transaction():
                rows = await connection.fetch(FILL, 10)
                run_id, names = rows[0]["due_run"], [row["due_task"] for row in rows]
                begun = [run_id] * len(names), names
                await connection.fetch("SELECT * FROM fleet_begin($1, $2, $3)", worker, *begun)
                once = [1] * len(names)
                hold = "SELECT * FROM fleet_hold($1, $2, $3, $4)"
                held = await connection.fetchrow(hold, run_id, names, once, worker)
                assert sorted(held["mine"]) == sorted(names)
                end = END.replace("ARRAY[$2], ARRAY[2]", "$2, array_fill(2, ARRAY[$3::int])")
                end = end.replace("ARRAY[NULL]", "array_fill(NULL::bytea, ARRAY[$3::int])")
                await connection.fetch(end, run_id, names, len(names))
                touched = await connection.fetchval(TOUCHED)
            await clear(fleet, database)
            return int(touched)

    fleet.ask("VACUUM ANALYZE attempts")
    few, many = asyncio.run(work(40)), asyncio.run(work(800))
    assert few > 0
    assert many <= few * 1.5
