"""Pages of logs as streams send them: made once, beside the event loop, for all who catch up.

Streams that begin at the same event read the same pages. A page that can no longer change is kept
for the next stream, as long as there is room.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

MOST_BYTES = 64 * 1024 * 1024  # of the pages that are kept


class PageKey(NamedTuple):
    """What a page holds: the events of a run after a sequence, in one form."""

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


class PageCache:
    """The pages that streams asked for last; used on one event loop."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[PageKey, LogPage] = {}
        self._being_made: dict[PageKey, asyncio.Future[LogPage]] = {}

    async def get(self, key: PageKey, make: Callable[[], Awaitable[LogPage]]) -> LogPage:
        """The page, made only if it is not kept; raises what `make` raises."""
        page = self._kept.pop(key, None)
        if page is not None:
            self._kept[key] = page  # now it is the last to be forgotten
            return page
        being_made = self._being_made.get(key)
        if being_made is None:
            return await self._made(key, make)
        page = await asyncio.shield(being_made)
        if page.is_final:
            return page
        # It may have been read before this stream began to listen: what came between the two would
        # be missing. One that is being made now is not that old.
        another = self._being_made.get(key)
        return await (self._made(key, make) if another is None else asyncio.shield(another))

    async def _made(self, key: PageKey, make: Callable[[], Awaitable[LogPage]]) -> LogPage:
        making = asyncio.ensure_future(make())
        self._being_made[key] = making
        making.add_done_callback(lambda made: self._finish(key, made))
        return await asyncio.shield(making)  # a client that leaves does not cancel it for others

    def _finish(self, key: PageKey, made: "asyncio.Future[LogPage]") -> None:
        self._being_made.pop(key, None)
        if made.cancelled() or made.exception() is not None or not made.result().is_final:
            return
        page = made.result()
        self._kept[key] = page
        self._bytes += len(page.content)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._kept.pop(next(iter(self._kept))).content)
