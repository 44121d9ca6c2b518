"""An upgrade without downtime: old and new processes side by side over one migration."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.errors import StoreError
from evalwright.engine.history import History
from evalwright.store.postgres import migration, schema
from fleet.test_fleet_locks import is_blocked
from fleet.workers_here import Fleet, GivenEquipment, a_fleet, until
from postgres_server import PostgresServer

_CHANGED = ("fleet_shares", "attempts", "events", "runs")  # not as workers lock them
NEXT = schema.Migration(
    "CREATE TABLE of_the_next_version (run bigint PRIMARY KEY);"
    + "".join(f"ALTER TABLE {table} ADD COLUMN more integer;" for table in _CHANGED)
    + "".join(f"CREATE INDEX next_{table} ON {table} (more);" for table in _CHANGED),
    oldest=1,
)


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.new_database()
    yield address
    postgres.drop_database(address)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Programs that are started from now on are of the next version."""

    def begin() -> None:
        monkeypatch.setattr(migration, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
        monkeypatch.setattr(migration, "VERSION", schema.VERSION + 1)

    return begin


class Agent:
    """Answers once it may, and notes by whom it was asked."""

    def __init__(self, asked: list[str], name: str, *, is_open: bool = True) -> None:
        self._asked = asked
        self._name = name
        self.opens = asyncio.Event()
        if is_open:
            self.opens.set()

    async def answer(self, _task: Any) -> str:
        self._asked.append(self._name)
        await self.opens.wait()
        await asyncio.sleep(0.02)
        return "yes"


def test_old_and_new_workers_share_runs_over_a_migration(
    address: str, newer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def side_by_side(old: Fleet) -> list[History]:
        before, after = Agent(asked, "old", is_open=False), Agent(asked, "new")
        plan = old.plan(a_suite(20), before.answer, concurrency=6)
        async with old.database() as database, old.workers(GivenEquipment(before.answer)):
            run_ids = [await old.hand_over(database, plan)]
            await until(lambda: asyncio.sleep(0, len(asked) == 6))
            newer()
            with pytest.raises(StoreError, match="run `evalwright db migrate`"):
                await asyncio.to_thread(Fleet, address)
            versions = await asyncio.to_thread(migration.migrate_now, address)
            assert versions == (schema.VERSION, schema.VERSION + 1)
            with a_fleet(address) as new:
                async with new.database() as its, new.workers(GivenEquipment(after.answer)):
                    run_ids.append(await new.hand_over(its, plan))
                    run_ids.append(await old.hand_over(database, plan))
                    await until(lambda: asyncio.sleep(0, "new" in asked))
                    before.opens.set()
                    return [await old.ended(run_id) for run_id in run_ids]

    with a_fleet(address) as old:
        histories = asyncio.run(side_by_side(old))
    assert [len(each.scored) for each in histories] == [20] * 3
    assert len(asked) == 60, "each task is invoked once"
    assert asked.count("old") > 6, "old workers begin tasks after the migration, too"
    monkeypatch.undo()
    with a_fleet(address) as again:  # one of the version before that is started again
        assert len(again.log.run_ids()) == 3


def test_a_migration_gives_way_to_who_holds_what_it_needs_next(
    address: str, newer: Callable[[], None]
) -> None:
    async def work(fleet: Fleet) -> tuple[int, int]:
        async with fleet.database() as database, database.transaction() as connection:
            await connection.execute("SELECT FROM attempts FOR UPDATE")
            newer()
            migrating = asyncio.create_task(asyncio.to_thread(migration.migrate_now, address))
            await until(lambda: is_blocked(fleet))
            await connection.execute("SELECT FROM fleet_shares FOR UPDATE")  # which it has changed
            assert not migrating.done()
        return await migrating

    with a_fleet(address) as fleet:
        assert asyncio.run(work(fleet)) == (schema.VERSION, schema.VERSION + 1)
