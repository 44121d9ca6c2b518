"""Looking after a log: the facts and sizes of what is in it, and deleting whole runs."""

import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from evalwright.contracts.errors import RunPruned
from evalwright.contracts.times import iso_time
from evalwright.store import checksums
from evalwright.store.location import BUSY_SECONDS, clear_errors, connect, primary_code
from evalwright.store.sqlite.claims import is_claimed

if TYPE_CHECKING:
    from evalwright.store.sqlite.log import Database

MOST_REWRITTEN = 512 * 1024 * 1024  # bytes of a file that is rewritten without being asked to

_TOMBSTONE = (
    "run, run_id, runs.tenant, suite, agent, status, started_us, ended_us, events, bytes,"
    " :at_us, :reason"
)
PRUNE_RUN = (
    f"INSERT INTO tombstones SELECT {_TOMBSTONE}, checksum_of({_TOMBSTONE}) FROM runs"  # noqa: S608
    " JOIN run_facts USING (run) WHERE run_id = :run_id AND ended_us IS NOT NULL"
)
_WITH_PREFIX = "tenant >= :prefix AND tenant < :prefix || CAST(x'FF' AS TEXT)"


RUNS = "run"


class PartitionSize(NamedTuple):
    """What a tenant has in the log: its runs, or its documents of a kind."""

    tenant: str
    kind: str
    things: int
    size: int


class Tombstone(NamedTuple):
    """What is left of a run that was deleted."""

    run_id: str
    tenant: str
    pruned_us: int
    reason: str

    def __str__(self) -> str:
        when = iso_time(self.pruned_us)[:16].replace("T", " ")
        return f"run {self.run_id} was pruned on {when} UTC ({self.reason})"

    def as_error(self) -> RunPruned:
        return RunPruned(str(self), self.pruned_us)


class Upkeep(Protocol):
    """What else can be asked of a log, and done to it; restricted to a tenant as the log is."""

    def abandoned_runs(self) -> list[tuple[str, str]]:
        """The runs that neither ended nor wait, and that no process executes, with their tenants.

        Oldest first. Those that workers execute task by task are not among them.
        """

    def mentioning(self, run_id: str) -> list[str]:
        """The runs that may refer to this run: their first events or their last one name it."""

    def scored_at(self, run_id: str, task_ids: Sequence[str]) -> dict[str, int]:
        """The sequences of the scores of tasks, of those that have one; an index finds them."""

    def sequences_of(self, run_id: str, task_ids: Sequence[str]) -> dict[str, list[int]]:
        """The sequences of the events of tasks, in order; the run is searched once for all."""

    def sizes(self, prefix: str) -> list[PartitionSize]:
        """What the tenants have whose names begin with a prefix.

        Runs are of the kind `RUNS`, what is left of those that were deleted is a `tombstone`.
        """

    def tombstones(self, prefix: str) -> list[Tombstone]: ...

    def refuse_pruned(self, run_id: str) -> None:
        """Raise `RunPruned` for a run that was deleted."""

    def prune(self, run_ids: Sequence[str], reason: str, kinds: Sequence[str]) -> int: ...

    def restore(self, run_id: str) -> None:
        """Forget that a run was pruned, so that it can be written again."""

    def erase_deleted(self) -> bool:
        """Rewrite the file, so that nothing deleted is left in it; False if it is too large."""


class SqliteUpkeep:
    """Upkeep of a log in a SQLite file."""

    def __init__(self, database: "Database", tenant: str | None) -> None:
        self._database = database
        self._tenant = tenant
        self._mine = "" if tenant is None else " AND {table}.tenant = :tenant"

    def abandoned_runs(self) -> list[tuple[str, str]]:
        rows = self._database.query(
            "SELECT run, run_id, run_facts.tenant FROM run_facts JOIN runs USING (run)"  # noqa: S608
            " WHERE ended_us IS NULL AND status = 'running'"
            f"{self._mine.format(table='run_facts')} ORDER BY run",
            {"tenant": self._tenant},
        )
        with clear_errors(self._database.place):
            return [
                (run_id, tenant)
                for run, run_id, tenant in rows
                if not is_claimed(self._database.lock_file, run)
            ]

    def mentioning(self, run_id: str) -> list[str]:
        rows = self._database.query(
            "SELECT run_id FROM runs JOIN run_facts USING (run) WHERE run_id <> :run_id AND EXISTS"  # noqa: S608
            " (SELECT 1 FROM events WHERE events.run = run_facts.run"
            " AND (seq < 3 OR seq = run_facts.events - 1) AND (instr(body, :run_id)"
            " OR content IN (SELECT content FROM contents WHERE instr(body, :run_id))))"
            f"{self._mine.format(table='run_facts')}",
            {"run_id": run_id, "tenant": self._tenant},
        )
        return [other for (other,) in rows]

    def scored_at(self, run_id: str, task_ids: Sequence[str]) -> dict[str, int]:
        rows = self._database.query(
            "SELECT task_id, seq FROM events WHERE type = 'eval.scored'"  # noqa: S608 - constants
            " AND run = (SELECT run FROM runs WHERE run_id = :run_id"
            f"{self._mine.format(table='runs')})"
            " AND task_id IN (SELECT value FROM json_each(:task_ids))",
            {
                "run_id": run_id,
                "task_ids": msgspec.json.encode(task_ids).decode(),
                "tenant": self._tenant,
            },
        )
        return dict(rows)

    def sequences_of(self, run_id: str, task_ids: Sequence[str]) -> dict[str, list[int]]:
        rows = self._database.query(
            "SELECT task_id, seq FROM events WHERE run = (SELECT run FROM runs"  # noqa: S608
            f" WHERE run_id = :run_id{self._mine.format(table='runs')})"
            " AND +task_id IN (SELECT value FROM json_each(:task_ids)) ORDER BY seq",
            {
                "run_id": run_id,
                "task_ids": msgspec.json.encode(task_ids).decode(),
                "tenant": self._tenant,
            },
        )
        found: dict[str, list[int]] = {}
        for task_id, sequence in rows:
            found.setdefault(task_id, []).append(sequence)
        return found

    def sizes(self, prefix: str) -> list[PartitionSize]:
        statement = (
            f"SELECT tenant, '{RUNS}', runs, bytes FROM partition_sizes WHERE {_WITH_PREFIX}"  # noqa: S608
            f" UNION ALL SELECT tenant, kind, documents, bytes FROM record_sizes"
            f" WHERE {_WITH_PREFIX}"
        )
        return [PartitionSize(*row) for row in self._database.query(statement, {"prefix": prefix})]

    def tombstones(self, prefix: str) -> list[Tombstone]:
        rows = self._database.query(
            "SELECT run_id, tenant, at_us, reason FROM tombstones WHERE run_id >= :prefix"  # noqa: S608
            " AND run_id < :prefix || CAST(x'FF' AS TEXT)"
            f"{self._mine.format(table='tombstones')} ORDER BY run",
            {"prefix": prefix, "tenant": self._tenant},
        )
        return [Tombstone(*row) for row in rows]

    def refuse_pruned(self, run_id: str) -> None:
        for tombstone in self.tombstones(run_id):
            if tombstone.run_id == run_id:
                raise tombstone.as_error()

    def prune(self, run_ids: Sequence[str], reason: str, kinds: Sequence[str]) -> int:
        at_us, count = time.time_ns() // 1000, 0
        with self._transaction() as connection:
            connection.create_function("checksum_of", -1, checksums.of_values)
            for run_id in run_ids:
                values = {"run_id": run_id, "at_us": at_us, "reason": reason}
                count += connection.execute(PRUNE_RUN, values).rowcount
                connection.executemany(
                    "DELETE FROM records WHERE kind = ? AND key >= ? AND key < ?"
                    " AND tenant = (SELECT tenant FROM tombstones WHERE run_id = ?)",
                    [(kind, f"{run_id}/", f"{run_id}0", run_id) for kind in kinds],
                )
        self._database.reading.ended_runs.clear()
        return count

    def restore(self, run_id: str) -> None:
        """Forget that a run was pruned; it keeps its number, which others may remember."""
        here = f"FROM tombstones WHERE run_id = :run_id{self._mine.format(table='tombstones')}"
        values = {"run_id": run_id, "tenant": self._tenant}
        with self._transaction() as connection:
            pruned = connection.execute(f"SELECT run, run_id, tenant {here}", values).fetchall()
            connection.execute(f"DELETE {here}", values)
            connection.executemany(
                "INSERT INTO runs (run, run_id, tenant) VALUES (?, ?, ?)", pruned
            )

    def erase_deleted(self) -> bool:
        path = self._database.path
        if path.stat().st_size > MOST_REWRITTEN:
            return False
        with clear_errors(self._database.place), closing(connect(path)) as connection:
            return rewrite(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own: the thread that writes has other work."""
        with (
            clear_errors(self._database.place),
            closing(connect(self._database.path)) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            _begin(connection, time.monotonic() + BUSY_SECONDS)
            yield connection
            connection.execute("COMMIT")


def rewrite(connection: sqlite3.Connection) -> bool:
    """Rebuild the file without anything unused; False if others keep the old pages for a while."""
    connection.execute("VACUUM")
    (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def _begin(connection: sqlite3.Connection, deadline: float) -> None:
    """Begin to write. SQLite itself would wait ever longer, and meet a busy writer every time."""
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(random.uniform(0.0001, 0.001))  # noqa: S311
