"""The queue, repaired from what is due; and runs that took too long."""

import msgspec

from evalwright.engine.clock import Clock
from evalwright.engine.fleet.database import LONG_SECONDS, FleetDatabase
from evalwright.engine.fleet.endings import out_of_time
from evalwright.engine.fleet.handover import FleetRuns, HandedPlan
from evalwright.engine.fleet.queue import Connection, DueTask
from evalwright.store.postgres import statements
from evalwright.store.protocol import NewEvent

APART_SECONDS = 10
_TURN = """
INSERT INTO fleet_counters AS c VALUES ('reconciled_s', extract(epoch FROM now())::bigint)
ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value WHERE c.value <= EXCLUDED.value - $1::bigint
RETURNING true
"""
FORGET_WORKERS = "DELETE FROM fleet_workers WHERE seen_at < now() - interval '1 minute'"

# Counts as they follow from the attempts; only where they are wrong.
_RECOUNT = """
WITH counted AS (
    SELECT s.run_id, s.owner,
        count(*) FILTER (WHERE a.state = 0)::integer AS waiting,
        count(*) FILTER (WHERE a.state = 1)::integer AS released
    FROM fleet_shares s LEFT JOIN attempts a ON a.run_id = s.run_id
    WHERE s.owner = $1 GROUP BY s.run_id
), corrected AS (
    UPDATE fleet_shares s SET waiting = c.waiting, released = c.released
    FROM counted c WHERE s.run_id = c.run_id
    AND (s.waiting, s.released) IS DISTINCT FROM (c.waiting, c.released)
)
UPDATE fleet_owners o SET released = c.released, runs = c.runs
FROM (SELECT coalesce(sum(released), 0) AS released, count(*) AS runs FROM counted) c
WHERE o.owner = $1 AND (o.released, o.runs) IS DISTINCT FROM (c.released, c.runs)
"""
_RELEASE = "SELECT * FROM fleet_release($1, greatest(0, fleet_share($1) - $2))"

_OVERDUE = """
SELECT f.run_id, f.plan, r.started_us FROM fleet_runs f JOIN runs r ON r.run_id = f.run_id
WHERE f.overdue_at < now()
"""

# Tasks that are due and that no worker which is there has begun.
_UNATTENDED = """
SELECT a.run_id, a.task_id, r.lane FROM attempts a JOIN fleet_runs r ON r.run_id = a.run_id
WHERE a.state = 1 AND NOT EXISTS (
    SELECT FROM fleet_workers w
    WHERE w.worker = a.worker AND w.seen_at > now() - interval '10 s'
) ORDER BY a.run_id, a.position
"""


_RUNS = "SELECT run_id FROM fleet_runs"


async def end_overdue(database: FleetDatabase, clock: Clock) -> None:
    """End the runs that took longer than they may."""
    for row in await database.fetch(_OVERDUE):
        limit_s = msgspec.json.decode(row["plan"], type=HandedPlan).settings.run_timeout_s or 0
        now = clock.now_us()
        last = out_of_time(limit_s, max(0, now - row["started_us"]) // 1000)
        events = [NewEvent(each.TYPE, None, now, msgspec.json.encode(each)) for each in last]
        await FleetRuns(database, clock).end(row["run_id"], events)


async def reconcile(database: FleetDatabase, *, at_once: bool = True) -> bool:
    """Repair counts and the queue; whether tasks were put back.

    Unless it is to be at once, one worker does it for all, now and then.
    """
    async with database.transaction() as connection:
        if not await connection.fetchval(_TURN, 0 if at_once else APART_SECONDS):
            return False
        await connection.execute(FORGET_WORKERS)
        await connection.execute(statements.SWEEP)
    async with database.connection() as connection:
        await database.queue.sweep(connection)
    due: list[DueTask] = []
    for row in await database.fetch(
        "SELECT owner FROM fleet_owners WHERE runs > 0 OR released > 0"
    ):
        due += await _recount(database, row["owner"])
    async with database.transaction() as connection:
        known = await database.queue.keys(connection)
        due += await _missing(connection, known)
        await database.queue.withdraw(connection, await _left_over(connection, known))
        await database.queue.put(connection, due)
    database.announce(due)
    return bool(due)


async def _recount(database: FleetDatabase, owner: str) -> list[DueTask]:
    """Correct the counts of a tenant, and release what may be."""
    async with database.transaction() as connection:
        lock = "SELECT FROM fleet_owners WHERE owner = $1 FOR UPDATE"
        await connection.execute(lock, owner)
        await connection.execute(_RECOUNT, owner, timeout=LONG_SECONDS)
        released = await connection.fetchval(
            "SELECT released FROM fleet_owners WHERE owner = $1", owner
        )
        due = await database.due(connection, _RELEASE, owner, released)
        await database.queue.put(connection, due)
    return due


async def _missing(connection: Connection, known: set[str]) -> list[DueTask]:
    """Tasks that are due, nobody works on, and are not in the queue."""
    due = [DueTask(*row) for row in await connection.fetch(_UNATTENDED, timeout=LONG_SECONDS)]
    return [each for each in due if each.key not in known]


async def _left_over(connection: Connection, known: set[str]) -> list[str]:
    """Rows of the queue whose run has left the fleet, where nobody looks for them any more.

    A row comes with its run, so a run that is not there after it was seen has ended.
    """
    if not known:
        return []
    runs = {row["run_id"] for row in await connection.fetch(_RUNS)}
    slashes = ((key, [n for n, letter in enumerate(key) if letter == "/"]) for key in known)
    return [key for key, ends in slashes if not any(key[:end] in runs for end in ends)]
