"""The tables of the fleet, repaired; and runs that took too long."""

import msgspec

from evalwright.engine.clock import Clock
from evalwright.engine.fleet.database import LONG_SECONDS, FleetDatabase
from evalwright.engine.fleet.handover import FleetRuns, HandedPlan
from evalwright.engine.machine import out_of_time
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
_RELEASE = """
SELECT * FROM fleet_release($1, greatest(0, fleet_share($1) -
    (SELECT released FROM fleet_owners WHERE owner = $1)))
"""

_OVERDUE = """
SELECT f.run_id, f.plan, r.started_us FROM fleet_runs f JOIN runs r ON r.run_id = f.run_id
WHERE f.overdue_at < now()
"""

# Runs with tasks that are neither there nor ended; and those that the fleet does not have, though
# their claim says so. They leave it, and whoever takes them up goes on from the log.
_BROKEN = """
SELECT l.due_lane FROM fleet_runs r, fleet_leave(r.run_id, 0) l WHERE r.remaining <> (
    SELECT count(*) FROM attempts a WHERE a.run_id = r.run_id AND a.state IN (0, 1)
)
"""
_UNCLAIM = """
UPDATE runs r SET claimed_until = NULL
WHERE r.claimed_until = 'infinity' AND r.started_us IS NOT NULL AND r.ended_us IS NULL
AND NOT EXISTS (SELECT FROM fleet_runs f WHERE f.run_id = r.run_id)
"""


async def end_overdue(database: FleetDatabase, clock: Clock) -> None:
    """End the runs that took longer than they may."""
    for row in await database.fetch(_OVERDUE):
        limit_s = msgspec.json.decode(row["plan"], type=HandedPlan).settings.run_timeout_s or 0
        now = clock.now_us()
        duration_ms = max(0, now - row["started_us"]) // 1000
        end = out_of_time(limit_s, duration_ms)
        events = [
            NewEvent(each.TYPE, None, now, msgspec.json.encode(each))
            for each in end.events(duration_ms)
        ]
        await FleetRuns(database, clock).end(row["run_id"], events)


async def reconcile(database: FleetDatabase, *, at_once: bool = True) -> bool:
    """Repair counts, and have broken runs leave the fleet; whether tasks became due.

    Unless it is to be at once, one worker does it for all, now and then.
    """
    async with database.transaction() as connection:
        if not await connection.fetchval(_TURN, 0 if at_once else APART_SECONDS):
            return False
        await connection.execute(FORGET_WORKERS)
        await connection.execute(statements.SWEEP)
        due = await database.due(connection, _BROKEN)
        await connection.execute(_UNCLAIM, timeout=LONG_SECONDS)
    for row in await database.fetch(
        "SELECT owner FROM fleet_owners WHERE runs > 0 OR released > 0"
    ):
        owner = row["owner"]
        async with database.transaction() as connection:
            await connection.execute("SELECT FROM fleet_owners WHERE owner = $1 FOR UPDATE", owner)
            await connection.execute(_RECOUNT, owner, timeout=LONG_SECONDS)
            due += await database.due(connection, _RELEASE, owner)
    database.announce(due)
    return bool(due)
