"""Runs that workers execute: what a host asks of them, and how workers are equipped for them."""

import asyncio
from contextlib import AsyncExitStack

from evalwright.contracts.errors import EvalwrightError
from evalwright.engine.clock import SystemClock
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.equipment import Equipment
from evalwright.engine.fleet.rates import FleetRateLimits
from evalwright.engine.fleet.status import fleet_metrics, waiting_for
from evalwright.engine.plan import Plan
from evalwright.engine.session import ModelPool
from evalwright.host.access.egress import Egress, EgressPolicy
from evalwright.host.http.settings import host_settings
from evalwright.host.library.catalogue import Catalogue
from evalwright.host.runs.executor import ExecutorMaker
from evalwright.host.runs.planning import Planner
from evalwright.models.config import Config
from evalwright.models.rate_limits import MinuteLimits, provider_limits
from evalwright.store.protocol import EventLog

# Tenants that have a number of their own, and under no name the number of all others.
_DECLARE = """
INSERT INTO fleet_owners (owner, most)
SELECT owner, most FROM unnest($1::text[], $2::integer[]) AS u(owner, most)
ON CONFLICT (owner) DO UPDATE SET most = EXCLUDED.most
"""

ASK_SECONDS = 2.0  # that a request waits for what the fleet says


class HostFleet:
    """The fleet of a log in PostgreSQL, as a host sees it."""

    def __init__(self, log: EventLog) -> None:
        self.database = FleetDatabase(log.address, log)

    async def waiting_for(self, run_id: str) -> str | None:
        """What a run waits for, if the fleet has it and nobody works on it."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await waiting_for(self.database, run_id)
        except Exception:  # noqa: BLE001 - the rest of the answer stands without it
            return None

    async def metrics(self) -> bytes:
        """The metrics of the fleet; none of them identifies a tenant."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await fleet_metrics(self.database, with_tenants=False)
        except Exception:  # noqa: BLE001 - those of the host stand without it
            return b""


class FleetLimits:
    """The limits of the settings, which hold across workers."""

    def __init__(self, database: FleetDatabase, config: Config) -> None:
        self._database = database
        self._settings = host_settings(config).fleet
        self._of_providers = provider_limits(config)

    def __call__(self, tenant: str) -> FleetRateLimits:
        """The limits of a tenant."""
        share = self._settings.share_of(tenant)
        limits = MinuteLimits(share.requests_per_minute, share.tokens_per_minute)
        return FleetRateLimits(self._database, tenant, limits, self._of_providers)

    async def declare(self) -> None:
        """Let all workers know how many tasks of tenants may be at work at once."""
        settings = self._settings
        shares = {"": settings.tasks, **{name: t.tasks for name, t in settings.tenants.items()}}
        await self._database.patiently(
            lambda: self._database.fetch(_DECLARE, list(shares), list(shares.values()))
        )


class HostEquipper:
    """Equips workers for runs of hosts: with the agents, models and tools of the same settings."""

    def __init__(self, log: EventLog, config: Config, rate_limits: FleetLimits) -> None:
        self._log = log
        self._config = config
        self._rate_limits = rate_limits
        self._settings = host_settings(config)
        self._egress = Egress(EgressPolicy.of(self._settings.egress))
        self._by_tenant: dict[str, tuple[Planner, ExecutorMaker]] = {}

    def _of_tenant(self, tenant: str) -> tuple[Planner, ExecutorMaker]:
        """Models count for a tenant, so every tenant has its own."""
        found = self._by_tenant.get(tenant)
        if found is None:
            settings = self._settings
            models = ModelPool(self._config, rate_limits=self._rate_limits(tenant))
            catalogue = Catalogue(self._log.records, settings, models.load, self._egress)
            planner = Planner(settings, catalogue, models.redactor)
            maker = ExecutorMaker(
                planner, models, models.redactor, SystemClock(), settings.tools, {}
            )
            found = self._by_tenant[tenant] = planner, maker
        return found

    async def equip(self, tenant: str, plan: Plan) -> Equipment:
        """What the tasks of a run of this plan need."""
        planner, maker = self._of_tenant(tenant)
        agent = await asyncio.to_thread(planner.agent_of, tenant, plan)
        try:
            resources = await maker.resources(plan)
        except EvalwrightError:
            await agent.close()
            raise
        toolbox = resources.surroundings.toolbox

        async def close() -> None:
            async with AsyncExitStack() as rest:
                rest.push_async_callback(toolbox.close)
                rest.push_async_callback(agent.close)

        return Equipment(agent, resources, close)
