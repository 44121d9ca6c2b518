"""Runs handed to the fleet: what is asked of them there, and how a session follows them here."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Event,
    RunCancelled,
)
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import AgentFacts, RunSettings
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.continuation import continued, recall_answers
from evalwright.engine.fleet.database import Connection, FleetDatabase
from evalwright.engine.fleet.equipment import lane_of, refuse_unfit
from evalwright.engine.fleet.status import waiting_for
from evalwright.engine.history import History, read_history
from evalwright.engine.machine import RunMachine, cut_off
from evalwright.engine.plan import Plan
from evalwright.engine.recorder import Recorder
from evalwright.engine.replay import project
from evalwright.engine.verdict import Outcome
from evalwright.store.postgres.schema import EVERY_TENANT, SETTING
from evalwright.store.protocol import EventLog, NewEvent, Watcher
from evalwright.store.records import LOCAL_TENANT, RecordChange

if TYPE_CHECKING:
    from evalwright.engine.rescore import Rescore
    from evalwright.engine.session import Observer, Session

_JOIN = "SELECT * FROM fleet_join($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
_CLAIM = "UPDATE runs SET claim = nextval('claims'), claimed_until = 'infinity' WHERE run_id = $1"
_LOCK = "SELECT r.run FROM fleet_runs f JOIN runs r ON r.run_id = f.run_id WHERE f.run_id = $1"
_UPDATE = "FOR UPDATE OF f"
_STOP = """
WITH stopped AS (UPDATE fleet_runs SET is_paused = $2 WHERE run_id = $1 RETURNING owner)
SELECT owner FROM fleet_owners WHERE owner = (SELECT owner FROM stopped) FOR UPDATE
"""
# Tasks that nobody has begun wait again, or all of them; workers that have begun some find that
# they are no longer theirs.
_WITHDRAW = """
WITH withdrawn AS (
    UPDATE attempts
    SET state = 0, worker = NULL, withdrawn = withdrawn + (worker IS NOT NULL)::integer
    WHERE run_id = $1 AND state = 1 AND (attempt = 0 OR $3)
    RETURNING task_id
), counted AS (SELECT count(*)::integer AS n FROM withdrawn), share AS (
    UPDATE fleet_shares SET is_open = false, released = released - n, waiting = waiting + n
    FROM counted WHERE run_id = $1
), owned AS (
    UPDATE fleet_owners SET released = released - n FROM counted WHERE owner = $2
)
SELECT
"""
_REOPEN = "UPDATE fleet_shares SET is_open = true WHERE run_id = $1"
_RELEASE = """
SELECT * FROM fleet_release($1, greatest(0, fleet_share($1) -
    (SELECT released FROM fleet_owners WHERE owner = $1)))
"""
_OWNER = """
SELECT FROM fleet_owners
WHERE owner = (SELECT owner FROM fleet_runs WHERE run_id = $1) FOR UPDATE
"""
# In the order in which workers begin them.
_DUE = "SELECT task_id FROM attempts WHERE run_id = $1 AND state = 1 ORDER BY task_id FOR UPDATE"
_LEAVE = "SELECT * FROM fleet_leave($1, 0)"
POLL_SECONDS = 0.2  # between two reads of the log
MOST_EVENTS = 1000  # in one read
WONDER_SECONDS = 3.0  # without news, after which the fleet is asked what a run waits for


class HandedPlan(msgspec.Struct, frozen=True):
    """What of a plan may differ from the one that the log recorded."""

    agent: AgentFacts
    settings: RunSettings

    def applied_to(self, plan: Plan) -> Plan:
        """The plan that the fleet executes."""
        return msgspec.structs.replace(plan, agent=self.agent, settings=self.settings)


class HandOver:
    """Written with the first events of a run: with them, its tasks are due, or nothing is."""

    def __init__(self, history: History, tenant: str, owner: str) -> None:
        self._history = history
        self._tenant = tenant
        self._owner = owner
        self.locks = owner
        self.due: list[str] = []  # lanes

    async def apply(self, connection: Connection) -> None:
        """Write it, within the transaction of its caller."""
        history, plan = self._history, self._history.plan
        ledger = None
        if plan.settings.has_budget:
            ledger = copy.deepcopy(history.tally.spending)
            ledger.is_cost_known = bool(history.scored)
            for _ in history.open_invocations:
                ledger.cut()
        waiting = [
            (position, task.task_id)
            for position, task in enumerate(plan.suite.tasks)
            if task.task_id not in history.scored
        ]
        await connection.execute(f"SET LOCAL {SETTING} = '{EVERY_TENANT}'")
        await connection.execute(_CLAIM, history.run_id)
        rows = await connection.fetch(
            _JOIN,
            history.run_id,
            self._tenant,
            self._owner,
            lane_of(self._owner, plan),
            msgspec.json.encode(HandedPlan(plan.agent, plan.settings)),
            plan.settings.priority or 0,
            RunMachine[NewEvent](plan, spending=ledger).room,
            bool(history.scored or history.awaiting),
            ledger and msgspec.json.encode(ledger),
            plan.settings.run_timeout_s,
            [position for position, _ in waiting],
            [task_id for _, task_id in waiting],
        )
        self.due = [row["due_lane"] for row in rows]


async def hand_over(
    database: FleetDatabase,
    history: History,
    place: tuple[str, str],
    redactor: Redactor,
    clock: Clock,
    facts: Sequence[NewEvent] = (),
    changes: Sequence[RecordChange] = (),
    *,
    resumed_from: str | None = None,
    is_open: bool = False,
) -> None:
    """Hand a run to the fleet: a new one with its first events, or the rest of one that is open.

    `place` is its partition of the log and the tenant that it counts for.
    """
    handed = HandOver(history, *place)
    log = database.log.for_tenant(place[0])
    both: Any = [*changes, handed]
    if is_open:
        now_us, reason = clock.now_us(), "the process that ran the agent was stopped"
        events = [
            NewEvent(each.TYPE, task_id, now_us, msgspec.json.encode(each))
            for attempt_id, (task_id, agent_id) in history.open_invocations.items()
            for each in cut_off(attempt_id, agent_id, "interrupted", reason)
        ]
        await asyncio.wrap_future(log.request(history.run_id, events, both))
    else:
        recorder = Recorder(log, history.run_id, clock, redactor)
        await recorder.create(history.plan.opening(resumed_from), facts, both)
    database.announce(handed.due)


class FleetRuns:
    """What hosts and commands ask of runs that the fleet has."""

    def __init__(self, database: FleetDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def has(self, run_id: str) -> bool:
        """Whether a run was handed to the fleet, and has not ended."""
        found = "SELECT FROM fleet_runs WHERE run_id = $1"
        return await self._database.fetchrow(found, run_id) is not None

    async def pause(self, run_id: str, event: NewEvent, *, immediately: bool = False) -> bool:
        """Begin no more tasks of a run; False if it has ended, or is paused already.

        What is at work ends first; `immediately` interrupts it, and it is begun again later.
        """
        async with self._database.transaction() as connection:
            run = await connection.fetchval(f"{_LOCK} AND NOT f.is_paused {_UPDATE}", run_id)
            if run is None:
                return False
            await self._database.append(connection, run_id, run, [event])
            owner = await connection.fetchval(_STOP, run_id, True)
            await connection.execute(_DUE, run_id)
            await connection.execute(_WITHDRAW, run_id, owner, immediately)
        if immediately:
            self._database.announce_end()
        return True

    async def resume(self, run_id: str, event: NewEvent) -> bool:
        """Begin tasks of a run again; False if it has ended."""
        async with self._database.transaction() as connection:
            if (run := await connection.fetchval(f"{_LOCK} {_UPDATE}", run_id)) is None:
                return False
            await self._database.append(connection, run_id, run, [event])
            owner = await connection.fetchval(_STOP, run_id, False)
            await connection.execute(_REOPEN, run_id)
            due = await self._database.due(connection, _RELEASE, owner)
        self._database.announce(due)
        return True

    async def end(self, run_id: str, events: Sequence[NewEvent]) -> bool:
        """End a run with these events, whatever of it is at work; False if it has ended."""
        async with self._database.transaction() as connection:
            if (run := await connection.fetchval(f"{_LOCK} {_UPDATE}", run_id)) is None:
                return False
            await self._database.append(connection, run_id, run, events)
            await connection.execute(_OWNER, run_id)  # nobody releases more of its tasks
            await connection.execute(_DUE, run_id)
            due = await self._database.due(connection, _LEAVE, run_id)
        self._database.announce(due)
        self._database.announce_end()
        return True


class HandedRuns:
    """Has the fleet execute what a session would, and shows it as it goes."""

    def __init__(
        self,
        session: "Session",
        address: str,
        notify: Callable[[Text], None],
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._address = address
        self._notify = notify
        self._clock = clock or SystemClock()
        self._watchers: dict[str, Watcher] = {}
        self.handed: list[str] = []  # runs that the fleet has, the first first

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Call the watcher with events of a run that were not there before."""
        self._watchers[run_id] = watcher

    async def run(
        self,
        log: EventLog,
        pending: "Sequence[Plan | History | Rescore]",
        observer: "Observer | None",
    ) -> list[Outcome]:
        """Hand over all runs, follow each to its end, and close the session."""
        database = FleetDatabase(self._address, log)
        histories: list[History] = []
        try:
            try:
                for each in pending:
                    histories.append(await self._hand_over(database, each))
                    self.handed.append(histories[-1].run_id)
            finally:
                await self._session.close()
            return [await self._follow(database, each, observer) for each in histories]
        finally:
            await database.close()

    async def _hand_over(
        self, database: FleetDatabase, pending: "Plan | History | Rescore"
    ) -> History:
        if not isinstance(pending, Plan | History):
            message = "{@workers}: recorded answers are scored in this process; leave it out"
            raise BadInput(phrase(message))
        # A new run, the rest of one that failed, or of one that is open.
        refuse_unfit(pending if isinstance(pending, Plan) else pending.plan)
        log, clock, redactor = database.log, self._clock, self._session.models.redactor
        place = (LOCAL_TENANT, LOCAL_TENANT)
        if isinstance(pending, Plan):
            history = History(new_run_id(clock), pending, clock.now_us())
            await hand_over(database, history, place, redactor, clock)
            return history
        if pending.end is not None:
            with log.claim(pending.run_id):
                history, facts = await asyncio.to_thread(continued, log, pending, clock)
                await hand_over(
                    database, history, place, redactor, clock, facts, resumed_from=pending.run_id
                )
            return history
        if await FleetRuns(database, clock).has(pending.run_id):
            return pending
        with log.claim(pending.run_id):
            current = await asyncio.to_thread(recorded_history, log, pending.run_id)
            current.plan = pending.plan
            if current.end is None:
                await hand_over(database, current, place, redactor, clock, is_open=True)
        return current

    async def _follow(
        self, database: FleetDatabase, history: History, observer: "Observer | None"
    ) -> Outcome:
        if observer is not None:
            observer.run_begins(history)
        log, run_id = database.log, history.run_id
        seen, quiet_s, said = -1, 0.0, None
        if not history.is_new:
            seen = await asyncio.to_thread(lambda: log.facts(run_id).events - 1)
        has_ended = history.end is not None

        def read() -> list[Event]:
            return list(log.read(run_id, after=seen, limit=MOST_EVENTS))

        while not has_ended:
            # While the log is out of reach, workers go on all the same.
            if events := await database.patiently(lambda: asyncio.to_thread(read)):
                seen, quiet_s = events[-1].sequence, 0.0
                has_ended = events[-1].type in TERMINAL_TYPES
                if (watcher := self._watchers.get(run_id)) is not None:
                    watcher([NewEvent(e.type, e.task_id, e.at_us, e.body) for e in events])
                continue
            await asyncio.sleep(POLL_SECONDS)
            quiet_s += POLL_SECONDS
            if quiet_s >= WONDER_SECONDS:
                quiet_s = 0.0
                with suppress(Exception):
                    waits = await waiting_for(database, run_id)
                    if waits not in (None, said):  # each thing once
                        self._notify(f"run {run_id} waits for {waits}")
                    said = waits
        history = await database.patiently(lambda: asyncio.to_thread(read_history, log, run_id))
        if history.end is not None and history.end.type == RunCancelled.TYPE:
            raise CannotEvaluate(f"run {history.run_id} was cancelled; it has no result")
        outcome = project(history)
        if observer is not None:
            observer.run_ended(outcome)
        return outcome


def recorded_history(log: EventLog, run_id: str) -> History:
    """What the log says of a run, answers without a score included."""
    history = read_history(log, run_id)
    recall_answers(log, history)
    return history
