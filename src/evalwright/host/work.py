"""What a run consists of while it is executed: an evaluation, or a workflow."""

import asyncio
from typing import Protocol

from evalwright.agents.protocol import Agent
from evalwright.contracts.events import RunCancelled, RunPaused
from evalwright.engine.execution import Execution


class Work(Protocol):
    """One run in execution; what it does is in its log."""

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
        agent: Agent,
        execution: Execution,
        may_go_on: asyncio.Event,
        *,
        was_interrupted: bool = False,
    ) -> None:
        self._agent = agent
        self._execution = execution
        self._may_go_on = may_go_on
        self._was_interrupted = was_interrupted

    async def run(self) -> None:
        """Work on every task that has no score."""
        if self._was_interrupted:
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
        """Let go of the agent."""
        await self._agent.close()
