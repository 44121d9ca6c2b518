"""The end of tasks, and of runs: fenced, and in one transaction.

Only while an attempt is still its worker's are its events written, together with the score. The
same transaction releases the next tasks; with the last task, it ends the run."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.events import (
    Decided,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
)
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.engine.fleet.database import Connection, FleetDatabase
from evalwright.engine.fleet.queue import LeasedTask
from evalwright.engine.history import read_history
from evalwright.engine.machine import RunMachine, completion
from evalwright.engine.plan import Plan
from evalwright.engine.single_task import FinishedTask
from evalwright.engine.verdict import Outcome
from evalwright.scoring.summary import NOTHING_SPENT, RunSpending
from evalwright.store.postgres.schema import DUE, SCORED, UNJUDGED, WAITING, WITHHELD
from evalwright.store.protocol import EventLog, NewEvent

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


States = dict[str, tuple[int, bytes | None]]  # of tasks, each with what is kept of it


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

    @asynccontextmanager
    async def _held(
        self, run: RunAtWork, *attempts: tuple[str, int]
    ) -> "AsyncIterator[HeldRun | None]":
        """Lock a run, then the attempts that are still this worker's.

        None: it has ended, or none of them is.
        """
        async with self._database.transaction() as connection:
            ids, numbers = [each for each, _ in attempts], [each for _, each in attempts]
            row = await connection.fetchrow(_HOLD, run.run_id, ids, numbers, self._worker)
            is_over = row["remaining"] is None or not row["mine"]
            held = None if is_over else HeldRun(self._database, connection, run, row, self._clock)
            yield held
        if held is not None:
            self._database.announce(held.due)

    async def end(self, run: RunAtWork, finished: Sequence[FinishedTask]) -> set[str]:
        """Write the end of tasks of a run; returns those that were still this worker's."""
        # One that was taken away may have been begun here again, and both ended by now.
        last = {each.task_id: each for each in sorted(finished, key=lambda each: each.attempt)}
        attempts = [(each.task_id, each.attempt) for each in last.values()]
        async with self._held(run, *attempts) as held:
            if held is None:
                return set()
            await held.end_tasks([each for each in last.values() if each.task_id in held.mine])
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
        async with self._held(run, (task_id, attempt)) as held:
            if held is not None:
                held.count(events[own_from:])
                if held.ledger is not None:
                    if any(each.type == InvocationCompleted.TYPE for each in events):
                        held.ledger.lost[task_id] = attempt  # all that it cost is known
                    await held.keep_ledger()
                await held.append(events)
        return held is not None

    async def lose(
        self, run: RunAtWork, taken: LeasedTask, attempt: int, *, is_lease: bool = True
    ) -> bool:
        """Count the attempt before this one, which came to nothing; whether this one may go on.

        `is_lease` says that a worker was lost, rather than the task taken from it.
        """
        async with self._held(run, (taken.task_id, attempt)) as held:
            if held is None:
                return False
            if is_lease:
                await held.connection.execute(_COUNT_LOST)
            if (ledger := held.ledger) is None:
                return True
            # A worker may have been killed before it counted the attempt before its own.
            uncounted = attempt - 1 - ledger.lost.get(taken.task_id, 0)
            for _ in range(uncounted):
                ledger.cut()
            ledger.lost[taken.task_id] = attempt - 1
            at_work = await held.tasks_at_work()
            if held.machine.room >= at_work:
                await held.keep_ledger()
                return True
            failure = held.machine.failure()
            if at_work > 1 or failure is None:
                await held.settle({taken.task_id: (WAITING, None)})
            else:
                await held.append(held.encoded(failure.events(held.duration_ms())))
                await held.leave(0)
        return False

    async def count_scored(self, run: RunAtWork, taken: LeasedTask, attempt: int) -> None:
        """End a task that was begun though the log has its score: nothing is written again."""
        scored = FinishedTask(run.run_id, taken.task_id, attempt, [], 0, is_answered=True)
        await self.end(run, [scored])

    async def put_back(self, run: RunAtWork, taken: LeasedTask, attempt: int) -> None:
        """Let a task wait that was begun in a run which is paused."""
        async with self._held(run, (taken.task_id, attempt)) as held:
            if held is not None:
                await held.settle({taken.task_id: (WAITING, None)})


class HeldRun:
    """A run while it is locked: its rules where it stands, within the transaction."""

    def __init__(
        self,
        database: FleetDatabase,
        connection: Connection,
        run: RunAtWork,
        row: Any,
        clock: Clock,
    ) -> None:
        self._database = database
        self.connection = connection
        self._run = run
        self._clock = clock
        self.mine = set(row["mine"])  # tasks that are still the worker's
        kept = row["ledger"]
        self.ledger = None if kept is None else msgspec.json.decode(kept, type=RunSpending)
        self.machine = RunMachine[NewEvent](
            run.plan,
            left=row["remaining"],
            is_answered=row["is_answered"],
            first_error=row["first_error"],
            spending=self.ledger,
        )
        self.due: list[str] = []  # lanes in which tasks became due

    async def end_tasks(self, finished: Sequence[FinishedTask]) -> None:
        """Write the ends of tasks by the rules of the run, and with the last one its own."""
        machine, events, states = self.machine, list[NewEvent](), States()
        if not machine.is_answered and any(each.is_answered for each in finished):
            rows = await self.connection.fetch(_KEPT, self._run.run_id, WITHHELD)
            machine.withheld = [(row["task_id"], decoded(row["note"])) for row in rows]
            await self.connection.execute(_RELEASE_WITHHELD, self._run.run_id, WITHHELD, SCORED)
        for each in finished:
            for _, verdict in machine.answered(each.error, is_answer=each.is_answered):
                events += verdict
        for each in finished:
            self.count(each.events[each.own_from :])
            if each.unjudged is not None:
                machine.without_verdict(each.task_id, each.unjudged)
                events += each.events
                states[each.task_id] = (UNJUDGED, each.unjudged.encode())
                continue
            events += machine.settled(each.task_id, each.events, is_done=True)
            states[each.task_id] = (SCORED, None)
            if not machine.is_answered:
                states[each.task_id] = (WITHHELD, encoded(machine.withheld[-1][1]))
        last = await self._last(events, len(finished))
        await self.append([*events, *self.encoded(last)])
        if last:
            await self.leave(len(finished))
        else:
            await self.settle(states)

    async def _last(self, events: Sequence[NewEvent], count: int) -> Sequence[Payload]:
        """The events that end the run, if there is nothing more to do in it, or nothing to pay."""
        machine = self.machine
        if machine.left:
            if machine.room or await self.tasks_at_work() > count:
                return ()  # what is at work may end first
        else:
            rows = await self.connection.fetch(_KEPT, self._run.run_id, UNJUDGED)
            earlier = {row["task_id"]: bytes(row["note"]).decode() for row in rows}
            machine.unjudged = earlier | machine.unjudged
        if (failure := machine.failure()) is not None:
            return failure.events(self.duration_ms())
        if machine.left:
            return ()
        # To sum it up may take long, and the server ends a transaction if it hears nothing.
        summing = asyncio.create_task(
            asyncio.to_thread(_summed_up, self._run, events, self.duration_ms())
        )
        while not (await asyncio.wait((summing,), timeout=SIGN_SECONDS))[0]:
            await self.connection.execute("SELECT 1")
        return await summing

    async def append(self, events: Sequence[NewEvent]) -> None:
        """Append events to the run."""
        await self._database.append(self.connection, self._run.run_id, self._run.run, events)

    async def settle(self, states: States) -> None:
        """Keep what the rules know, and release tasks as far as there is room."""
        machine = self.machine
        self.due += await self._database.due(
            self.connection,
            _SETTLE,
            self._run.run_id,
            list(states),
            [state for state, _ in states.values()],
            [note for _, note in states.values()],
            machine.is_answered,
            machine.first_error,
            self.ledger and msgspec.json.encode(self.ledger),
            machine.room,
        )

    async def leave(self, count: int) -> None:
        """Take the run, which has ended, out of the fleet."""
        self.due += await self._database.due(self.connection, _LEAVE, self._run.run_id, count)

    async def keep_ledger(self) -> None:
        """Keep what was spent."""
        kept = msgspec.json.encode(self.ledger)
        await self.connection.execute(_KEEP, self._run.run_id, kept)

    async def tasks_at_work(self) -> int:
        """How many tasks of the run are due, or worked on."""
        return int(await self.connection.fetchval(_DUE, self._run.run_id, DUE))

    def count(self, events: Sequence[NewEvent]) -> None:
        """Count the calls of a task that has ended."""
        if (ledger := self.ledger) is None:
            return
        on_attempt, is_judged = NOTHING_SPENT, self._run.plan.panel is not None
        # What comes before an answer is the agent's, also of a conversation that goes on.
        is_verdict = is_judged and all(each.type != Decided.TYPE for each in events)
        for event in events:
            if event.type == InvocationStarted.TYPE:
                on_attempt, is_verdict = NOTHING_SPENT, False
            elif event.type == InvocationCompleted.TYPE:
                is_verdict = is_judged
            elif event.type == ProviderUsage.TYPE:
                usage = msgspec.json.decode(event.body, type=ProviderUsage)
                on_attempt = ledger.add(usage, on_attempt, is_verdict=is_verdict)
        ledger.is_cost_known = True

    def duration_ms(self) -> int:
        """For how long the run has lasted."""
        return max(0, self._clock.now_us() - self._run.started_us) // 1000

    def encoded(self, payloads: Sequence[Payload]) -> list[NewEvent]:
        """Events of the run itself."""
        now, redact = self._clock.now_us(), self._run.redactor.redact
        return [
            NewEvent(each.TYPE, None, now, redact(msgspec.json.encode(each))) for each in payloads
        ]


def _summed_up(run: RunAtWork, last: Sequence[NewEvent], duration_ms: int) -> Sequence[Payload]:
    """The end of a run by its scores: those in the log, and the last, which are not there yet."""
    history = read_history(run.log, run.run_id)
    for each in last:
        history.add(Event(run.run_id, 0, each.type, each.task_id, each.at_us, each.body))
    return completion(Outcome.of(history).summary, duration_ms)


def encoded(events: Sequence[NewEvent]) -> bytes:
    """Events as they are kept until they may be written."""
    return msgspec.msgpack.encode(events)


def decoded(kept: bytes) -> list[NewEvent]:
    """Events that were kept."""
    return msgspec.msgpack.decode(kept, type=list[NewEvent])
