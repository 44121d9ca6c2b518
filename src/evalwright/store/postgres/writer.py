"""Writing to PostgreSQL: what the writer has gathered, in one statement or one transaction.

Sequences come from the database, so any number of processes may append to a run. An append whose
acknowledgement is lost with the connection is in doubt: before anything else is written, the log is
asked for it (`_settle`), so nothing is lost and nothing is written twice.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from evalwright.store.location import Patience, WrongTenant
from evalwright.store.postgres import address, statements
from evalwright.store.postgres.address import EventRefused
from evalwright.store.postgres.connections import TenantConnection, new_loop, tenants_of
from evalwright.store.postgres.growth import RunGrowth, arrays, chunks
from evalwright.store.postgres.stored_text import storable
from evalwright.store.records import (
    ANY,
    LOCAL_TENANT,
    Execute,
    Forget,
    RecordChange,
    RecordConflict,
)
from evalwright.store.writer import Position, Writer
from evalwright.store.writes import View, Write

if TYPE_CHECKING:
    from asyncpg import Connection

ATTEMPT_SECONDS = 10.0  # after which a server that does not answer is given up
MOST_RUNS = 32  # in one transaction

_DIVISION_BY_ZERO = "22012"
_MISSING_REFERENCE = "23503"
_REASONS = {
    "pruned": "the run was in the log, and was pruned",
    "ended": address.AFTER_THE_END,
    "taken over": "the run was taken over, because this process did not prolong its claim in time",
}

Starts = list[Position | None]


class PostgresWriter(Writer):
    """The thread that writes to a database, on a connection and an event loop of its own."""

    def __init__(
        self,
        url: str,
        place: str,
        patience: Patience,
        entered: Callable[[View, int], None],
        claims: dict[int, int],
    ) -> None:
        self._url = url
        self._entered = entered  # called with the number of a run that has new events
        self._claims = claims  # that this process holds: what proves them, by the number of the run
        self._loop = new_loop()
        self._held: TenantConnection | None = None
        self._writer = uuid.uuid4()
        self._is_known = False  # to the log, by that name
        self._appends = 0  # that are in the log
        self._sent = 0  # since then
        self._doubtful: list[Write] = []  # that the server may or may not have written
        self._settled: dict[int, tuple[Write, Position | None]] = {}  # those it had, by `id`
        super().__init__(place, patience, address.FAULTS)

    def _disconnect(self) -> None:
        held, self._held = self._held, None
        if held is not None:  # in a thread: the one that closes a log may have a loop of its own
            leaving = threading.Thread(target=self._leave_now, args=(held.connection,))
            leaving.start()
            leaving.join()
        self._loop.close()

    def _leave_now(self, connection: "Connection") -> None:
        with suppress(Exception):
            self._loop.run_until_complete(self._leave(connection))

    async def _leave(self, connection: "Connection") -> None:
        async with asyncio.timeout(1):
            await connection.execute(statements.FORGET, self._writer)
            await connection.execute(statements.SWEEP)
            await connection.close()

    def _transact(self, writes: list[Write]) -> Starts:
        return self._loop.run_until_complete(self._attempt(writes))

    async def _attempt(self, writes: list[Write]) -> Starts:
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                if self._held is None or self._held.connection.is_closed():
                    self._held = TenantConnection(await address.connect(self._url))
                    try:
                        # Let the log know this process, by another name if it was forgotten while
                        # in doubt.
                        connection = self._held.connection
                        if not self._is_known:
                            await address.refuse_reader(connection)
                        elif self._doubtful:
                            last = await connection.fetchval(statements.LAST_APPEND, self._writer)
                            if last is None:
                                self._writer, self._appends = uuid.uuid4(), 0
                                await self._search(await self._held.see(tenants_of([None])))
                        await connection.execute(statements.REGISTER, self._writer, self._appends)
                        self._is_known = True
                    except BaseException:
                        self._held.connection.terminate()
                        self._held = None
                        raise
                held = self._held
                if self._doubtful:
                    await self._settle(held)
                rest = [write for write in writes if id(write) not in self._settled]
                starts = await self._write(held, rest)
        except Exception as error:
            if self._held is not None and (
                address.is_of_no_use(error) or self._held.connection.is_closed()
            ):
                self._held.connection.terminate()
                self._held = None
            raise
        if not self._settled:
            return starts
        settled, self._settled = self._settled, {}
        known = {each: start for each, (_, start) in settled.items()}
        known |= zip(map(id, rest), starts, strict=True)
        return [known[id(write)] for write in writes]

    async def _search(self, connection: "Connection") -> None:
        """Find out by the log itself whether doubtful writes, which are one unit, are in it."""
        found = [
            (write, await self._found(connection, write))
            for write in self._doubtful
            if write.run_id and write.events
        ]
        if any(start is not None for _, start in found):
            starts = {id(write): start for write, start in found}
            for write in self._doubtful:
                self._settled[id(write)] = write, starts.get(id(write))
        self._doubtful = []

    async def _settle(self, held: TenantConnection) -> None:
        """Find out whether doubtful writes are in the log.

        Taking their number makes sure that they are not written later, if they are not: the server
        may still have them.
        """
        connection = await held.see(tenants_of([None]))
        is_free = await connection.fetchval(statements.TAKE, self._writer, self._appends + 1)
        if is_free:
            self._appends += 1
            self._doubtful = []
            return
        for write in self._doubtful:
            start = await self._found(connection, write) if write.run_id else None
            self._settled[id(write)] = write, start
        self._appends = await connection.fetchval(statements.LAST_APPEND, self._writer)
        self._doubtful = []

    async def _found(self, connection: "Connection", write: Write) -> Position | None:
        assert write.run_id is not None
        row = await connection.fetchrow(statements.RUN, write.run_id)
        if row is None:
            return None
        (run, tenant), known = row, self._positions.get(write.run_id)
        rows = await connection.fetch(
            statements.EVENTS_AFTER, run, (known.following if known else 0) - 1
        )
        wanted = [
            (event.type, event.task_id and storable(event.task_id), event.at_us)
            for event in write.events
        ]
        found = [(kind, task_id, at_us) for _, kind, task_id, at_us in rows]
        for place, (first, *_) in enumerate(rows):
            if found[place : place + len(wanted)] == wanted:
                return Position(run, first, tenant)
        return None

    async def _write(self, held: TenantConnection, writes: list[Write]) -> Starts:
        if not writes:
            return []
        connection = await held.see(_tenants_of(writes))
        self._doubtful, self._sent = writes, 0  # until the server says what became of them
        # Whether a statement by itself is enough: to append to a few runs, without documents.
        runs = {write.run_id for write in writes}
        is_alone = len(runs) <= MOST_RUNS and not any(write.changes for write in writes)
        try:
            if is_alone:
                starts, positions = await self._append(connection, writes)
            else:
                async with connection.transaction():
                    starts, positions = await self._append(connection, writes)
        except Exception as error:
            if self._sent == 0 or address.is_rolled_back(error, by_itself=is_alone):
                self._doubtful = []
            if address.state(error) == _DIVISION_BY_ZERO:
                raise await self._refusal(connection, writes) from None
            if address.state(error) == _MISSING_REFERENCE:  # a part was pruned at this moment
                raise address.driver().DeadlockDetectedError(str(error)) from error
            raise
        self._doubtful = []
        self._appends += self._sent
        self._positions |= positions
        for run_id, position in positions.items():
            self._entered((position.tenant, run_id), position.run)
        return starts

    async def _append(
        self, connection: "Connection", writes: list[Write]
    ) -> tuple[Starts, dict[str, Position]]:
        runs, changes = await self._gather(connection, writes)
        offsets: list[tuple[RunGrowth, int] | None] = []
        for write in writes:
            run = runs.get(write.run_id or "")
            offsets.append((run, run.add(write.events) if write.events else 0) if run else None)
        before = await self._send(connection, [run for run in runs.values() if run.events])
        if changes and not before:
            self._sent += 1
            number = self._appends + self._sent
            statements.refuse_unknown_writer(
                await connection.fetchval(statements.TAKE, self._writer, number)
            )
        for change in sorted(changes, key=lambda each: getattr(each, "locks", "")):
            await apply_change(connection, change)
        starts: Starts = []
        for each in offsets:
            if each is None:
                starts.append(None)
                continue
            (number, following, tenant), offset = each[0].start, each[1]
            starts.append(Position(number, before.get(number, following) + offset, tenant))
        return starts, {
            run_id: Position(run.start.run, before[run.start.run] + len(run.events), run.start[2])
            for run_id, run in runs.items()
            if run.events
        }

    async def _gather(
        self, connection: "Connection", writes: list[Write]
    ) -> tuple[dict[str, RunGrowth], list[RecordChange | Forget | Execute]]:
        """The runs that writes are for, which are entered if they are new, and the documents."""
        # The runs whose numbers are not known, with the tenants that they get if they are new.
        unknown: dict[str, str] = {}
        for write in writes:
            if write.run_id is not None and write.run_id not in self._positions:
                owner = LOCAL_TENANT if write.tenant is None else write.tenant
                unknown.setdefault(write.run_id, owner)
        found = {row[0]: Position(*row[1:]) for row in await self._enter(connection, unknown)}
        runs: dict[str, RunGrowth] = {}
        changes: list[RecordChange | Forget | Execute] = []
        for run_id, _, changed, tenant, _, _ in writes:
            changes += changed
            if run_id is None:
                continue
            position = self._positions.get(run_id) or found.get(run_id)
            if position is None:
                raise EventRefused(_REASONS["pruned"])
            if tenant not in (None, position.tenant):
                raise WrongTenant(f"the run does not belong to tenant {tenant}; choose another id")
            if run_id not in runs:
                runs[run_id] = RunGrowth(run_id, position, tenant)
        return runs, changes

    async def _enter(self, connection: "Connection", owners: dict[str, str]) -> list[Any]:
        """Number, next sequence and tenant of runs, which are entered unless they are there."""
        if not owners:
            return []
        values = [*owners], [*owners.values()]
        rows: list[Any] = await connection.fetch(statements.ENTER_RUNS, *values)
        if len(rows) < len(owners):  # another process may have entered one at this moment
            rows = await connection.fetch(statements.ENTER_RUNS, *values)
        return rows

    async def _send(self, connection: "Connection", runs: list[RunGrowth]) -> dict[int, int]:
        before: dict[int, int] = {}
        for part in chunks(runs, MOST_RUNS):
            self._sent += 1
            statement: str = statements.APPEND
            values: Iterable[Any] = arrays(part, self._claims)
            if len(part) == 1 and part[0].is_plain:
                statement = statements.APPEND_TO_ONE
                values = part[0].plain_values(self._claims)
            number = self._appends + self._sent
            rows = await connection.fetch(statement, self._writer, number, len(part), *values)
            statements.refuse_unknown_writer(rows[0]["taken"])
            before |= {row["run"]: row["before"] + 1 for row in rows}
        return before

    async def _refusal(self, connection: "Connection", writes: list[Write]) -> Exception:
        (run_id, *_), *others = writes
        if others or run_id is None:
            return EventRefused("one of several runs takes no events")
        position = self._positions.pop(run_id, None)
        token = self._claims.get(position.run) if position else None
        reason = await connection.fetchval(statements.REFUSAL, run_id, token)
        return EventRefused(_REASONS.get(reason, "the run is not in the log any more"))


def _tenants_of(writes: Sequence[Write]) -> str:
    tenants: set[str | None] = set()
    for write in writes:
        if write.run_id is not None:
            tenants.add(write.tenant)
        for change in write.changes:
            tenants.add(change.tenant if isinstance(change, RecordChange) else None)
    return tenants_of(tenants)


class TransactionStep(Protocol):
    """What else is done in the transaction of a write, after its changes of documents."""

    locks: str  # the row that it locks: steps of several writes are done in the order of these

    async def apply(self, connection: Any) -> None:
        """Do it; it may be done more than once, if the transaction fails before."""


async def apply_change(
    connection: "Connection", change: RecordChange | Forget | TransactionStep
) -> None:
    """Make a change within a transaction; raises `RecordConflict`."""
    if isinstance(change, Forget):
        await connection.execute(statements.FORGET_RECORDS, *change)
    elif isinstance(change, RecordChange):
        kind, tenant, key, body, expected = change
        place, at_us = (kind, tenant, storable(key)), time.time_ns() // 1000
        match body, expected:
            case None, _ if expected is ANY:
                found = await connection.execute(statements.DROP_RECORD, *place)
            case _, _ if expected is ANY:
                found = await connection.execute(statements.PUT_RECORD, *place, body, at_us)
            case None, None:
                found = await connection.fetchval(statements.NO_RECORD, *place)
            case _, None:
                found = await connection.fetchval(statements.NEW_RECORD, *place, body, at_us)
            case None, _:
                found = await connection.fetchval(statements.DROP_KNOWN_RECORD, *place, expected)
            case _:
                found = await connection.fetchval(
                    statements.CHANGE_RECORD, *place, body, at_us, expected
                )
        if not found:
            raise RecordConflict(f"the {kind} {key!r} has changed meanwhile")
    else:
        await change.apply(connection)
