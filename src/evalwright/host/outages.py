"""What a host does while its store fails: it says so, and takes up runs again afterwards."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from evalwright.contracts.errors import StoreError, StoreUnavailable
from evalwright.host.runs.handle import RunHandle
from evalwright.store.protocol import EventLog

CHECK_SECONDS = 1.5  # that a check of the store takes at most
CHECKED_SECONDS = 1.0  # for which a check that succeeded holds
FIRST_DELAY_SECONDS = 0.5  # before a run is taken up again; it doubles each time that fails
LONGEST_DELAY_SECONDS = 60.0


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
                self._trial.add_done_callback(_look_at_error)
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


def _look_at_error(trial: "asyncio.Future[None]") -> None:
    if not trial.cancelled():
        trial.exception()  # so that asyncio does not complain that nobody looked


class StrandedRuns:
    """Runs that are not executed because the store failed; each is taken up again after a while."""

    def __init__(self, take_up: Callable[[RunHandle], Awaitable[None]]) -> None:
        self._take_up = take_up
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._delays: dict[str, float] = {}  # of runs that have been stranded before
        self._is_closed = False

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._waiting

    def add(self, run: RunHandle) -> None:
        """Take a run up again soon; later, if it has been stranded before."""
        if self._is_closed:
            return
        delay = self._delays.get(run.run_id, FIRST_DELAY_SECONDS)
        self._delays[run.run_id] = min(2 * delay, LONGEST_DELAY_SECONDS)
        self._waiting[run.run_id] = asyncio.create_task(self._wait(run, delay))

    def forget(self, run_id: str) -> None:
        """Note that a run has ended."""
        self._delays.pop(run_id, None)

    def close(self) -> None:
        """Take up no more runs."""
        self._is_closed = True
        for task in self._waiting.values():
            task.cancel()

    async def _wait(self, run: RunHandle, delay: float) -> None:
        while True:
            await asyncio.sleep(delay)
            with suppress(StoreError):
                await asyncio.wrap_future(run.log.try_out())
                break
        try:
            await self._take_up(run)
        except StoreError:
            self.add(run)
        if self._waiting.get(run.run_id) is asyncio.current_task():
            del self._waiting[run.run_id]
