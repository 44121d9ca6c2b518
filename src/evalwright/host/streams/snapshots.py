"""Snapshots of runs, made once for all clients that follow a run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

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

    async def get(self, key: SnapshotKey, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The snapshot, made only if it is not cached or being made; raises what `make` raises."""
        state = self._made.get(key)
        if state is None:
            state = asyncio.ensure_future(make())
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
