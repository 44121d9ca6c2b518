"""Where a run stands, made once for all who follow it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

LONG_LOG = 1_000  # events; to go through more would let others wait
MOST_REMEMBERED = 16  # those who follow a run ask for the same state one after the other


class SnapshotKey(NamedTuple):
    """What a state is of: its run, the newest event in it, and how the run stands."""

    partition: str
    run_id: str
    sequence: int
    status: str


class SnapshotCache:
    """The states that were asked for last, as bytes; used on one event loop."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._made: dict[SnapshotKey, asyncio.Future[bytes]] = {}

    async def get(self, key: SnapshotKey, make: Callable[[], bytes]) -> bytes:
        """The state, which is made unless it is known or being made; raises what `make` does."""
        state = self._made.get(key)
        if state is None:
            if key.sequence < LONG_LOG:
                state = asyncio.get_running_loop().create_future()
                state.set_result(make())
            else:
                state = asyncio.ensure_future(asyncio.to_thread(make))
                state.add_done_callback(lambda made: self._forget_failed(key, made))
            self._remember(key, state)
        return await asyncio.shield(state)  # who leaves does not take it away from the others

    def _remember(self, key: SnapshotKey, state: "asyncio.Future[bytes]") -> None:
        self._made[key] = state
        if len(self._made) > self._most:
            del self._made[next(iter(self._made))]

    def _forget_failed(self, key: SnapshotKey, made: "asyncio.Future[bytes]") -> None:
        if made.cancelled() or made.exception() is not None:
            self._made.pop(key, None)
