"""The end of tasks, and of runs: fenced, and in one transaction.

Only while an attempt is still its worker's are its events written, together with the score. The
same transaction releases the next tasks; with the last task, it ends the run."""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

import msgspec

from evalwright.contracts.events import (
    Event,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
)
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.queue import Connection, TakenTask
from evalwright.engine.history import read_history
from evalwright.engine.machine import RunMachine, completion
from evalwright.engine.plan import Plan
from evalwright.engine.single_task import FinishedTask
from evalwright.engine.verdict import Outcome
from evalwright.scoring.summary import RunSpending
from evalwright.store.postgres.fleet_schema import DUE, SCORED, UNJUDGED, WAITING, WITHHELD
from evalwright.store.protocol import EventLog, NewEvent

T = TypeVar("T")

SIGN_SECONDS = 1.0  # after which the server hears that a transaction goes on

_HOLD = "SELECT * FROM fleet_hold($1, $2, $3, $4)"
_SETTLE = "SELECT * FROM fleet_settle($1, $2, $3::smallint[], $4, $5, $6, $7, $8)"
_LEAVE = "SELECT * FROM fleet_leave($1, $2)"
_KEPT = "SELECT task_id, note FROM attempts WHERE run_id = $1 AND state = $2 ORDER BY position"
_RELEASE_WITHHELD = "UPDATE attempts SET state = $3, note = NULL WHERE run_id = $1 AND state = $2"
_KEEP = "UPDATE fleet_runs SET ledger = $2 WHERE run_id = $1"
_COUNT_LOST = (
    "INSERT INTO fleet_counters AS c VALUES ('leases_lost', 1)"
    " ON CONFLICT (name) DO UPDATE SET value = c.value + 1"
)
_MINE = """
SELECT run_id, task_id, attempt, worker IS NOT DISTINCT FROM $1 FROM attempts
WHERE $1 IN (worker, holder) AND state = 1
"""
_DISOWN = """
UPDATE attempts SET worker = nullif(worker, $4), holder = nullif(holder, $4)
WHERE run_id = $1 AND task_id = $2 AND attempt = $3 AND state::integer = 1
"""
_DUE = "SELECT count(*) FROM attempts WHERE run_id = $1 AND state = $2"


class RunAtWork(NamedTuple):
    """A run that a worker has tasks of."""

    run_id: str
    run: int  # its number in the log
    log: EventLog  # of its partition
    plan: Plan
    started_us: int
    redactor: Redactor


class BegunAttempt(NamedTuple):
    """An attempt at a task."""

    run_id: str
    task_id: str
    attempt: int


class Held(NamedTuple):
    """What is known of a run while it is locked, and which tasks are still this worker's."""

    mine: set[str]
    remaining: int
    is_answered: bool
    first_error: str | None
    ledger: RunSpending | None

    def machine(self, plan: Plan) -> RunMachine[NewEvent]:
        """The rules of the run, where it stands."""
        return RunMachine(
            plan,
            left=self.remaining,
            is_answered=self.is_answered,
            first_error=self.first_error,
            spending=self.ledger,
        )


class Ending:
    """Writes what came of tasks, for one worker."""

    def __init__(self, database: FleetDatabase, worker: uuid.UUID, clock: Clock) -> None:
        self._database = database
        self._worker = worker
        self._clock = clock

    async def mine(self, connection: Connection) -> dict[BegunAttempt, bool]:
        """What this worker has taken, and whether it has begun that attempt."""
        rows = await connection.fetch(_MINE, self._worker)
        return {BegunAttempt(*row[:3]): row[3] for row in rows}

    async def disown(self, connection: Connection, orphans: Iterable[BegunAttempt]) -> None:
        """Give up attempts that nobody here works on: others take them."""
        for each in orphans:
            await connection.execute(_DISOWN, *each, self._worker)

    async def end(self, run: RunAtWork, finished: Sequence[FinishedTask]) -> set[str]:
        """Write the end of tasks of a run; returns those that were still this worker's."""
        # One that was taken away may have been begun here again, and both ended by now.
        last = {each.task_id: each for each in sorted(finished, key=lambda each: each.attempt)}
        async with self._database.transaction() as connection:
            attempts = [(each.task_id, each.attempt) for each in last.values()]
            held = await self._hold(connection, run.run_id, attempts)
            mine = [each for each in last.values() if each.task_id in (held.mine if held else ())]
            if held is None or not mine:
                return set()
            due = await self._write(connection, run, held, mine)
        self._database.announce(due)
        return held.mine

    async def keep(
        self,
        run: RunAtWork,
        task_id: str,
        attempt: int,
        events: Sequence[NewEvent],
        own_from: int,
    ) -> bool:
        """Write the answer to a task that goes on; False if it is another worker's by now."""
        async with self._database.transaction() as connection:
            held = await self._hold(connection, run.run_id, [(task_id, attempt)])
            if held is None or not held.mine:
                return False
            if held.ledger is not None:
                _count(held.ledger, events[own_from:], run.plan)
                held.ledger.lost[task_id] = attempt  # all that it cost is known
                await connection.execute(_KEEP, run.run_id, msgspec.json.encode(held.ledger))
            await self._database.append(connection, run.run_id, run.run, events)
        return True

    async def _hold(
        self, connection: Connection, run_id: str, attempts: Sequence[tuple[str, int]]
    ) -> Held | None:
        """Lock a run, then the attempts that are still this worker's; None if it has ended."""
        row = await connection.fetchrow(
            _HOLD,
            run_id,
            [task_id for task_id, _ in attempts],
            [number for _, number in attempts],
            self._worker,
        )
        assert row is not None
        if row["remaining"] is None:
            return None
        ledger = row["ledger"]
        return Held(
            set(row["mine"]),
            row["remaining"],
            row["is_answered"],
            row["first_error"],
            None if ledger is None else msgspec.json.decode(ledger, type=RunSpending),
        )

    async def _write(
        self, connection: Connection, run: RunAtWork, held: Held, mine: Sequence[FinishedTask]
    ) -> list[str]:
        """Write the ends of tasks by the rules of the run, and with the last one its own."""
        machine = held.machine(run.plan)
        is_first_answer = not held.is_answered and any(each.is_answered for each in mine)
        if is_first_answer:
            rows = await connection.fetch(_KEPT, run.run_id, WITHHELD)
            machine.withheld = [(row["task_id"], decoded(row["note"])) for row in rows]
            await connection.execute(_RELEASE_WITHHELD, run.run_id, WITHHELD, SCORED)
        events: list[NewEvent] = []
        states: dict[str, tuple[int, bytes | None]] = {}
        for each in mine:
            for _, verdict in machine.answered(each.error, is_answer=each.is_answered):
                events += verdict
        for each in mine:
            if held.ledger is not None:
                _count(held.ledger, each.events[each.own_from :], run.plan)
            if each.unjudged is not None:
                machine.without_verdict(each.task_id, each.unjudged)
                events += each.events
                states[each.task_id] = (UNJUDGED, each.unjudged.encode())
                continue
            events += machine.settled(each.task_id, each.events, is_done=True)
            states[each.task_id] = (SCORED, None)
            if not machine.is_answered:
                states[each.task_id] = (WITHHELD, encoded(machine.withheld[-1][1]))
        last = await self._last(connection, run, machine, events, len(mine))
        events += self._encoded(last, run.redactor)
        await self._database.append(connection, run.run_id, run.run, events)
        if last:
            return await self._database.due(connection, _LEAVE, run.run_id, len(mine))
        return await self._settle(connection, run.run_id, states, machine)

    async def _settle(
        self,
        connection: Connection,
        run_id: str,
        states: dict[str, tuple[int, bytes | None]],
        machine: RunMachine[NewEvent],
    ) -> list[str]:
        """Keep what the machine knows, and release tasks as far as there is room."""
        ledger = machine.budget and machine.budget.spending
        return await self._database.due(
            connection,
            _SETTLE,
            run_id,
            list(states),
            [state for state, _ in states.values()],
            [note for _, note in states.values()],
            machine.is_answered,
            machine.first_error,
            ledger and msgspec.json.encode(ledger),
            machine.room,
        )

    async def _last(
        self,
        connection: Connection,
        run: RunAtWork,
        machine: RunMachine[NewEvent],
        events: Sequence[NewEvent],
        count: int,
    ) -> Sequence[Payload]:
        """The events that end the run, if there is nothing more to do in it, or nothing to pay."""
        if machine.left:
            if machine.room or await connection.fetchval(_DUE, run.run_id, DUE) > count:
                return ()  # what is at work may end first
        else:
            rows = await connection.fetch(_KEPT, run.run_id, UNJUDGED)
            earlier = {row["task_id"]: bytes(row["note"]).decode() for row in rows}
            machine.unjudged = earlier | machine.unjudged
        if (failure := machine.failure()) is not None:
            return failure.events(self._duration_ms(run))
        if machine.left:
            return ()
        work = asyncio.to_thread(_summed_up, run, events, self._duration_ms(run))
        return await _in_transaction(connection, work)

    def _duration_ms(self, run: RunAtWork) -> int:
        return max(0, self._clock.now_us() - run.started_us) // 1000

    def _encoded(self, payloads: Sequence[Payload], redactor: Redactor) -> list[NewEvent]:
        now = self._clock.now_us()
        return [
            NewEvent(each.TYPE, None, now, redactor.redact(msgspec.json.encode(each)))
            for each in payloads
        ]

    async def lose(
        self, run: RunAtWork, taken: TakenTask, attempt: int, *, is_lease: bool = True
    ) -> bool:
        """Count the attempt before this one, which came to nothing; whether this one may go on.

        `is_lease` says that a worker was lost, rather than the task taken from it.
        """
        async with self._database.transaction() as connection:
            held = await self._hold(connection, run.run_id, [(taken.task_id, attempt)])
            if held is None or not held.mine:
                return False
            if is_lease:
                await connection.execute(_COUNT_LOST)
            if (ledger := held.ledger) is None:
                return True
            # A worker may have been killed before it counted the attempt before its own.
            uncounted = attempt - 1 - ledger.lost.get(taken.task_id, 0)
            ledger.cut_off += [Decimal(0)] * uncounted
            ledger.lost[taken.task_id] = attempt - 1
            machine = held.machine(run.plan)
            at_work = await connection.fetchval(_DUE, run.run_id, DUE)
            if machine.room >= at_work:
                await connection.execute(_KEEP, run.run_id, msgspec.json.encode(ledger))
                return True
            failure = machine.failure()
            if at_work > 1 or failure is None:
                due = await self._wait(connection, run, machine, taken.task_id)
            else:
                last = self._encoded(failure.events(self._duration_ms(run)), run.redactor)
                await self._database.append(connection, run.run_id, run.run, last)
                due = await self._database.due(connection, _LEAVE, run.run_id, 0)
        self._database.announce(due)
        return False

    async def count_scored(self, run: RunAtWork, taken: TakenTask, attempt: int) -> None:
        """End a task that was begun though the log has its score: nothing is written again."""
        scored = FinishedTask(run.run_id, taken.task_id, attempt, [], 0, is_answered=True)
        await self.end(run, [scored])

    async def put_back(self, run: RunAtWork, taken: TakenTask, attempt: int) -> None:
        """Let a task wait that was begun in a run which is paused."""
        async with self._database.transaction() as connection:
            held = await self._hold(connection, run.run_id, [(taken.task_id, attempt)])
            if held is None or not held.mine:
                return
            due = await self._wait(connection, run, held.machine(run.plan), taken.task_id)
        self._database.announce(due)

    async def _wait(
        self,
        connection: Connection,
        run: RunAtWork,
        machine: RunMachine[NewEvent],
        task_id: str,
    ) -> list[str]:
        return await self._settle(connection, run.run_id, {task_id: (WAITING, None)}, machine)


def _count(ledger: RunSpending, events: Iterable[NewEvent], plan: Plan) -> None:
    """Count the calls of a task that has ended."""
    on_attempt, is_verdict = Decimal(0), plan.panel is not None
    for event in events:
        if event.type == InvocationStarted.TYPE:
            on_attempt, is_verdict = Decimal(0), False
        elif event.type == InvocationCompleted.TYPE:
            is_verdict = plan.panel is not None
        elif event.type == ProviderUsage.TYPE:
            usage = msgspec.json.decode(event.body, type=ProviderUsage)
            on_attempt = ledger.add(usage, on_attempt, is_verdict=is_verdict)
    ledger.is_cost_known = True


def _summed_up(run: RunAtWork, last: Sequence[NewEvent], duration_ms: int) -> Sequence[Payload]:
    """The end of a run by its scores: those in the log, and the last, which are not there yet."""
    history = read_history(run.log, run.run_id)
    for each in last:
        history.take(Event(run.run_id, 0, each.type, each.task_id, each.at_us, each.body))
    return completion(Outcome.of(history).summary, duration_ms)


async def _in_transaction(connection: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Do something long within a transaction, which the server ends if it hears nothing."""
    doing = asyncio.create_task(work)
    while not (await asyncio.wait((doing,), timeout=SIGN_SECONDS))[0]:
        await connection.execute("SELECT 1")
    return await doing


def encoded(events: Sequence[NewEvent]) -> bytes:
    """Events as they are kept until they may be written."""
    return msgspec.msgpack.encode(events)


def decoded(kept: bytes) -> list[NewEvent]:
    """Events that were kept."""
    return msgspec.msgpack.decode(kept, type=list[NewEvent])
