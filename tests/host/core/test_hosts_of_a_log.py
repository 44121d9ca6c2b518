"""Which hosts of a log are alive, which one leads, and looks that many share."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalwright.host.runs.cluster import DEAD_SECONDS, SILENT_SECONDS, Hosts
from evalwright.host.streams.cache import SharedCache
from evalwright.store.records import RecordConflict
from evalwright.store.sqlite.log import Database, SqliteLog


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteLog]:
    monkeypatch.setattr(Database, "is_local", False)
    log = SqliteLog(tmp_path / "log.db")
    yield log
    log.close()


def beat(*hosts: Hosts) -> None:
    async def beat_once() -> None:
        for host in hosts:
            await host.beat()

    asyncio.run(beat_once())


def test_the_first_host_leads_and_all_are_counted(log: SqliteLog, clock: Clock):
    first, second = (Hosts(log.records, clock) for _ in range(2))
    beat(first, second, first)
    assert (first.is_leader, second.is_leader) == (True, False)
    assert (first.count, second.count) == (2, 2)


def test_a_leader_that_is_silent_does_nothing_before_another_one_leads(
    log: SqliteLog, clock: Clock
):
    first, second = (Hosts(log.records, clock) for _ in range(2))
    beat(first, second)
    clock.now += SILENT_SECONDS
    beat(second)
    assert (first.is_leader, second.is_leader) == (False, False)
    clock.now += DEAD_SECONDS - SILENT_SECONDS
    beat(second)
    assert (first.is_leader, second.is_leader) == (False, True)
    assert second.count == 1


def test_what_a_leader_of_before_writes_is_refused(log: SqliteLog, clock: Clock):
    first, second = (Hosts(log.records, clock) for _ in range(2))
    beat(first, second)
    log.records.write(first.fence).result()
    clock.now += DEAD_SECONDS
    beat(second)
    with pytest.raises(RecordConflict):
        log.records.write(first.fence).result()
    beat(first)
    assert not first.is_leader


def test_another_host_leads_at_once_where_the_leader_left(log: SqliteLog, clock: Clock):
    first, second = (Hosts(log.records, clock) for _ in range(2))
    beat(first, second)
    asyncio.run(first.leave())
    beat(second)
    assert (second.is_leader, second.count) == (True, 1)


def test_whoever_only_looks_is_not_counted_and_never_leads(log: SqliteLog, clock: Clock):
    onlooker = Hosts(log.records, clock, takes_part=False)
    asyncio.run(onlooker.run(lambda: asyncio.sleep(0)))
    assert not onlooker.is_leader
    assert not log.records.list("host", "")


def test_those_who_ask_while_one_reads_share_the_next_read():
    async def scene() -> tuple[list[int], int]:
        reads, count, may_end = SharedCache[str, int](0, is_current=True), 0, asyncio.Event()

        async def read() -> int:
            nonlocal count
            count += 1
            number = count
            await may_end.wait()
            return number

        first = asyncio.ensure_future(reads.read("key", read))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(reads.read("key", read)) for _ in range(20)]
        await asyncio.sleep(0)
        may_end.set()
        found = [await first, *await asyncio.gather(*others)]
        return found, await reads.read("key", read)

    found, last = asyncio.run(scene())
    assert found == [1] + [2] * 20
    assert last == 3


def test_a_read_that_failed_is_made_again_for_the_next():
    async def scene() -> str:
        reads = SharedCache[str, str](0, is_current=True)

        async def fail() -> str:
            raise LookupError

        async def succeed() -> str:
            return "found"

        with pytest.raises(LookupError):
            await reads.read("key", fail)
        return await reads.read("key", succeed)

    assert asyncio.run(scene()) == "found"
