"""Who executes a run: a claim that its holder prolongs, and that lapses when the holder dies.

Every claim has a number of its own, which is kept with the run. What the holder appends carries the
number, and the log refuses it once another process has taken the run over.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from evalwright.contracts.errors import RunBusy
from evalwright.contracts.messages import Text, phrase
from evalwright.store.postgres.connections import LogConnections
from evalwright.store.postgres.schema import EVERY_TENANT

if TYPE_CHECKING:
    from concurrent.futures import Future

LEASE_SECONDS = 10.0  # after which a claim that nobody prolongs lapses
BEATS_PER_LEASE = 4

_NUMBER = "SELECT nextval('claims')"
# Sent again because its answer was lost, it finds the claim to be its own.
_CLAIM = (
    "UPDATE runs SET claim = $3,"
    " claimed_until = clock_timestamp() + make_interval(secs => $2)"
    " WHERE run = $1 AND"
    " (claimed_until IS NULL OR claimed_until < clock_timestamp() OR claim = $3)"
    " RETURNING claim"
)
_PROLONG = (
    "UPDATE runs SET claimed_until = clock_timestamp() + make_interval(secs => $3)"
    " FROM unnest($1::bigint[], $2::bigint[]) AS held (run, claim)"
    " WHERE runs.run = held.run AND runs.claim = held.claim RETURNING runs.run"
)
# Without its number, a claim that is being prolonged at the same moment is gone all the same.
_RELEASE = "UPDATE runs SET claim = NULL, claimed_until = NULL WHERE run = $1 AND claim = $2"
_IS_WITH_WORKERS = "SELECT claimed_until = 'infinity' FROM runs WHERE run = $1"
_IS_CLAIMED = "SELECT claimed_until >= clock_timestamp() FROM runs WHERE run = $1"

_logger = logging.getLogger(__name__)


class Leases:
    """The claims of one process."""

    def __init__(self, connections: LogConnections) -> None:
        self._connections = connections
        self.held: dict[int, int] = {}  # the number of the claim, by that of the run
        self._beating: Future[None] | None = None

    def claim(self, run: int, run_id: str) -> None:
        number = self._connections.query(EVERY_TENANT, _NUMBER)[0][0]
        rows = self._connections.query(EVERY_TENANT, _CLAIM, run, LEASE_SECONDS, number)
        if not rows:
            why: Text = "is already being executed; wait until it ends"
            if any(row[0] for row in self._connections.query(EVERY_TENANT, _IS_WITH_WORKERS, run)):
                why = phrase("is with the workers; follow it with {@workers}, or cancel it first")
            raise RunBusy(phrase("run {run} {why}", run=run_id, why=why))
        self.held[run] = rows[0][0]
        if self._beating is None:
            self._beating = asyncio.run_coroutine_threadsafe(self._beat(), self._connections.loop)

    def release(self, run: int) -> None:
        claim = self.held.pop(run)
        self._connections.query(EVERY_TENANT, _RELEASE, run, claim)

    def is_claimed(self, run: int) -> bool:
        rows = self._connections.query(EVERY_TENANT, _IS_CLAIMED, run)
        return bool(rows and rows[0][0])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / BEATS_PER_LEASE)
            held = dict(self.held)
            if not held:
                continue
            values = [*held], [*held.values()], LEASE_SECONDS
            try:
                kept = await self._connections.fetch(EVERY_TENANT, _PROLONG, *values)
            except Exception as error:  # noqa: BLE001 - the next beat may succeed
                _logger.warning("%s: claims are not prolonged: %s", self._connections.place, error)
                continue
            for run in held.keys() - {run for (run,) in kept}:
                _logger.warning("the claim of run number %d was lost to another process", run)
