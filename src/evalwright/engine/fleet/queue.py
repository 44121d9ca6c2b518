"""Which tasks are due, and who has leased them: rows of `attempts`.

A worker that has leased a task is its `holder`. While others hear of it, nobody else leases the
task; the fence is set when the attempt begins, and what counts is the score in the log.
"""

import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from evalwright.engine.fleet.database import Connection, FleetDatabase

LEASE_SECONDS = 8.0  # without a heartbeat, after which another worker takes a task
BEATS_PER_LEASE = 4
REFUSAL_SECONDS = 20.0  # after which a worker tries again to load what it could not

_FILL = "SELECT * FROM fleet_fill($1, $2)"
_LANES = """
SELECT DISTINCT lane FROM fleet_shares
WHERE released > 0 AND ($1::text[] IS NULL OR owner = ANY ($1))
"""

# Whoever began a task holds it, too, and does not take it once more: what it has lost sight of, it
# gives up. Rows that somebody else has locked are left out.
_LEASE = """
UPDATE attempts SET holder = $1 WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM attempts a JOIN fleet_shares s ON s.run_id = a.run_id
    WHERE a.state = 1 AND s.lane = ANY ($2) AND s.released > 0
    AND a.changed_at <= clock_timestamp() AND NOT EXISTS (
        SELECT FROM fleet_workers w WHERE w.worker = coalesce(a.holder, a.worker)
        AND (w.worker = $1 OR w.seen_at > now() - $4::interval)
    )
    ORDER BY a.changed_at, a.position LIMIT $3 FOR UPDATE OF a SKIP LOCKED
)) RETURNING run_id, task_id
"""
_RETURN = """
UPDATE attempts SET holder = NULL, changed_at = clock_timestamp() + $4::interval
WHERE run_id = $1 AND task_id = $2 AND holder = $3 AND state::integer = 1
"""


class LeasedTask(NamedTuple):
    """A task that this worker has leased."""

    run_id: str
    task_id: str


async def lease_tasks(
    connection: Connection, worker: uuid.UUID, lanes: Sequence[str], most: int, lease_s: float
) -> list[LeasedTask]:
    """Lease tasks, the first first; also those whose worker has not been heard of for long."""
    rows = await connection.fetch(_LEASE, worker, lanes, most, timedelta(seconds=lease_s))
    return [LeasedTask(*row) for row in rows]


async def return_tasks(
    connection: Connection, worker: uuid.UUID, tasks: Sequence[LeasedTask], delay_s: float
) -> None:
    """Let another worker take tasks that were not begun, after a while."""
    for each in tasks:
        await connection.execute(_RETURN, *each, worker, timedelta(seconds=delay_s))


class TaskQueue:
    """The tasks that are due, for a worker: those of lanes of which it can load what they need."""

    def __init__(
        self,
        database: FleetDatabase,
        worker: uuid.UUID,
        tenants: Sequence[str] | None,
        lease_s: float = LEASE_SECONDS,
    ) -> None:
        self._database = database
        self._worker = worker
        self._tenants = tenants
        self._lease_s = lease_s
        self._lanes: set[str] = set()  # with tasks, as far as is known
        self._refused: dict[str, float] = {}  # lanes, until when

    def forget_lanes(self) -> None:
        """Forget where there were tasks: some lanes may be empty by now, and others not."""
        self._lanes.clear()

    def add_lanes(self, lanes: Sequence[str]) -> None:
        """Tasks became due in these lanes."""
        tenants = self._tenants
        self._lanes |= {
            lane for lane in lanes if tenants is None or lane.rpartition("|")[0] in tenants
        }

    def refuse(self, lane: str) -> None:
        """Leave the tasks of a lane to others for a while."""
        self._refused[lane] = time.monotonic() + REFUSAL_SECONDS

    async def lease(self, most: int) -> list[LeasedTask]:
        """Lease tasks that are due; where there are none, release some."""
        async with self._database.connection(hurried=True) as connection:
            if not self._lanes:
                rows = await connection.fetch(_LANES, self._tenants)
                self._lanes = {row["lane"] for row in rows}
            leased = await self._lease_from_lanes(connection, most)
            if not leased:
                due = await self._database.due(connection, _FILL, self._tenants, most)
                self._lanes |= set(due)
                leased = await self._lease_from_lanes(connection, most) if due else []
            return leased

    async def _lease_from_lanes(self, connection: Connection, most: int) -> list[LeasedTask]:
        now = time.monotonic()
        self._refused = {lane: until for lane, until in self._refused.items() if until > now}
        lanes = [lane for lane in self._lanes if lane not in self._refused]
        if not lanes:
            return []
        return await lease_tasks(connection, self._worker, lanes, most, self._lease_s)
