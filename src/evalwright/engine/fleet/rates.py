"""Requests and tokens per minute of providers and tenants, across all workers."""

import asyncio
from collections.abc import Mapping

from evalwright.engine.fleet.database import FleetDatabase
from evalwright.models.rations import MinuteLimits

_ENTER = "SELECT fleet_enter($1, $2)"
_PAY = "SELECT fleet_pay($1, $2)"


class FleetRations:
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

    def _limits(self, provider: str) -> dict[str, MinuteLimits]:
        """The limits that a call is under, by where they are counted."""
        limits = {
            f"provider:{provider}": self._of_providers.get(provider, MinuteLimits()),
            f"tenant:{self._tenant}": self._of_tenant,
        }
        return {scope: each for scope, each in limits.items() if any(each)}

    async def enter(self, provider: str) -> None:
        """Wait until a call of a provider may begin, whoever else calls it."""
        if not (limits := self._limits(provider)):
            return
        gaps = [each.request_gap_s for each in limits.values()]
        row = await self._database.patiently(
            lambda: self._database.fetchrow(_ENTER, list(limits), gaps)
        )
        if row[0] > 0:
            await asyncio.sleep(row[0])

    async def pay(self, provider: str, tokens: int) -> None:
        """Count the tokens of a call that has ended."""
        limits = {scope: each for scope, each in self._limits(provider).items() if each.tokens}
        if limits and tokens:
            prices = [each.price_s(tokens) for each in limits.values()]
            await self._database.patiently(
                lambda: self._database.fetchrow(_PAY, list(limits), prices)
            )
