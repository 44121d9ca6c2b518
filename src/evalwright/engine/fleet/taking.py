"""Taking tasks that are due: where a worker looks for them, and what it leaves to others."""

import time
import uuid
from collections.abc import Sequence

from evalwright.engine.fleet.database import FleetDatabase, atomic
from evalwright.engine.fleet.queue import TakenTask

REFUSAL_SECONDS = 20.0  # after which a worker tries again to load what it could not

_FILL = "SELECT * FROM fleet_fill($1, $2)"
_LANES = """
SELECT DISTINCT lane FROM fleet_shares
WHERE released > 0 AND ($1::text[] IS NULL OR owner = ANY ($1))
"""


class TaskTaker:
    """Takes tasks for a worker, from the lanes of which it can load what they need."""

    def __init__(
        self, database: FleetDatabase, worker: uuid.UUID, tenants: Sequence[str] | None
    ) -> None:
        self._database = database
        self._worker = worker
        self._tenants = tenants
        self._lanes: set[str] = set()  # with tasks, as far as is known
        self._refused: dict[str, float] = {}  # lanes, until when

    def look_again(self) -> None:
        """Forget where there were tasks: some lanes may be empty by now, and others not."""
        self._lanes.clear()

    def hear(self, lanes: Sequence[str]) -> None:
        """Tasks became due in these lanes."""
        tenants = self._tenants
        self._lanes |= {
            lane for lane in lanes if tenants is None or lane.rpartition("|")[0] in tenants
        }

    def refuse(self, lane: str) -> None:
        """Leave the tasks of a lane to others for a while."""
        self._refused[lane] = time.monotonic() + REFUSAL_SECONDS

    def _open_lanes(self) -> list[str]:
        """The lanes with tasks of which this worker can load what they need."""
        now = time.monotonic()
        self._refused = {lane: until for lane, until in self._refused.items() if until > now}
        return [lane for lane in self._lanes if lane not in self._refused]

    async def take(self, most: int) -> list[TakenTask]:
        """Take tasks that are due; where there are none, release some."""
        async with self._database.connection(hurried=True) as connection:
            if not self._lanes:
                rows = await connection.fetch(_LANES, self._tenants)
                self._lanes = {row["lane"] for row in rows}
            taken: list[TakenTask] = []
            if lanes := self._open_lanes():
                taken = await self._database.queue.take(connection, self._worker, lanes, most)
            if taken:
                return taken
            async with atomic(connection):
                due = await self._database.due(connection, _FILL, self._tenants, most)
                await self._database.queue.put(connection, due)
            if not due:
                return []
            self._lanes |= {each.lane for each in due}
            if not (lanes := self._open_lanes()):
                return []
            return await self._database.queue.take(connection, self._worker, lanes, most)
