"""Taking up runs again that nobody executes any more, because their host was stopped or killed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from evalwright.contracts.errors import DamagedEventLog, StoreError
from evalwright.host.executor_maker import ExecutorMaker
from evalwright.host.hosts import Hosts
from evalwright.host.runs.handle import RunHandle
from evalwright.host.runs.runs import Runs
from evalwright.store.protocol import EventLog

LOOK_SECONDS = 1.0

_logger = logging.getLogger(__name__)

Announce = Callable[[RunHandle], Awaitable[None]]


class Recovery:
    """Finds interrupted runs in the log, and lets this host go on with them."""

    def __init__(
        self,
        log: EventLog,
        maker: ExecutorMaker,
        runs: Runs,
        announce: Announce,
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
            for run_id, partition in await asyncio.to_thread(self._log.open_runs):
                await self._take_up(RunHandle.find(self._log, partition, run_id))

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
                        await self._take_up(RunHandle.find(self._log, partition, run_id))
                before = set(found)
            await asyncio.sleep(LOOK_SECONDS)

    async def _take_up(self, run: RunHandle) -> bool:
        try:
            if not await run.in_reader(lambda: self._is_interrupted(run)):
                return False
            await run.in_reader(lambda: self._log.verify(run.run_id))
            await self._announce(run)
            return await self._runs.recover(run)
        except DamagedEventLog as error:  # one damaged run must not keep the host from starting
            _logger.error("run %s is not resumed: %s", run.run_id, error)  # noqa: TRY400
        except msgspec.DecodeError:
            _logger.error("run %s is not resumed: its log cannot be read", run.run_id)  # noqa: TRY400
        return False

    def _is_interrupted(self, run: RunHandle) -> bool:
        return self._maker.knows(run) and run.open_status() == "running"
