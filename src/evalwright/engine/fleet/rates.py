"""Requests and tokens per minute of providers and tenants, across all workers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from evalwright.engine.fleet.database import FleetDatabase
from evalwright.models.rate_limits import MinuteLimits

# In this order: tokens that are set aside for a call are not its own to wait for.
_ENTER = """
WITH entered AS MATERIALIZED (SELECT fleet_enter($1, $2) AS wait)
SELECT wait, fleet_pay($3, $4) FROM entered
"""
_PAY = "SELECT fleet_pay($1, $2)"
_GIVE_BACK_SECONDS = 2.0  # that it takes at most


class FleetRateLimits:
    """What a tenant and the providers may use, counted in the database that workers share."""

    def __init__(
        self,
        database: FleetDatabase,
        tenant: str,
        of_tenant: MinuteLimits,
        of_providers: Mapping[str, MinuteLimits],
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._of_tenant = of_tenant
        self._of_providers = of_providers
        self._last: dict[str, int] = {}  # tokens that a call used, by provider

    def _limits(self, provider: str) -> dict[str, MinuteLimits]:
        """The limits that a call is under, by where they are counted."""
        limits = {
            f"provider:{provider}": self._of_providers.get(provider, MinuteLimits()),
            f"tenant:{self._tenant}": self._of_tenant,
        }
        return {scope: each for scope, each in limits.items() if any(each)}

    async def enter(self, provider: str) -> int:
        """Wait until a call of a provider may begin, whoever else calls it.

        Gives how many tokens were set aside for it: as many as the last one used.
        """
        if not (limits := self._limits(provider)):
            return 0
        expected = self._last.get(provider, 0)
        gaps = [each.request_gap_s for each in limits.values()]
        row = await self._database.patiently(
            lambda: self._database.fetchrow(
                _ENTER, list(limits), gaps, *self._priced(provider, expected)
            )
        )
        if row[0] > 0:
            try:
                await asyncio.sleep(row[0])
            except asyncio.CancelledError:
                # Others have what was set aside for a call that is not made; if not now, never.
                with suppress(Exception):
                    async with asyncio.timeout(_GIVE_BACK_SECONDS):
                        await self.pay(provider, 0, expected)
                raise
        return expected

    async def pay(self, provider: str, tokens: int, expected: int = 0) -> None:
        """Count the tokens of a call that has ended, in place of those set aside for it."""
        if tokens:
            self._last[provider] = tokens
        scopes, prices = self._priced(provider, tokens - expected)
        if scopes:
            await self._database.patiently(lambda: self._database.fetchrow(_PAY, scopes, prices))

    def _priced(self, provider: str, tokens: int) -> tuple[list[str], list[float]]:
        """The limits of tokens that a call is under, and for how long each is paid by so many."""
        limits = {scope: each for scope, each in self._limits(provider).items() if each.tokens}
        if not tokens:
            return [], []
        return list(limits), [each.price_s(tokens) for each in limits.values()]
