"""Writing to a SQLite file: one transaction for all that the writer has gathered."""

import sqlite3
from collections.abc import Callable

from evalwright.store import location, records
from evalwright.store.facts import Growth
from evalwright.store.location import Anchor, Patience, WrongTenant
from evalwright.store.records import LOCAL_TENANT
from evalwright.store.writer import Position, Writer
from evalwright.store.writes import View, Write

CHECKPOINT_PAGES = 2000  # of 4 KB that wait to be moved into the file, which stops all writes

_ENTER_RUN = (
    "INSERT INTO runs (run_id, tenant) SELECT :run_id, :tenant"
    " WHERE NOT EXISTS (SELECT 1 FROM runs WHERE run_id = :run_id)"
)
_POSITION = (
    "SELECT run, (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE events.run = runs.run), tenant"
    " FROM runs WHERE run_id = ?"
)


class SqliteWriter(Writer):
    """The thread that writes to a file; no other writes to it in this process."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        place: str,
        patience: Patience,
        anchor: Anchor,
        entered: Callable[[View, int], None],
    ) -> None:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA busy_timeout = {location.ATTEMPT_SECONDS * 1000:.0f}")
        self._connection = connection
        self._anchor = anchor
        self._entered = entered  # called with the number of a run that has new events
        super().__init__(place, patience, location.SQLITE_FAULTS)

    def _disconnect(self) -> None:
        self._connection.close()

    def _transact(self, writes: list[Write]) -> list[Position | None]:
        """Write all in one transaction; returns where each write's run was before it."""
        self._anchor.check()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            positions: dict[str, Position] = {}
            starts: list[Position | None] = []
            growth = Growth(self._connection)
            self._gather(writes, positions, starts, growth)
            growth.write()
            for write in writes:
                for change in write.changes:
                    records.apply_change(self._connection, change)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._positions.update(positions)
        for run_id, position in positions.items():
            self._entered((position.tenant, run_id), position.run)
        return starts

    def _gather(
        self,
        writes: list[Write],
        positions: dict[str, Position],
        starts: list[Position | None],
        growth: Growth,
    ) -> None:
        """Add the events of writes; leaves in `positions` where their runs are afterwards."""
        for run_id, events, _, tenant, _, _ in writes:
            if run_id is None:
                starts.append(None)
                continue
            start = positions.get(run_id) or self._positions.get(run_id)
            if start is None:
                owner = LOCAL_TENANT if tenant is None else tenant
                self._connection.execute(_ENTER_RUN, {"run_id": run_id, "tenant": owner})
                start = Position(*self._connection.execute(_POSITION, (run_id,)).fetchone())
            run, sequence, owner = start
            if tenant not in (None, owner):
                raise WrongTenant(f"the run does not belong to tenant {tenant}; choose another id")
            starts.append(start)
            if events:  # else the run may have ended, and nothing would remove the position again
                growth.add(run_id, start, events)
                positions[run_id] = Position(run, sequence + len(events), owner)
