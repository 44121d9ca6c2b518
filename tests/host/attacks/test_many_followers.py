"""Many clients that want to see where a run stands."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

import pytest

from builders import a_suite, a_task
from evalwright.host.streams.cache import Made, SharedCache, SnapshotKey
from evalwright.host.v1 import events
from host.caller import Caller
from host.server import GATED
from subjects.waiting import Journal

FOLLOWERS = 12


def test_where_a_run_stands_is_found_out_once_for_all_who_follow_it(
    caller: Caller, gate: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[tuple[int, bytes]] = Counter()
    make = events.as_frame

    def counted(sequence: int, name: str, data: bytes) -> bytes:
        made[sequence, data] += name == "state.snapshot"
        return make(sequence, name, data)

    monkeypatch.setattr(events, "as_frame", counted)
    suite = a_suite([a_task("task-1", input="wait"), a_task("task-2")])
    run_id = caller.start(suite, agent_id=GATED)
    gate.wait_for(2)
    path = f"/v1/runs/{run_id}/events?streamMode=values"
    with ExitStack() as open_streams:
        streams = [open_streams.enter_context(caller.stream(path)) for _ in range(FOLLOWERS)]
        for stream in streams:
            assert next(iter(stream)).data["status"] == "running"
        gate.open_gate()
        ends = [list(stream)[-1] for stream in streams]
    assert {end.data["status"] for end in ends} == {"completed"}
    assert set(made.values()) == {1}


# What is kept.


def snapshot_key(sequence: int = 0, **more: str) -> SnapshotKey:
    return SnapshotKey(
        **{"partition": "acme", "run_id": "run_1", "status": "running", **more}, sequence=sequence
    )


def a_cache(most: int = 16) -> SharedCache[SnapshotKey, bytes]:
    return SharedCache(most)


def in_thread(make: Callable[[], bytes]) -> Callable[[], Awaitable[Made[bytes]]]:
    """As the host makes a state: in another thread."""
    return lambda: asyncio.to_thread(lambda: (1, make(), True))


def test_a_state_is_one_of_its_tenant_run_event_and_status() -> None:
    async def ask() -> list[bytes]:
        snapshots = a_cache()
        kinds = [
            snapshot_key(),
            snapshot_key(1),
            snapshot_key(partition="other"),
            snapshot_key(run_id="run_2"),
            snapshot_key(status="paused"),
        ]
        return [
            await snapshots.get(kind, in_thread(lambda kind=kind: repr(kind).encode()))
            for kind in kinds * 2
        ]

    told = asyncio.run(ask())
    assert told[:5] == told[5:]
    assert len(set(told)) == 5


def test_a_state_is_made_once_however_many_ask_at_the_same_time() -> None:
    threads: list[int] = []

    def make() -> bytes:
        threads.append(threading.get_ident())
        return b"state"

    async def ask() -> list[bytes]:
        snapshots = a_cache()
        asked = [snapshots.get(snapshot_key(), in_thread(make)) for _ in range(FOLLOWERS)]
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [b"state"] * FOLLOWERS
    assert len(threads) == 1


def test_a_state_that_could_not_be_made_is_made_when_it_is_asked_for_again() -> None:
    def fail() -> bytes:
        raise OSError("the disk is gone")

    async def ask() -> bytes:
        snapshots = a_cache()
        with pytest.raises(OSError, match="the disk is gone"):
            await snapshots.get(snapshot_key(), in_thread(fail))
        return await snapshots.get(snapshot_key(), in_thread(lambda: b"state"))

    assert asyncio.run(ask()) == b"state"


def test_who_leaves_does_not_take_a_state_away_from_the_others() -> None:
    release = threading.Event()

    def make() -> bytes:
        release.wait()
        return b"state"

    async def ask() -> bytes:
        snapshots = a_cache()
        leaves, stays = (
            asyncio.create_task(snapshots.get(snapshot_key(), in_thread(make))) for _ in range(2)
        )
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait((leaves,))
        release.set()
        assert leaves.cancelled()
        return await stays

    assert asyncio.run(ask()) == b"state"


def test_no_more_states_are_kept_than_the_bound_allows() -> None:
    made: list[int] = []

    def make(sequence: int) -> bytes:
        made.append(sequence)
        return b"state"

    async def ask() -> None:
        snapshots = a_cache(most=2)
        for sequence in (0, 1, 2, 2, 1, 0):
            await snapshots.get(snapshot_key(sequence), in_thread(partial(make, sequence)))

    asyncio.run(ask())
    assert made == [0, 1, 2, 0]
