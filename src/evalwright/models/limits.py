"""How many calls a provider gets at once and in a minute; fewer after every 429."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

LONGEST_CLOSURE_S = 120.0
SMALLEST_SHARE = 1 / 64  # of the requests per minute, however often the provider refuses
MOST_CLOSURES = 5  # in a row without a success; if they also took as long as this,
HOPELESS_AFTER_S = 120.0  # no call waits for the next one


class NoTurn(Exception):
    """A call that waited for its turn in vain; the message says why."""


class Limiter:
    """A gate in first-come order. A refusal halves the limits, successes raise them slowly again.

    Calls that a provider refuses together count as one refusal: only a call that was begun after
    the last halving can halve again. A provider that closes repeatedly and lets no call through is
    not waited for: every call would find the same, one after another.
    """

    def __init__(
        self,
        concurrency: int,
        per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._most = concurrency
        self._allowed = float(concurrency)
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._interval = 60 / per_minute if per_minute else 0.0
        self._share = 1.0  # of the requests per minute that are made at present
        self._next_start = 0.0
        self._closed_until = 0.0
        self._closures = 0  # since the last success
        self._first_closure = 0.0
        self._halvings = 0
        self._clock = clock
        self._sleep = sleep

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    @property
    def is_hopeless(self) -> bool:
        """Whether the provider is closed, and let no call through for long before that."""
        if self._closures < MOST_CLOSURES:
            return False
        now = self._clock()
        return now < self._closed_until and now - self._first_closure >= HOPELESS_AFTER_S

    @asynccontextmanager
    async def turn(self, deadline: float | None = None) -> AsyncIterator[int]:
        """Wait for a free place and for the rate limit; yields the ticket that `refused` takes.

        Raises `NoTurn` at the deadline, and where waiting is hopeless.
        """
        if deadline is None:
            await self._enter()
        else:
            try:
                async with asyncio.timeout(deadline - self._clock()):
                    await self._enter()
            except TimeoutError:
                raise NoTurn("no turn came before it was too late to try again") from None
        try:
            yield self._halvings
        finally:
            self._leave()

    def succeeded(self) -> None:
        """A call went through: one more at once after as many successes as are allowed now."""
        self._closures = 0
        if self._allowed < self._most:
            self._allowed = min(float(self._most), self._allowed + 1 / self._allowed)
            self._admit()
        if self._share < 1:
            self._share = min(1.0, self._share + 0.01)

    def refused(self, ticket: int, wait_s: float | None) -> None:
        """The provider answered 429; no call begins until `wait_s` have passed.

        Where that is too long to wait for, the others find out for themselves.
        """
        is_new = ticket == self._halvings
        if is_new:
            self._halvings += 1
            self._allowed = max(1.0, self._allowed / 2)
            self._share = max(SMALLEST_SHARE, self._share / 2)
        if wait_s and wait_s <= LONGEST_CLOSURE_S:
            now = self._clock()
            self._closed_until = max(self._closed_until, now + wait_s)
            if not self._closures:
                self._first_closure = now
            self._closures += is_new
            if self.is_hopeless:
                for place in self._waiting:
                    if not place.done():
                        place.set_exception(_hopeless())
                self._waiting.clear()

    async def _enter(self) -> None:
        if self.is_hopeless:
            raise _hopeless()
        if self._busy >= int(self._allowed) or self._waiting:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                was_settled = place.done() and not place.cancelled()
                if was_settled and place.exception() is None:  # it was given a place all the same
                    self._leave()
                raise
        else:
            self._busy += 1
        if self._interval or self._closed_until:
            try:
                while (wait := self._wait()) > 0:
                    if self.is_hopeless:
                        raise _hopeless()
                    await self._sleep(wait)
            except BaseException:
                self._leave()
                raise
            if self._interval:
                now = self._clock()
                self._next_start = max(self._next_start, now - 1.0) + self._interval / self._share

    def _leave(self) -> None:
        self._busy -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._busy < int(self._allowed):
            place = self._waiting.popleft()
            if not place.done():
                self._busy += 1
                place.set_result(None)

    def _wait(self) -> float:
        """Seconds until the next call may begin; up to a second's worth may begin together."""
        now = self._clock()
        if self._closed_until <= now:
            self._closed_until = 0.0
        return max(self._closed_until, self._next_start) - now


def _hopeless() -> NoTurn:
    return NoTurn(f"it let no call through for {HOPELESS_AFTER_S:g} s and is closed again")
