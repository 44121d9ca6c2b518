"""When a failed call is made again, and after how long."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
TOTAL_S = 300.0  # no try starts later than this after the first

_AGAIN = frozenset({408, 409, 429})


def is_worth_retrying(status: int) -> bool:
    """Whether the same call may succeed later."""
    return status in _AGAIN or status >= 500


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often a call is made again; clock, chance and sleep are passed in for tests."""

    limit: int = 5
    total_s: float = TOTAL_S
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def deadline(self, begun: float | None) -> float | None:
        """When a call that was begun must be tried for the last time; the first try has no end."""
        return None if begun is None else begun + self.total_s

    def wait_before(self, retry: int, begun: float, asked_s: float | None) -> float | None:
        """Seconds before retry 1, 2, …; None to give up.

        Exponential with full jitter, so that callers that failed together do not return together;
        the wait is at least what the provider asks for in `Retry-After`.
        """
        if retry > self.limit:
            return None
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (retry - 1)) * self.chance()
        if asked_s is not None:
            wait = asked_s + min(wait, FIRST_WAIT_S)
        return wait if self.clock() - begun + wait <= self.total_s else None


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """What `retry-after-ms` or `Retry-After` (seconds or a date) asks for, in seconds.

    `x-ratelimit-timeremaining` says the same where a limit is counted per minute or day.
    """
    remaining = _number(headers.get("x-ratelimit-timeremaining"))
    if remaining is not None:
        return remaining
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        date = parsedate_to_datetime(given)
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
