"""How the fleet stands: what a run waits for, and the numbers that metrics show."""

from typing import NamedTuple

from evalwright.engine.fleet.database import FleetDatabase

_STANDING = """
SELECT r.is_paused, r.owner, r.lane,
    (SELECT count(*) FROM attempts a WHERE a.run_id = r.run_id AND a.state = 1 AND a.worker IS NULL)
        AS queued,
    (SELECT count(*) FROM attempts a WHERE a.run_id = r.run_id AND a.state = 1
        AND a.worker IS NOT NULL) AS begun,
    (SELECT count(*) FROM fleet_workers w WHERE w.seen_at > now() - interval '15 s'
        AND (w.tenants IS NULL OR r.owner = ANY (w.tenants))) AS workers
FROM fleet_runs r WHERE r.run_id = $1
"""
_REFUSALS = """
SELECT w.name, f.reason FROM fleet_refusals f JOIN fleet_workers w ON w.worker = f.worker
WHERE f.run_id IN (SELECT run_id FROM fleet_runs WHERE lane = $1)
AND w.seen_at > now() - interval '15 s' ORDER BY w.name
"""
_NUMBERS = """
SELECT
    count(*) FILTER (WHERE worker IS NULL) AS queued,
    count(*) FILTER (WHERE worker IS NOT NULL) AS begun,
    coalesce(extract(epoch FROM now() - min(changed_at) FILTER (WHERE worker IS NULL)), 0)
        AS oldest_s,
    (SELECT coalesce(sum(waiting), 0) FROM fleet_shares) AS waiting,
    (SELECT count(*) FROM fleet_workers WHERE seen_at > now() - interval '15 s') AS workers,
    (SELECT coalesce(sum(value), 0) FROM fleet_counters WHERE name = 'leases_lost') AS leases_lost
FROM attempts WHERE state = 1
"""
_OWNERS = "SELECT owner, released, scored FROM fleet_owners ORDER BY owner"


class OwnerShare(NamedTuple):
    """What a tenant has of the fleet."""

    owner: str
    released: int  # tasks in the queue or at work
    scored: int  # tasks that have ended, since the tables were made


class FleetNumbers(NamedTuple):
    """The fleet at a moment."""

    queued: int  # tasks that are due and that nobody has begun
    begun: int
    oldest_s: float  # for which the first of those queued has been due
    waiting: int  # tasks that are not due yet: others of their run, or of their tenant, come first
    workers: int
    leases_lost: int
    shares: list[OwnerShare]


async def waiting_for(database: FleetDatabase, run_id: str) -> str | None:
    """What a run waits for, in words; None where its tasks are at work, or it has ended."""
    row = await database.fetchrow(_STANDING, run_id)
    if row is None or row["begun"]:
        return None
    if row["is_paused"]:
        return "the run is paused"
    if not row["workers"]:
        return f"a worker for tenant {row['owner']}: none is running"
    refusals = await database.fetch(_REFUSALS, row["lane"])
    if len({each["name"] for each in refusals}) >= row["workers"]:
        first = refusals[0]
        count = "the only worker" if row["workers"] == 1 else f"all {row['workers']} workers"
        reason = f"{first['name']}: {first['reason']}"
        return f"a worker that can load what it needs; {count} cannot: {reason}"
    return f"a free worker: {row['queued']} tasks are due" if row["queued"] else None


async def fleet_numbers(database: FleetDatabase) -> FleetNumbers:
    """The numbers of the fleet, from its tables."""
    row = await database.fetchrow(_NUMBERS)
    assert row is not None
    shares = [OwnerShare(*each) for each in await database.fetch(_OWNERS)]
    return FleetNumbers(
        row["queued"],
        row["begun"],
        float(row["oldest_s"]),
        row["waiting"],
        row["workers"],
        int(row["leases_lost"]),
        shares,
    )
