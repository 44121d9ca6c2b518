"""Upkeep of a log in PostgreSQL: sizes, tombstones, and deleting whole runs by their keys."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalwright.store.postgres.connections import tenants_of
from evalwright.store.postgres.stored_text import end_of_prefix, restored, storable
from evalwright.store.upkeep import RUNS, PartitionSize, Tombstone

if TYPE_CHECKING:
    from asyncpg import Connection

    from evalwright.store.postgres.log import PostgresDatabase

_MENTIONING = """
SELECT run_id FROM runs WHERE started_us IS NOT NULL AND run_id <> $1 AND EXISTS (
    SELECT 1 FROM events WHERE events.run = runs.run
    AND events.seq = ANY (ARRAY[0, 1, 2, runs.last_seq])
    AND (position($2::bytea IN body) > 0 OR EXISTS (
        SELECT 1 FROM contents WHERE contents.tenant = events.tenant
        AND contents.sha256 = events.content AND position($2::bytea IN contents.body) > 0
    ))
)
"""
_ABANDONED = (
    "SELECT run_id, tenant FROM runs WHERE started_us IS NOT NULL AND ended_us IS NULL"
    " AND status = 'running' AND (claimed_until IS NULL OR claimed_until < now()){mine}"
    " ORDER BY run"
)
_SCORED_AT = (
    "SELECT task_id, seq FROM events WHERE type = 'eval.scored' AND task_id = ANY ($2::text[])"
    " AND run = (SELECT run FROM runs WHERE run_id = $1{mine})"
)
_SEQUENCES_OF = (
    "SELECT task_id, seq FROM events WHERE task_id = ANY ($2::text[])"
    " AND run = (SELECT run FROM runs WHERE run_id = $1{mine}) ORDER BY seq"
)
_SIZES = f"""
SELECT tenant, kind, sum(things)::bigint, sum(bytes)::bigint FROM (
    SELECT tenant, '{RUNS}' AS kind, runs AS things, bytes FROM tenant_sizes
    WHERE tenant >= $1{{bound}}
    UNION ALL
    SELECT tenant, '{RUNS}', 1, bytes FROM runs
    WHERE started_us IS NOT NULL AND ended_us IS NULL AND tenant >= $1{{bound}}
    UNION ALL
    SELECT tenant, kind, documents, bytes FROM record_sizes WHERE tenant >= $1{{bound}}
) AS counted GROUP BY tenant, kind
"""  # noqa: S608 - only constants are added
_TOMBSTONES = (
    "SELECT run_id, tenant, at_us, reason FROM tombstones WHERE run_id >= $1{bound}{mine}"
    " ORDER BY run"
)

# In this order, in one transaction. Nothing is scanned: each finds its rows by the keys of runs.
_BURY = """
WITH pruned AS MATERIALIZED (
    SELECT * FROM runs WHERE run_id = ANY ($1::text[]) AND ended_us IS NOT NULL{mine}
    ORDER BY run FOR UPDATE
)
INSERT INTO tombstones (run, run_id, tenant, suite, agent, status, started_us, ended_us, events,
    bytes, at_us, reason)
SELECT run, run_id, tenant, suite, agent, status, started_us, ended_us, last_seq + 1, bytes,
    $2, $3
FROM pruned RETURNING run, run_id, tenant
"""
_DELETE_ROWS = (
    "DELETE FROM events WHERE run = ANY ($1::bigint[])",
    "DELETE FROM run_tags WHERE run = ANY ($1::bigint[])",
    "DELETE FROM runs WHERE run = ANY ($1::bigint[])",
)
_DELETE_CONTENTS = """
WITH gone AS MATERIALIZED (
    DELETE FROM run_contents WHERE run = ANY ($1::bigint[]) RETURNING run, tenant, sha256
)
DELETE FROM contents USING (SELECT DISTINCT tenant, sha256 FROM gone) AS unused
WHERE contents.tenant = unused.tenant AND contents.sha256 = unused.sha256
AND NOT EXISTS (
    SELECT 1 FROM run_contents AS other WHERE other.tenant = contents.tenant
    AND other.sha256 = contents.sha256 AND other.run <> ALL ($1::bigint[])
)
"""
_DELETE_RECORDS = """
DELETE FROM records USING unnest($1::text[], $2::text[]) AS pruned (run_id, tenant),
    unnest($3::text[]) AS given (kind)
WHERE records.kind = given.kind AND records.tenant = pruned.tenant
AND records.key >= pruned.run_id || '/' AND records.key < pruned.run_id || '0'
"""
_RESTORE = """
WITH restored AS (
    DELETE FROM tombstones WHERE run_id = $1{mine} RETURNING run, run_id, tenant
)
INSERT INTO runs (run, run_id, tenant) SELECT run, run_id, tenant FROM restored
"""


class PostgresUpkeep:
    """Upkeep of a log in PostgreSQL."""

    def __init__(self, database: "PostgresDatabase", tenant: str | None) -> None:
        self._database = database
        self._tenant = tenant
        self._tenants = tenants_of([tenant])

    def mentioning(self, run_id: str) -> list[str]:
        statement, values = self._mine(_MENTIONING + "{mine}", run_id, run_id.encode())
        return [other for (other,) in self._query(statement, *values)]

    def abandoned_runs(self) -> list[tuple[str, str]]:
        statement, values = self._mine(_ABANDONED)
        return [(run_id, tenant) for run_id, tenant in self._query(statement, *values)]

    def scored_at(self, run_id: str, task_ids: Sequence[str]) -> dict[str, int]:
        statement, values = self._mine(_SCORED_AT, run_id, [*map(storable, task_ids)])
        return {restored(task): sequence for task, sequence in self._query(statement, *values)}

    def sequences_of(self, run_id: str, task_ids: Sequence[str]) -> dict[str, list[int]]:
        statement, values = self._mine(_SEQUENCES_OF, run_id, [*map(storable, task_ids)])
        found: dict[str, list[int]] = {}
        for task, sequence in self._query(statement, *values):
            found.setdefault(restored(task), []).append(sequence)
        return found

    def sizes(self, prefix: str) -> list[PartitionSize]:
        statement, values = _bounded(_SIZES, prefix)
        return [PartitionSize(*row) for row in self._query(statement, *values)]

    def tombstones(self, prefix: str) -> list[Tombstone]:
        if "\0" in prefix:  # for which PostgreSQL cannot even look
            return []
        statement, values = _bounded(_TOMBSTONES, prefix)
        statement, values = self._mine(statement, *values)
        return [Tombstone(*row) for row in self._query(statement, *values)]

    def refuse_pruned(self, run_id: str) -> None:
        for tombstone in self.tombstones(run_id):
            if tombstone.run_id == run_id:
                raise tombstone.as_error()

    def prune(self, run_ids: Sequence[str], reason: str, kinds: Sequence[str]) -> int:
        connections = self._database.connections
        values = sorted(run_ids), time.time_ns() // 1000, reason
        bury, given = self._mine(_BURY, *values)

        async def work(connection: "Connection") -> int:
            buried = await connection.fetch(bury, *given)
            runs = [run for run, _, _ in buried]
            names, tenants = [name for _, name, _ in buried], [who for *_, who in buried]
            for statement in _DELETE_ROWS:
                await connection.execute(statement, runs)
            await connection.execute(_DELETE_CONTENTS, runs)
            await connection.execute(_DELETE_RECORDS, names, tenants, list(kinds))
            return len(buried)

        count = connections.run(connections.transact(self._tenants, work))
        self._database.reading.ended_runs.clear()
        self._database.news.publish(run_ids)
        return count

    def restore(self, run_id: str) -> None:
        """Forget that a run was pruned; it keeps its number, which others may remember."""
        statement, values = self._mine(_RESTORE, run_id)
        self._query(statement, *values)

    def erase_deleted(self) -> bool:
        """Never: the server overwrites what is deleted in its own time."""
        return False

    def _query(self, statement: str, *values: Any) -> list[Any]:
        return self._database.connections.query(self._tenants, statement, *values)

    def _mine(self, statement: str, *values: Any) -> tuple[str, tuple[Any, ...]]:
        if self._tenant is None:
            return statement.format(mine=""), values
        mine = f" AND tenant = ${len(values) + 1}"
        return statement.format(mine=mine), (*values, self._tenant)


def _bounded(statement: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    end = end_of_prefix(prefix)
    bound = "" if end is None else " AND {} < $2"
    column = "run_id" if "run_id >= $1" in statement else "tenant"
    filled = statement.replace("{bound}", bound.format(column))
    return filled, (prefix,) if end is None else (prefix, end)
