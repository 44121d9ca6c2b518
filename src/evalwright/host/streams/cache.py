"""What many ask for at the same time, made once for all of them and kept as long as there is room.

Streams that begin at the same event read the same pages of a log, and those that follow a run ask
for the same snapshots; pages of the site keep what they have read of runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

MOST_PAGE_BYTES = 64 * 1024 * 1024  # of the pages of logs that are kept
MOST_SNAPSHOTS = 16  # the followers of a run ask for the same one within a short time

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Made: TypeAlias = tuple[int, V, bool]  # its size, the value, and whether it may be kept


class SharedCache(Generic[K, V]):
    """Values that were asked for last; each is made once at a time. Used on one event loop.

    Where `is_current`, whoever asks gets a value that is kept, or was read from then on.
    """

    def __init__(self, room: int, *, is_current: bool = False) -> None:
        self._room = room
        self._is_current = is_current
        self._used = 0
        self._kept: dict[K, tuple[int, V]] = {}
        self._being_made: dict[K, asyncio.Future[Made[V]]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    async def get(self, key: K, make: Callable[[], Awaitable[Made[V]]]) -> V:
        """The value, made if it is not kept; raises what `make` raises."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept[key] = kept  # now it is the last to be forgotten
            return kept[1]
        making = self._being_made.get(key)
        if making is not None and self._is_current:
            # It may have been read before this client began to listen: what came between the two
            # would be missing. One that is begun after it is not that old.
            await asyncio.wait((making,))
            if not making.cancelled() and making.exception() is None and making.result()[2]:
                return making.result()[1]
            making = self._being_made.get(key)
        if making is None:
            making = self._being_made[key] = asyncio.ensure_future(make())
            making.add_done_callback(partial(self._finish, key))
        return (await asyncio.shield(making))[1]  # who leaves does not cancel it for others

    async def read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """A value that is not kept: many who ask at the same moment share one read."""

        async def make() -> Made[V]:
            return 0, await read(), False

        return await self.get(key, make)

    def _finish(self, key: K, making: "asyncio.Future[Made[V]]") -> None:
        self._being_made.pop(key, None)
        if making.cancelled() or making.exception() is not None:
            return
        size, value, is_final = making.result()
        if is_final and size <= self._room:
            self._kept[key] = size, value
            self._used += size
            while self._used > self._room:
                self._used -= self._kept.pop(next(iter(self._kept)))[0]


class PageKey(NamedTuple):
    """What a page of a log holds: the events of a run after a sequence, in one form."""

    partition: str
    run_id: str
    after: int
    form: str


class LogPage(NamedTuple):
    """A part of a log, as bytes for a client."""

    content: bytes
    last: int  # the sequence of its last event, shown or not
    is_end: bool  # no event followed when it was read
    is_over: bool  # none will ever follow

    @property
    def is_final(self) -> bool:
        """Whether it would be the same if it were read again."""
        return self.is_over or not self.is_end


class SnapshotKey(NamedTuple):
    """What a snapshot shows: a run up to an event, with its status."""

    partition: str
    run_id: str
    sequence: int
    status: str
