"""What a worker needs for the tasks of a run: its agent, models, tools and judges.

Every worker loads them from the same reference as the run names. What runs of the same agent and
settings have in common is loaded once for all of them.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import Plan
from evalwright.engine.resume import options_of
from evalwright.engine.session import Session, unheard
from evalwright.engine.task_work import RunResources
from evalwright.models.config import Config
from evalwright.models.protocol import RateLimiter

# The settings that decide what is loaded; runs that differ in others share it.
_EQUIPPING = (
    "tools",
    "read_only",
    "gateway",
    "isolate",
    "otlp",
    "cassette",
    "embedding_model",
    "user_model",
    "model_timeout_s",
)


class Equipment(NamedTuple):
    """An agent and what it works with; `close` lets go of it."""

    agent: Agent
    resources: RunResources
    close: Callable[[], Any]  # awaited


class Equipper(Protocol):
    """Loads the equipment of runs; raises `EvalwrightError` where it cannot."""

    async def equip(self, tenant: str, plan: Plan) -> Equipment:
        """What the tasks of a run of this plan need."""


class ReferenceEquipper:
    """Loads agents by their references."""

    def __init__(
        self,
        config: Config,
        notify: Callable[[Text], None] = unheard,
        rate_limits: Callable[[str], RateLimiter | None] = lambda _tenant: None,
    ) -> None:
        self._config = config
        self._notify = notify
        self._rate_limits = rate_limits

    async def equip(self, tenant: str, plan: Plan) -> Equipment:
        """What the tasks of a run of this plan need."""
        facts, rate_limits = plan.agent, self._rate_limits(tenant)

        def make() -> Session:
            return Session(
                facts.ref,
                options_of(plan, RunOptions()),
                config=self._config,
                notify=self._notify,
                rate_limits=rate_limits,
            )

        session = await asyncio.to_thread(make)
        session.agent.agent_id, session.agent.model_class = facts.agent_id, facts.model_class
        try:
            resources = await session.begin(plan)
        except BaseException:
            await session.close()
            raise
        return Equipment(session.agent, resources, session.close)


def lane_of(tenant: str, plan: Plan) -> str:
    """Where the tasks of a run queue: one lane for all that need the same equipment."""
    used = [getattr(plan.settings, name) for name in _EQUIPPING]
    facts = [plan.agent, used, plan.panel, plan.source, plan.is_live, plan.origin is None]
    digest = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]
    return f"{tenant}|{digest}"


def refuse_unfit(plan: Plan) -> None:
    """Refuse runs that workers cannot share; raises `BadInput`."""
    if plan.settings.record:
        raise BadInput(
            phrase(
                "{@workers}: a cassette is recorded by one process; record it without {@workers}"
            )
        )
    if plan.is_recorded:
        message = "{@workers}: recorded answers are scored in this process; leave it out"
        raise BadInput(phrase(message))
