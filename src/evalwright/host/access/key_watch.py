"""Keys of streams and other long requests: what goes on with a key ends soon after the key."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from evalwright.contracts.errors import StoreError
from evalwright.host.access.keys import key_states
from evalwright.store.protocol import EventLog

CHECK_SECONDS = 0.4  # between two checks; what a key allows ends within a second

End = Callable[[str], None]  # called with the state of a key that is no longer active


class KeyWatch:
    """The keys that long requests depend on; used on one event loop.

    A stream goes on for hours, and its key may be revoked by another process meanwhile: the keys in
    use are read again, each once for all of its streams.
    """

    def __init__(
        self, log: EventLog, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._log = log
        self._now = now
        self._watched: dict[str, dict[object, End]] = {}  # by key id

    @contextmanager
    def watch(self, key_id: str, end: End) -> Iterator[None]:
        """Call `end`, once, if the key expires or is revoked in this context."""
        place = object()
        self._watched.setdefault(key_id, {})[place] = end
        try:
            yield
        finally:
            ends = self._watched.get(key_id, {})
            ends.pop(place, None)
            if not ends:
                self._watched.pop(key_id, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._watched:
                with suppress(StoreError):  # it can be read again later
                    await self._check()

    async def _check(self) -> None:
        key_ids, records, now = list(self._watched), self._log.records, self._now()
        states = self._log.in_reader("", lambda: key_states(records, key_ids, now))
        for key_id, state in (await asyncio.wrap_future(states)).items():
            if state != "active":
                for end in self._watched.pop(key_id, {}).values():
                    end(state)
