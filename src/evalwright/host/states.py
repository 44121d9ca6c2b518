"""Where a run stands, made once for all who follow it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

LONG_LOG = 1_000  # events; to go through more would let others wait
MOST_REMEMBERED = 16  # those who follow a run ask for the same state one after the other


class Standing(NamedTuple):
    """What a state is of: its run, the newest event in it, and how the run stands."""

    partition: str
    run_id: str
    sequence: int
    status: str


class States:
    """The states that were asked for last, as bytes; used on one event loop."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._made: dict[Standing, asyncio.Future[bytes]] = {}

    async def get(self, standing: Standing, make: Callable[[], bytes]) -> bytes:
        """The state, which is made unless it is known or being made; raises what `make` does."""
        state = self._made.get(standing)
        if state is None:
            if standing.sequence < LONG_LOG:
                state = asyncio.get_running_loop().create_future()
                state.set_result(make())
            else:
                state = asyncio.ensure_future(asyncio.to_thread(make))
                state.add_done_callback(lambda made: self._forget_failed(standing, made))
            self._remember(standing, state)
        return await asyncio.shield(state)  # who leaves does not take it away from the others

    def _remember(self, standing: Standing, state: "asyncio.Future[bytes]") -> None:
        self._made[standing] = state
        if len(self._made) > self._most:
            del self._made[next(iter(self._made))]

    def _forget_failed(self, standing: Standing, made: "asyncio.Future[bytes]") -> None:
        if made.cancelled() or made.exception() is not None:
            self._made.pop(standing, None)
