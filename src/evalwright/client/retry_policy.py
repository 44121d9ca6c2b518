"""When a request is sent again, and after how long; clock and chance are passed in for tests."""

import random
from collections.abc import Callable

import msgspec

from evalwright.client.errors import HostError, Unreachable

FIRST_WAIT_S = 0.25
_LATER = frozenset({429, 502, 503, 504})


class Retries(msgspec.Struct, frozen=True):
    """How often a request is sent again, and how long a wait a host may ask for."""

    limit: int = 5
    longest_wait_s: float = 30.0
    chance: Callable[[], float] = random.random


Failure = HostError | Unreachable


class Attempts:
    """The attempts at one request, counted."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._failed = 0

    def wait_after(self, failure: Failure) -> float | None:
        """Seconds until the next attempt; None to give up.

        A broken connection is tried again at once the first time: it may have been kept too long.
        After that waits double, with jitter, and at least as long as the host asks for.
        """
        self._failed += 1
        if isinstance(failure, Unreachable):
            may_pass = failure.may_pass
        else:
            may_pass = failure.status in _LATER or failure.code == "idempotency_in_flight"
        if self._failed > self._retries.limit or not may_pass:
            return None
        asked = failure.retry_after if isinstance(failure, HostError) else None
        if asked is not None:
            wait = asked + FIRST_WAIT_S * self._retries.chance()
            return wait if asked <= self._retries.longest_wait_s else None
        if self._failed == 1 and isinstance(failure, Unreachable):
            return 0.0
        wait = FIRST_WAIT_S * 2.0 ** (self._failed - 1) * (0.5 + self._retries.chance() / 2)
        return min(wait, self._retries.longest_wait_s)

    def succeeded(self) -> None:
        """Start counting again."""
        self._failed = 0
