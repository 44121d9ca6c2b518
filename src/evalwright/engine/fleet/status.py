"""How the fleet is doing: what a run waits for, and the numbers that its metrics show."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from evalwright.engine.fleet.database import FleetDatabase
from evalwright.store.protocol import EventLog

ASK_SECONDS = 5.0  # that a request for metrics may take
MOST_LINES = 100  # of a request

_STATUS = """
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
    greatest(0, extract(epoch FROM now() - min(changed_at) FILTER (WHERE worker IS NULL)))::float8
        AS oldest_s,
    (SELECT coalesce(sum(waiting), 0) FROM fleet_shares) AS waiting,
    (SELECT count(*) FROM fleet_workers WHERE seen_at > now() - interval '15 s') AS workers,
    (SELECT coalesce(sum(value), 0)::bigint FROM fleet_counters WHERE name = 'leases_lost')
        AS leases_lost
FROM attempts WHERE state = 1
"""
_OWNERS = "SELECT owner, released, scored FROM fleet_owners WHERE owner <> '' ORDER BY owner"


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

    @property
    def largest_share(self) -> float:
        """The largest part of the tasks due and at work that is one tenant's."""
        released = [each.released for each in self.shares]
        return max(released, default=0) / max(1, sum(released))


async def waiting_for(database: FleetDatabase, run_id: str) -> str | None:
    """What a run waits for, in words; None where its tasks are at work, or it has ended."""
    row = await database.fetchrow(_STATUS, run_id)
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


def run_status(address: str, log: EventLog, run_id: str) -> str | None:
    """How a run is doing that workers have, as a sentence; None for any other run."""

    async def ask() -> str | None:
        database = FleetDatabase(address, log)
        try:
            if await database.fetchrow(_STATUS, run_id) is None:
                return None
            waits = await waiting_for(database, run_id)
            return f"it waits for {waits}" if waits else "workers are executing it"
        finally:
            await database.close()

    return asyncio.run(ask())


async def fleet_metrics(database: FleetDatabase, *, with_tenants: bool) -> bytes:
    """The numbers of the fleet in the text format of Prometheus."""
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        disable_created_metrics,
        generate_latest,
    )

    numbers, registry = await fleet_numbers(database), CollectorRegistry()
    disable_created_metrics()  # type: ignore[no-untyped-call]
    for kind, name, about, value in (
        (Gauge, "queue_depth", "Tasks that are due and that nobody has begun.", numbers.queued),
        (Gauge, "tasks_at_work", "Tasks that workers work on.", numbers.begun),
        (Gauge, "tasks_waiting", "Tasks that are not due yet.", numbers.waiting),
        (Gauge, "oldest_task_seconds", "For how long the oldest task is due.", numbers.oldest_s),
        (Gauge, "workers", "Workers that were heard of lately.", numbers.workers),
        (Counter, "lease_losses_total", "Tasks taken over.", numbers.leases_lost),
        (Gauge, "largest_share", "Of a tenant among all tasks at work.", numbers.largest_share),
    ):
        kind(f"evalwright_fleet_{name}", about, registry=registry).inc(value)
    if with_tenants:
        name, about = "evalwright_fleet_tenant_tasks", "Tasks due or at work, by tenant."
        released = Gauge(name, about, ["tenant"], registry=registry)
        name, about = "evalwright_fleet_tenant_scored_total", "Tasks ended, by tenant."
        scored = Counter(name, about, ["tenant"], registry=registry)
        for each in numbers.shares:
            released.labels(each.owner).set(each.released)
            scored.labels(each.owner).inc(each.scored)
    return generate_latest(registry)


async def fleet_numbers(database: FleetDatabase) -> FleetNumbers:
    """The numbers of the fleet, from its tables."""
    shares = [OwnerShare(*each) for each in await database.fetch(_OWNERS)]
    return FleetNumbers(**dict(await database.fetchrow(_NUMBERS)), shares=shares)


@asynccontextmanager
async def serve_metrics(
    database: FleetDatabase, place: tuple[str, int] | None
) -> AsyncIterator[str | None]:
    """Serve `/metrics` and `/healthz`; gives the address, or None where nothing is served."""
    if place is None:
        yield None
        return

    async def response(reader: asyncio.StreamReader) -> bytes:
        asked = (await reader.readline()).split()
        for _ in range(MOST_LINES):
            if not (await reader.readline()).strip():
                break
        path = asked[1] if len(asked) > 1 else b""
        status, body = b"404 Not Found", b""
        if path == b"/healthz":
            status, body = b"200 OK", b"ok\n"
        elif path == b"/metrics":
            try:
                status, body = b"200 OK", await fleet_metrics(database, with_tenants=True)
            except Exception:  # noqa: BLE001 - the database is out of reach
                status = b"503 Service Unavailable"
        head = b"Content-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: "
        return b"HTTP/1.1 %s\r\n%s%d\r\n\r\n%s" % (status, head, len(body), body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(Exception):  # whoever asks can ask again
            async with asyncio.timeout(ASK_SECONDS):
                writer.write(await response(reader))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, *place)
    host, port = server.sockets[0].getsockname()[:2]
    async with server:
        yield f"http://{host}:{port}/metrics"
