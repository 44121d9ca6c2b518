"""What a run consists of while it is executed: an evaluation, or a workflow."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.events import RunCancelled, RunPaused
from evalwright.engine.clock import Clock
from evalwright.engine.execution import Execution, Means
from evalwright.engine.history import History
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange


class Work(Protocol):
    """One run in execution; what it does is in its log."""

    @property
    def is_paused(self) -> bool:
        """Whether nothing new is begun."""

    async def run(self) -> None:
        """Work to the end of the run; raises `RunFailed` where its log says so as well."""

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:
        """Stop at the next place; False where that is later, and the work records it there."""

    def resume(self) -> None:
        """Go on after a pause."""

    async def cancel(self, ending: RunCancelled) -> None:
        """Record the end of a run that is given up; `run` has been left before."""

    async def close(self) -> None:
        """Let go of connections and the like."""


class Evaluation:
    """The work on a suite: a pause lets the tasks end that are under way and begins no other."""

    def __init__(
        self,
        log: EventLog,
        agent: Agent,
        history: History,
        clock: Clock,
        means: Means,
    ) -> None:
        self._agent = agent
        self._toolbox = means.surroundings.toolbox
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()
        means = msgspec.structs.replace(means, may_go_on=self._may_go_on)
        self._execution = Execution(log, agent, history, clock, means)
        self._is_new = False

    async def open(self, facts: Sequence[NewEvent], changes: Sequence[RecordChange]) -> None:
        """Write what the run begins with, and wait until it is durable."""
        self._is_new = True
        self._execution.open(None, facts, changes)
        await self._execution.settle()

    @property
    def is_paused(self) -> bool:
        """Whether no new task is begun."""
        return not self._may_go_on.is_set()

    async def run(self) -> None:
        """Work on every task that has no score."""
        if not self._is_new:
            self._execution.close_interrupted()
        await self._execution.run()

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:  # noqa: ARG002
        """Begin no new task."""
        self._may_go_on.clear()
        return True

    def resume(self) -> None:
        """Begin tasks again."""
        self._may_go_on.set()

    async def cancel(self, ending: RunCancelled) -> None:
        """End the invocations that are open, and the run."""
        await self._execution.cancel(ending.reason, ending.cancelled_by)

    async def close(self) -> None:
        """Let go of the agent and its tools."""
        await self._agent.close()
        await self._toolbox.close()
