"""Runs of a session handed to the fleet, and followed here until they end."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import TERMINAL_TYPES, Event, RunCancelled
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.continuation import continued
from evalwright.engine.execution import Outcome
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.equipment import refuse_unfit
from evalwright.engine.fleet.handing import FleetRuns, hand_over
from evalwright.engine.fleet.runs_at_work import recorded_history
from evalwright.engine.fleet.standing import waiting_for
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan
from evalwright.engine.replay import project
from evalwright.engine.session import Observer, Session
from evalwright.store.protocol import EventLog, NewEvent, Watcher
from evalwright.store.records import LOCAL_TENANT

if TYPE_CHECKING:
    from evalwright.engine.rescore import Rescore

LOOK_SECONDS = 0.2  # between two looks at the log
MOST_EVENTS = 1000  # in one look
WONDER_SECONDS = 3.0  # without news, after which the fleet is asked what a run waits for


class HandedRuns:
    """Has the fleet execute what a session would, and shows it as it goes."""

    def __init__(
        self,
        session: Session,
        address: str,
        notify: Callable[[str], None],
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
        observer: Observer | None,
    ) -> list[Outcome]:
        """Hand over all runs, follow each to its end, and close the session."""
        database = FleetDatabase(self._address, log)
        try:
            try:
                histories = [await self._hand_over(database, each) for each in pending]
            finally:
                await self._session.close()
            return [await self._follow(database, each, observer) for each in histories]
        finally:
            await database.close()

    async def _hand_over(
        self, database: FleetDatabase, pending: "Plan | History | Rescore"
    ) -> History:
        if not isinstance(pending, Plan | History):
            raise BadInput("--workers: recorded answers are scored in this process; leave it out")
        refuse_unfit(pending if isinstance(pending, Plan) else pending.plan)
        history = await self._handed(database, pending)
        self.handed.append(history.run_id)
        return history

    async def _handed(self, database: FleetDatabase, pending: Plan | History) -> History:
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
        self, database: FleetDatabase, history: History, observer: Observer | None
    ) -> Outcome:
        if observer is not None:
            observer.run_begins(history)
        log, run_id = database.log, history.run_id
        seen, quiet_s, said = -1, 0.0, None
        if not history.is_new:
            seen = await asyncio.to_thread(lambda: log.facts(run_id).events - 1)
        has_ended = history.end is not None
        while not has_ended:
            events = await self._new_events(database, run_id, seen)
            if events:
                seen, quiet_s = events[-1].sequence, 0.0
                has_ended = events[-1].type in TERMINAL_TYPES
                if (watcher := self._watchers.get(run_id)) is not None:
                    watcher([NewEvent(e.type, e.task_id, e.at_us, e.body) for e in events])
                continue
            await asyncio.sleep(LOOK_SECONDS)
            quiet_s += LOOK_SECONDS
            if quiet_s >= WONDER_SECONDS:
                quiet_s, said = 0.0, await self._wonder(database, run_id, said)
        history = await database.patiently(lambda: asyncio.to_thread(read_history, log, run_id))
        outcome = _outcome(history)
        if observer is not None:
            observer.run_ended(outcome)
        return outcome

    async def _new_events(self, database: FleetDatabase, run_id: str, after: int) -> list[Event]:
        """The next events of a run; while the log is out of reach, workers go on all the same."""

        def read() -> list[Event]:
            return list(database.log.read(run_id, after=after, limit=MOST_EVENTS))

        return await database.patiently(lambda: asyncio.to_thread(read))

    async def _wonder(self, database: FleetDatabase, run_id: str, said: str | None) -> str | None:
        """Say what a run waits for, each thing once."""
        with suppress(Exception):
            waits = await waiting_for(database, run_id)
            if waits is not None and waits != said:
                self._notify(f"run {run_id} waits for {waits}")
            return waits
        return said


def _outcome(history: History) -> Outcome:
    if history.end is not None and history.end.type == RunCancelled.TYPE:
        raise CannotEvaluate(f"run {history.run_id} was cancelled; it has no result")
    return project(history)
