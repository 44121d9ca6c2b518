"""Runs whose host was stopped or killed, or is another one: taken up again, and changed.

A host that does not execute a run leaves an order beside the log, and waits until the log says that
it was carried out. The host that executes the run hears of the order, or finds it a moment later.
What workers execute is changed in the tables of the fleet.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from evalwright.contracts.errors import (
    DamagedEventLog,
    EvalwrightError,
    StoreError,
    StoreUnavailable,
)
from evalwright.contracts.events import DrainPolicy, Event, RunCancelled, RunPaused, RunResumed
from evalwright.engine.clock import Clock
from evalwright.host.http.errors import ApiError, unavailable
from evalwright.host.runs.cluster import Hosts
from evalwright.host.runs.executor import ExecutorMaker
from evalwright.host.runs.handle import ENDED, ExecutedElsewhere, RunHandle, Status
from evalwright.host.runs.runs import CANCEL_SECONDS, Runs
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange, RecordConflict

if TYPE_CHECKING:
    from evalwright.engine.fleet.database import FleetDatabase
    from evalwright.engine.fleet.handover import FleetRuns

KIND = "run_order"
POLL_SECONDS = 1.0  # between two searches for abandoned runs, and for orders not heard of
WAIT_SECONDS = 5.0  # that a request waits until a run is paused or resumed
RETRY_SECONDS = 1
_STEP_SECONDS = 0.05

_logger = logging.getLogger(__name__)

Action = Literal["cancel", "pause", "resume"]
_RECORDED = {"pause": RunPaused.TYPE, "resume": RunResumed.TYPE}
CHECK_SECONDS = 1.5  # that a check of the store takes at most
CHECKED_SECONDS = 1.0  # for which a check that succeeded holds


class StoreCheck:
    """Whether the store can be written, found out by writing to it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._trial: asyncio.Future[None] | None = None  # shared by all who ask meanwhile
        self._checked_until = 0.0

    async def problem(self) -> str | None:
        """Why the store cannot be written; None if it can."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._checked_until:
            return None
        try:
            if self._trial is None or self._trial.done():
                self._trial = asyncio.wrap_future(self._log.try_out())
                # So that asyncio does not complain that nobody looked.
                self._trial.add_done_callback(lambda trial: trial.cancelled() or trial.exception())
            done, _ = await asyncio.wait((self._trial,), timeout=CHECK_SECONDS)
            if not done:
                return self._log.fault or f"a write has not ended within {CHECK_SECONDS:g} s"
            self._trial.result()
        except StoreUnavailable as error:
            return error.reason
        except StoreError as error:
            return type(error).__name__
        self._checked_until = loop.time() + CHECKED_SECONDS
        return None


class Recovery:
    """Finds interrupted runs in the log, and lets this host go on with them."""

    def __init__(
        self,
        log: EventLog,
        maker: ExecutorMaker,
        runs: Runs,
        announce: Callable[[RunHandle], Awaitable[None]],
        hosts: Hosts,
    ) -> None:
        self._hosts = hosts
        self._log = log
        self._maker = maker
        self._runs = runs
        self._announce = announce

    async def recover(self) -> None:
        """Resume the runs that a crash or a stop of this host interrupted."""
        if self._hosts.is_alone:
            for run_id, partition in await asyncio.to_thread(self._log.upkeep.abandoned_runs):
                await self._resume(RunHandle.find(self._log, partition, run_id))

    async def run(self) -> None:
        """Take up runs of hosts that have ended, again and again.

        A run counts as abandoned when it is so twice in a row: it may have just been created.
        """
        before: set[tuple[str, str]] = set()
        while self._hosts.takes_part and not self._hosts.is_alone:
            with suppress(StoreError):
                found = await asyncio.to_thread(self._log.upkeep.abandoned_runs)
                for run_id, partition in found:
                    if (run_id, partition) in before and not self._runs.knows(run_id):
                        await self._resume(RunHandle.find(self._log, partition, run_id))
                before = set(found)
            await asyncio.sleep(POLL_SECONDS)

    async def _resume(self, run: RunHandle) -> None:
        def is_interrupted() -> bool:
            return self._maker.knows(run) and run.open_status() == "running"

        try:
            if await run.in_reader(is_interrupted):
                await run.in_reader(lambda: self._log.verify(run.run_id))
                await self._announce(run)
                await self._runs.recover(run)
        except DamagedEventLog as error:  # one damaged run must not keep the host from starting
            _logger.error("run %s is not resumed: %s", run.run_id, error)  # noqa: TRY400
        except msgspec.DecodeError:
            _logger.error("run %s is not resumed: its log cannot be read", run.run_id)  # noqa: TRY400


class RunOrder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the host that executes a run is to do with it."""

    action: Action
    id: str  # of the request, so that no two orders are the same
    reason: str | None = None
    by: str = ""
    is_immediate: bool = False


class RunOrders:
    """Changes runs that this host executes, and lets other hosts change theirs."""

    def __init__(
        self, log: EventLog, runs: Runs, clock: Clock, fleet: "FleetDatabase | None" = None
    ) -> None:
        self._log = log
        self._runs = runs
        self._clock = clock
        self._is_alone = log.records.is_local  # a log in a file has one host
        self._came = asyncio.Event()
        self._fleet = fleet  # whose connections are closed by whoever gave it

    async def cancel(self, run: RunHandle, reason: str | None, by: str) -> Status:
        """Cancel a run; raises `ApiError` 409 if it has ended."""
        try:
            return await self._runs.cancel(run, reason, by)
        except ExecutedElsewhere:
            if self._is_alone:
                raise
        if (fleet := await self._fleet_with(run)) is not None:
            began_us = (await run.read_edges())[0].at_us
            duration_ms = max(0, self._clock.now_us() - began_us) // 1000
            ending = RunCancelled(mask_reason(reason), by, duration_ms)
            await fleet.end(run.run_id, [_new(self._runs.event(run, ending))])
        else:
            order = RunOrder("cancel", secrets.token_hex(8), reason, by)
            await self._order(run, order, CANCEL_SECONDS)
        status = await self._runs.status(run)
        return status if status in ENDED else "cancelling"

    async def pause(
        self, run: RunHandle, reason: str | None, *, immediately: bool = False
    ) -> Event:
        """Pause a running run; raises `ApiError` 409 for any other."""
        try:
            return await self._runs.pause(run, reason, immediately=immediately)
        except ExecutedElsewhere:
            if self._is_alone:
                raise
        if (fleet := await self._fleet_with(run)) is not None:
            policy: DrainPolicy = "immediate" if immediately else "drain-current-node"
            paused = self._runs.event(run, RunPaused(mask_reason(reason), policy))
            if await fleet.pause(run.run_id, _new(paused), immediately=immediately):
                return paused
            return await self._runs.pause(run, reason)  # which says what has become of it
        order = RunOrder("pause", secrets.token_hex(8), reason, is_immediate=immediately)
        return await self._recorded(run, order)

    async def resume(self, run: RunHandle, reason: str | None) -> Event:
        """Resume a paused run; raises `ApiError` 409 for any other."""
        try:
            return await self._runs.resume(run, reason)
        except ExecutedElsewhere:
            if self._is_alone:
                raise
        if (fleet := await self._fleet_with(run)) is not None:
            resumed = self._runs.event(run, RunResumed(mask_reason(reason)))
            if await fleet.resume(run.run_id, _new(resumed)):
                return resumed
            return await self._runs.resume(run, reason)
        return await self._recorded(run, RunOrder("resume", secrets.token_hex(8), reason))

    async def _fleet_with(self, run: RunHandle) -> "FleetRuns | None":
        """The fleet, if workers have the run."""
        from evalwright.engine.fleet.handover import FleetRuns

        if self._fleet is None:
            return None
        found = FleetRuns(self._fleet, self._clock)
        return found if await found.has(run.run_id) else None

    async def _recorded(self, run: RunHandle, order: RunOrder) -> Event:
        """The event that an order led to."""
        kind = _RECORDED[order.action]
        last = (await run.read_edges())[-1].sequence
        await self._order(run, order, WAIT_SECONDS)
        found = await run.in_reader(lambda: list(run.log.read(run.run_id, (kind,), last)))
        if not found:
            raise unavailable("the host that executes the run has not answered", RETRY_SECONDS)
        return found[-1]

    async def _order(self, run: RunHandle, order: RunOrder, seconds: float) -> None:
        """Leave an order, and wait until it is gone: carried out, or refused."""
        records, place = self._log.records, (KIND, run.partition, run.run_id)
        body = msgspec.json.encode(order)
        await asyncio.wrap_future(records.write([RecordChange(*place, body)]))
        self._log.publish([run.run_id])
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await asyncio.sleep(_STEP_SECONDS)
            if await run.in_reader(lambda: records.get(*place)) != body:
                return
        if order.action != "cancel":  # nobody is told later that it was done
            with suppress(RecordConflict):
                await asyncio.wrap_future(records.write([RecordChange(*place, None, body)]))

    # The host that executes a run.

    def on_news(self, run_ids: Sequence[str] | None) -> None:
        """Look for orders, if others wrote of a run that is executed here."""
        if run_ids is None or any(self._runs.executes(run_id) for run_id in run_ids):
            self._came.set()

    async def run(self) -> None:
        """Carry out orders, again and again."""
        while not self._is_alone:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._came.wait()
            self._came.clear()
            with suppress(StoreError):  # it can be read again later
                await self._carry_out()

    async def _carry_out(self) -> None:
        records = self._log.records
        reading = self._log.in_reader("", lambda: records.of_all_tenants(KIND))
        for partition, record in await asyncio.wrap_future(reading):
            run = RunHandle.find(self._log, partition, record.key)
            if self._runs.executes(run.run_id) or await self._has_ended(run):
                order = msgspec.json.decode(record.body, type=RunOrder)
                try:
                    if order.action == "cancel":
                        await self._runs.cancel(run, order.reason, order.by)
                    elif order.action == "pause":
                        await self._runs.pause(run, order.reason, immediately=order.is_immediate)
                    else:
                        await self._runs.resume(run, order.reason)
                except (ApiError, EvalwrightError) as refusal:
                    _logger.info("run %s is not changed: %s", run.run_id, type(refusal).__name__)
                removal = RecordChange(KIND, partition, record.key, None, record.body)
                with suppress(RecordConflict):  # another order has come
                    await asyncio.wrap_future(records.write([removal]))

    async def _has_ended(self, run: RunHandle) -> bool:
        with suppress(EvalwrightError):
            return (await run.in_reader(lambda: run.log.facts(run.run_id))).ended_us is not None
        return True


def _new(event: Event) -> NewEvent:
    return NewEvent(event.type, event.task_id, event.at_us, event.body)
