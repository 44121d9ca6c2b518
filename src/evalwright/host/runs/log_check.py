"""The check of the log when a host starts: damaged runs are told of, and the others served."""

import asyncio
import logging
import time

from evalwright.contracts.errors import DamagedEventLog, RunNotFound, StoreError
from evalwright.store.protocol import EventLog

LONGEST_SECONDS = 600.0  # after which older runs are left to `evalwright db check`
PAUSES = 4.0  # times as long as a run took to read: requests come first
_PAGE = 100  # runs

_logger = logging.getLogger(__name__)


class LogCheck:
    """Reads all runs once, the newest first, beside everything else that the host does."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def run(self) -> None:
        """Check the log, and report each damaged run in one line."""
        end, before = time.monotonic() + LONGEST_SECONDS, None
        while runs := await self._page(before):
            for each in runs:
                if time.monotonic() > end:
                    return
                before, began = each, time.monotonic()
                try:
                    await asyncio.to_thread(self._log.verify, each)
                except DamagedEventLog as error:
                    _logger.error("damaged: %s", error)  # noqa: TRY400 - it is one line
                except (
                    RunNotFound,
                    StoreError,
                ):  # it was deleted meanwhile, or the database is away
                    pass
                await asyncio.sleep(PAUSES * (time.monotonic() - began))

    async def _page(self, before: str | None) -> list[str]:
        try:
            found = await asyncio.to_thread(self._log.run_ids, _PAGE, before)
        except (RunNotFound, StoreError):  # the last one was deleted, or the database is away
            return []
        return found
