"""Requests and tokens per minute, of a provider or of a tenant: who calls waits for its turn.

A call waits until it may begin, and as many tokens as the last one used are set aside for it: calls
that wait for the same moment do not all begin then. What it used in truth is paid afterwards.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from evalwright.models.config import Config

BURST_SECONDS = 1.0  # worth of calls that may begin together after a pause


class MinuteLimits(NamedTuple):
    """How much may be used in a minute; None: any amount."""

    requests: float | None = None
    tokens: float | None = None

    @property
    def request_gap_s(self) -> float:
        return 60 / self.requests if self.requests else 0.0

    def price_s(self, tokens: int) -> float:
        return tokens * 60 / self.tokens if self.tokens else 0.0


class OwnRateLimits:
    """The tokens of providers, as far as this process uses them.

    Requests are counted where they are made, with every attempt: see `limits.Limiter`.
    """

    def __init__(
        self,
        limits: Mapping[str, MinuteLimits],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limits = limits
        self._paid_until: dict[str, float] = {}
        self._last: dict[str, int] = {}  # tokens that a call used, by provider
        self._clock = clock
        self._sleep = sleep

    async def enter(self, provider: str) -> int:
        while (wait := self._paid_until.get(provider, 0.0) - self._clock()) > 0:
            await self._sleep(wait)
        expected = self._last.get(provider, 0)
        self._count(provider, expected)
        return expected

    async def pay(self, provider: str, tokens: int, expected: int = 0) -> None:
        self._count(provider, tokens - expected)
        if tokens:
            self._last[provider] = tokens

    def _count(self, provider: str, tokens: int) -> None:
        limits = self._limits.get(provider)
        if limits is not None and tokens:
            earliest = self._clock() - BURST_SECONDS
            paid = max(self._paid_until.get(provider, 0.0), earliest)
            self._paid_until[provider] = paid + limits.price_s(tokens)


def provider_limits(config: Config) -> dict[str, MinuteLimits]:
    """The limits that the settings give to providers."""
    return {
        name: MinuteLimits(each.requests_per_minute, each.tokens_per_minute)
        for name, each in config.models.items()
        if each.requests_per_minute or each.tokens_per_minute
    }


def own_rate_limits(config: Config) -> OwnRateLimits | None:
    """The limits of a process that shares them with no other; None if there are none."""
    limits = {name: each for name, each in provider_limits(config).items() if each.tokens}
    return OwnRateLimits(limits) if limits else None
