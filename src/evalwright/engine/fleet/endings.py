"""The end of tasks, and of runs: fenced, and in one transaction.

Only while an attempt is still its worker's are its events written, together with the score. The
same transaction releases the next tasks; with the last task, it ends the run."""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from evalwright.contracts.events import CapBreached, ErrorDetail, Event, Payload, RunFailure
from evalwright.contracts.redaction import Redactor
from evalwright.engine.budget import Overspent
from evalwright.engine.clock import Clock
from evalwright.engine.execution import Outcome
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.ledger import Ceiling, RunLedger, decoded_ledger
from evalwright.engine.fleet.queue import Connection, TakenTask
from evalwright.engine.fleet.single_tasks import FinishedTask, decoded, encoded
from evalwright.engine.history import read_history
from evalwright.engine.plan import Plan
from evalwright.engine.verdict import closing, no_verdicts, nobody_answered
from evalwright.store.postgres.fleet_schema import DUE, SCORED, UNJUDGED, WAITING, WITHHELD
from evalwright.store.protocol import EventLog, NewEvent

T = TypeVar("T")

SIGN_SECONDS = 1.0  # after which the server hears that a transaction goes on

_HOLD = "SELECT * FROM fleet_hold($1, $2, $3, $4)"
_SETTLE = "SELECT * FROM fleet_settle($1, $2, $3::smallint[], $4, $5, $6, $7, $8)"
_LEAVE = "SELECT * FROM fleet_leave($1, $2)"
_KEPT = "SELECT task_id, note FROM attempts WHERE run_id = $1 AND state = $2 ORDER BY position"
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
    ledger: RunLedger | None


class _TaskResults(NamedTuple):
    """What the end of tasks adds to the log, and the states in which it leaves them."""

    events: list[NewEvent]
    states: dict[str, tuple[int, bytes | None]]
    is_answered: bool
    first_error: str | None


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
                held.ledger.take(events[own_from:], run.plan)
                held.ledger.lost[task_id] = attempt  # all that it cost is known
                await connection.execute(_KEEP, run.run_id, held.ledger.encoded())
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
        return Held(
            set(row["mine"]),
            row["remaining"],
            row["is_answered"],
            row["first_error"],
            decoded_ledger(row["ledger"]),
        )

    async def _write(
        self, connection: Connection, run: RunAtWork, held: Held, mine: Sequence[FinishedTask]
    ) -> list[str]:
        change = await self._change(connection, run, held, mine)
        if held.ledger is not None:
            for each in mine:
                held.ledger.take(each.events[each.own_from :], run.plan)
        ceiling = Ceiling(run.plan, held.ledger)
        last = await self._last(connection, run, held, change, len(mine), ceiling)
        events = [*change.events, *self._encoded(last, run.redactor)]
        await self._database.append(connection, run.run_id, run.run, events)
        if last:
            return await self._database.due(connection, _LEAVE, run.run_id, len(mine))
        return await self._settle(connection, run.run_id, change, held.ledger, ceiling.height)

    async def _settle(
        self,
        connection: Connection,
        run_id: str,
        change: _TaskResults,
        ledger: RunLedger | None,
        height: int,
    ) -> list[str]:
        return await self._database.due(
            connection,
            _SETTLE,
            run_id,
            list(change.states),
            [state for state, _ in change.states.values()],
            [note for _, note in change.states.values()],
            change.is_answered,
            change.first_error,
            ledger.encoded() if ledger is not None else None,
            height,
        )

    async def _change(
        self, connection: Connection, run: RunAtWork, held: Held, mine: Sequence[FinishedTask]
    ) -> _TaskResults:
        """Scores are held back while nobody has answered, and come with the first answer."""
        answered = held.is_answered or any(each.is_answered for each in mine)
        events: list[NewEvent] = []
        states: dict[str, tuple[int, bytes | None]] = {}
        error = held.first_error
        if answered and not held.is_answered:
            for row in await connection.fetch(_KEPT, run.run_id, WITHHELD):
                events += decoded(row["note"])
            await connection.execute(
                "UPDATE attempts SET state = $3, note = NULL WHERE run_id = $1 AND state = $2",
                *(run.run_id, WITHHELD, SCORED),
            )
        for each in mine:
            if each.unjudged is not None:
                states[each.task_id] = (UNJUDGED, each.unjudged.encode())
            elif answered:
                states[each.task_id] = (SCORED, None)
            else:
                happened, verdicts = each.parted()
                error = error or each.error
                states[each.task_id] = (WITHHELD, encoded(verdicts))
                events += happened
                continue
            events += each.events
        return _TaskResults(events, states, answered, error)

    async def _last(
        self,
        connection: Connection,
        run: RunAtWork,
        held: Held,
        change: _TaskResults,
        count: int,
        ceiling: Ceiling,
    ) -> Sequence[Payload]:
        """The events that end the run, if there is nothing more to do in it, or nothing to pay."""
        if held.remaining > count:
            if held.ledger is None or ceiling.height:
                return ()
            if await connection.fetchval(_DUE, run.run_id, DUE) > count:
                return ()  # what is at work may end first
            over = ceiling.overspent(is_complete=False)
            return out_of_money(over, self._duration_ms(run)) if over else ()
        over = ceiling.overspent(is_complete=True)
        if over is not None:
            return out_of_money(over, self._duration_ms(run))
        return await self._result(connection, run, change)

    async def _result(
        self, connection: Connection, run: RunAtWork, change: _TaskResults
    ) -> Sequence[Payload]:
        """The end of a run all of whose tasks have ended."""
        plan, duration_ms = run.plan, self._duration_ms(run)
        if not change.is_answered:
            count = len(plan.suite.tasks)
            message = nobody_answered(plan.agent, count, change.first_error or "unknown")
            return [_failure("agent_unavailable", message, duration_ms)]
        unjudged = [
            (row["task_id"], bytes(row["note"]).decode())
            for row in await connection.fetch(_KEPT, run.run_id, UNJUDGED)
        ]
        unjudged += [
            (task_id, note.decode())
            for task_id, (state, note) in change.states.items()
            if state == UNJUDGED and note is not None
        ]
        if unjudged:
            return [RunFailure(no_verdicts(unjudged, len(plan.suite.tasks)), duration_ms)]
        work = asyncio.to_thread(_summed_up, run, change.events, duration_ms)
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
            if held.ledger is None:
                return True
            held.ledger.lose(taken.task_id, attempt - 1)
            ceiling = Ceiling(run.plan, held.ledger)
            at_work = await connection.fetchval(_DUE, run.run_id, DUE)
            if ceiling.height >= at_work:
                kept = held.ledger.encoded()
                await connection.execute(_KEEP, run.run_id, kept)
                return True
            over = ceiling.overspent(is_complete=False)
            if at_work > 1 or over is None:
                due = await self._wait(connection, run, held, taken.task_id, ceiling.height)
            else:
                last = self._encoded(out_of_money(over, self._duration_ms(run)), run.redactor)
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
            height = Ceiling(run.plan, held.ledger).height
            due = await self._wait(connection, run, held, taken.task_id, height)
        self._database.announce(due)

    async def _wait(
        self, connection: Connection, run: RunAtWork, held: Held, task_id: str, height: int
    ) -> list[str]:
        states: dict[str, tuple[int, bytes | None]] = {task_id: (WAITING, None)}
        change = _TaskResults([], states, held.is_answered, held.first_error)
        return await self._settle(connection, run.run_id, change, held.ledger, height)


def _summed_up(run: RunAtWork, last: Sequence[NewEvent], duration_ms: int) -> Sequence[Payload]:
    """The end of a run by its scores: those in the log, and the last, which are not there yet."""
    history = read_history(run.log, run.run_id)
    for each in last:
        history.take(Event(run.run_id, 0, each.type, each.task_id, each.at_us, each.body))
    return closing(Outcome.of(history).summary, duration_ms)


async def _in_transaction(connection: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Do something long within a transaction, which the server ends if it hears nothing."""
    doing = asyncio.create_task(work)
    while not (await asyncio.wait((doing,), timeout=SIGN_SECONDS))[0]:
        await connection.execute("SELECT 1")
    return await doing


def out_of_money(over: Overspent, duration_ms: int) -> list[Payload]:
    """The events that end a run whose money is spent."""
    breached: list[Payload] = []
    if over.code == "budget_exhausted":
        breached.append(CapBreached("budget-cost", over.limit_usd, over.observed_usd))
    return [*breached, _failure(over.code, over.message, duration_ms)]


def out_of_time(limit_s: float, duration_ms: int) -> list[Payload]:
    """The events that end a run which took too long."""
    limit_ms = limit_s * 1000
    breached = CapBreached("run-duration", limit_ms, max(limit_ms, duration_ms))
    message = f"the run took longer than {limit_s:g} s"
    return [breached, _failure("run_timeout", message, duration_ms)]


def _failure(
    code: str, message: str, duration_ms: int, details: dict[str, Any] | None = None
) -> RunFailure:
    return RunFailure(ErrorDetail(code, message, details, retryable=True), duration_ms)
