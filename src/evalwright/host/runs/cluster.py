"""The hosts of one log: how many are alive, and which one does what only one may do.

Each host counts its beats in a document. One whose count stands still is dead; no clocks are
compared. The leader is named by a document that is replaced only after its death, and every write
for which it matters makes sure that the document is still the same.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from evalwright.contracts.errors import StoreError
from evalwright.store.records import RecordChange, RecordConflict, Records

BEAT_SECONDS = 2.0
SILENT_SECONDS = 5.0  # without a beat, after which a leader does nothing more
DEAD_SECONDS = 8.0  # after which the others hold it for dead
FORGOTTEN_SECONDS = 60.0

KIND, LEADER = "host", "host_leader"


class Hosts:
    """The hosts that are alive; used on one event loop. A log in a file has one host."""

    def __init__(
        self,
        records: Records,
        clock: Callable[[], float] = time.monotonic,
        *,
        takes_part: bool = True,
    ) -> None:
        self.id = secrets.token_hex(8)
        self.is_alone = records.is_local
        self.takes_part = takes_part or self.is_alone  # else it only looks at what others do
        self.count = 1
        self._records = records
        self._clock = clock
        self._beats = 0
        self._beaten_at = float("-inf")
        self._is_chosen = False
        self._seen: dict[str, tuple[bytes, float]] = {}  # the last beat of each, and since when

    @property
    def is_leader(self) -> bool:
        """Whether this host does what only one may do."""
        is_heard = self._clock() - self._beaten_at < SILENT_SECONDS
        return self.is_alone or (self._is_chosen and is_heard)

    @property
    def fence(self) -> list[RecordChange]:
        """What makes a write fail unless this host is still the leader."""
        mine = self.id.encode()
        return [] if self.is_alone else [RecordChange(LEADER, "", "", mine, mine)]

    async def run(self, beaten: Callable[[], Awaitable[None]]) -> None:
        """Stay alive; `beaten` is called after every beat, also after one that failed."""
        while self.takes_part and not self.is_alone:
            with suppress(StoreError):
                await self.beat()
            await beaten()
            await asyncio.sleep(BEAT_SECONDS)

    async def beat(self) -> None:
        """Tell the others that this host is alive, see who else is, and choose a leader."""
        began, self._beats = self._clock(), self._beats + 1
        mine = RecordChange(KIND, "", self.id, str(self._beats).encode())
        await asyncio.wrap_future(self._records.write([mine]))
        beats, leader = await asyncio.wrap_future(self._records.in_reader("", self._read))
        self._beaten_at = began
        now = self._clock()
        before = self._seen
        self._seen = {
            host: before[host] if host in before and before[host][0] == body else (body, now)
            for host, body in beats.items()
        }
        self.count = len({self.id, *(host for host in self._seen if self._is_alive(host))})
        await self._choose(leader)

    def _read(self) -> tuple[dict[str, bytes], str | None]:
        beats = {record.key: record.body for record in self._records.list(KIND, "")}
        leader = self._records.get(LEADER, "", "")
        return beats, None if leader is None else leader.decode()

    def _is_alive(self, host: str) -> bool:
        return host == self.id or (
            host in self._seen and self._clock() - self._seen[host][1] < DEAD_SECONDS
        )

    async def _choose(self, leader: str | None) -> None:
        if leader is None or not self._is_alive(leader):
            before = None if leader is None else leader.encode()
            claim = RecordChange(LEADER, "", "", self.id.encode(), before)
            try:
                await asyncio.wrap_future(self._records.write([claim]))
            except RecordConflict:  # another host was first
                self._is_chosen = False
                return
            leader = self.id
        self._is_chosen = leader == self.id
        gone = [
            RecordChange(KIND, "", host, None)
            for host, (_, since) in self._seen.items()
            if self._is_chosen and self._clock() - since > FORGOTTEN_SECONDS
        ]
        if gone:
            await asyncio.wrap_future(self._records.write(gone))

    async def leave(self) -> None:
        """Leave everything to the others, at once."""
        if self.is_alone or not self.takes_part:
            return
        was_chosen, self._is_chosen = self._is_chosen, False
        changes = [RecordChange(KIND, "", self.id, None)]
        if was_chosen:
            changes.append(RecordChange(LEADER, "", "", None, self.id.encode()))
        with suppress(StoreError):
            await asyncio.wrap_future(self._records.write(changes))
