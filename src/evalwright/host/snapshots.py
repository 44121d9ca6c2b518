"""Snapshots of runs, made once for all clients that follow a run."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

LONG_LOG = 1_000  # events; a longer log is read in a thread
MOST_REMEMBERED = 16  # the followers of a run ask for the same snapshot within a short time


class SnapshotKey(NamedTuple):
    """What a snapshot shows: a run up to an event, with its status."""

    partition: str
    run_id: str
    sequence: int
    status: str


class SnapshotCache:
    """The most recent snapshots, as bytes; used on one event loop."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._made: dict[SnapshotKey, asyncio.Future[bytes]] = {}

    async def get(self, key: SnapshotKey, make: Callable[[], bytes]) -> bytes:
        """The snapshot, made only if it is not cached or being made; raises what `make` raises."""
        state = self._made.get(key)
        if state is None:
            if key.sequence < LONG_LOG:
                state = asyncio.get_running_loop().create_future()
                state.set_result(make())
            else:
                state = asyncio.ensure_future(asyncio.to_thread(make))
                state.add_done_callback(lambda made: self._forget_failed(key, made))
            self._remember(key, state)
        return await asyncio.shield(state)  # a client that leaves does not cancel it for the others

    def _remember(self, key: SnapshotKey, state: "asyncio.Future[bytes]") -> None:
        self._made[key] = state
        if len(self._made) > self._most:
            del self._made[next(iter(self._made))]

    def _forget_failed(self, key: SnapshotKey, made: "asyncio.Future[bytes]") -> None:
        if made.cancelled() or made.exception() is not None:
            self._made.pop(key, None)
