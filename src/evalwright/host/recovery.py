"""Taking up runs again that nobody executes any more, because their host was stopped or killed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from evalwright.host.executor_maker import ExecutorMaker
from evalwright.host.run_handle import RunHandle
from evalwright.host.runs import Runs
from evalwright.store.protocol import EventLog

_logger = logging.getLogger(__name__)

Announce = Callable[[RunHandle], Awaitable[None]]


class Recovery:
    """Finds interrupted runs in the log, and lets this host go on with them."""

    def __init__(self, log: EventLog, maker: ExecutorMaker, runs: Runs, announce: Announce) -> None:
        self._log = log
        self._maker = maker
        self._runs = runs
        self._announce = announce

    async def recover(self) -> int:
        """Resume the runs that a crash or a stop interrupted; returns how many."""
        count = 0
        for run_id, partition in await asyncio.to_thread(self._log.open_runs):
            count += await self._take_up(RunHandle.find(self._log, partition, run_id))
        return count

    async def _take_up(self, run: RunHandle) -> bool:
        if not await run.beside(lambda: self._is_interrupted(run)):
            return False
        try:
            await self._announce(run)
            return await self._runs.recover(run)
        except msgspec.DecodeError:  # one unreadable run must not keep the host from starting
            _logger.error("run %s is not resumed: its log cannot be read", run.run_id)  # noqa: TRY400
            return False

    def _is_interrupted(self, run: RunHandle) -> bool:
        return self._maker.knows(run) and run.open_status() == "running"
