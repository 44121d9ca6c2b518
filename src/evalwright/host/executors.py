"""What executes a run: the protocol, and the executor of evaluations."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Protocol

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.events import RunCancelled, RunPaused
from evalwright.engine.clock import Clock
from evalwright.engine.history import History
from evalwright.engine.runner import Runner
from evalwright.engine.task_work import RunResources
from evalwright.host.access.limits import FairSchedule
from evalwright.host.runs.handle import RunHandle
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

SLICE_SECONDS = 0.0005  # that a run has the event loop for itself, if its tasks take no time


class RunExecutor(Protocol):
    """Executes one run; everything it does is recorded in the run's log."""

    @property
    def is_paused(self) -> bool:
        """Whether the run is paused."""

    async def run(self) -> None:
        """Execute the run to its end; raises `RunFailed` if the log ends with that."""

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:
        """Pause; False if that takes effect later, and the executor will record it then."""

    def resume(self) -> None:
        """Continue after a pause."""

    def drain(self) -> bool:
        """Start nothing more; `run` raises `Interrupted` when what is in progress has ended.

        False if there is nothing worth waiting for: then `run` is to be cancelled.
        """

    async def cancel(self, ending: RunCancelled) -> None:
        """Record the end of a cancelled run; called after `run` was cancelled."""

    async def close(self) -> None:
        """Release connections and the like."""


class RunningRun:
    """A run that is being executed here; it counts as running until it ends."""

    def __init__(self, run: RunHandle, executor: RunExecutor, counted: ExitStack) -> None:
        self.run = run
        self.executor = executor
        self.counted = counted
        self.task: asyncio.Task[None] | None = None
        self.cancelled: RunCancelled | None = None  # how it is to end


class Pace:
    """When a run may begin its next task: not while it is paused, and when it is its turn.

    Within a slice of time it takes no other turn: tasks that take no time would wait in vain.
    """

    def __init__(self, schedule: FairSchedule, tenant: str) -> None:
        self._schedule = schedule
        self._share = schedule.new_share(tenant)
        self._slice_ends = 0.0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def wait(self) -> None:
        """Wait until a task may begin."""
        if not self.may_go_on.is_set():
            await self.may_go_on.wait()
        if time.perf_counter() >= self._slice_ends:
            await self._schedule.wait(self._share)
            self._slice_ends = time.perf_counter() + SLICE_SECONDS


class EvaluationExecutor:
    """Executes an evaluation: a pause lets running tasks end and starts no others."""

    def __init__(
        self,
        log: EventLog,
        agent: Agent,
        history: History,
        clock: Clock,
        resources: RunResources,
        pace: Pace,
    ) -> None:
        self._agent = agent
        self._toolbox = resources.surroundings.toolbox
        self._may_go_on = pace.may_go_on
        resources = msgspec.structs.replace(resources, may_go_on=pace)
        self._execution = Runner(log, agent, history, clock, resources)
        self._is_new = False

    async def open(self, facts: Sequence[NewEvent], changes: Sequence[RecordChange]) -> None:
        """Write the first events of the run, and wait until they are durable."""
        self._is_new = True
        await self._execution.create(facts, changes)

    @property
    def is_paused(self) -> bool:
        """Whether no new task is started."""
        return not self._may_go_on.is_set()

    async def run(self) -> None:
        """Execute every task that has no score."""
        if not self._is_new:
            self._execution.close_interrupted()
        await self._execution.run()

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:  # noqa: ARG002
        """Start no new task."""
        self._may_go_on.clear()
        return True

    def resume(self) -> None:
        """Start tasks again."""
        self._may_go_on.set()

    def drain(self) -> bool:
        """Let running tasks end; they are paid for."""
        self._execution.drain()
        self._may_go_on.set()  # workers that wait for the end of a pause are to end too
        return True

    async def cancel(self, ending: RunCancelled) -> None:
        """End the open invocations, and the run."""
        await self._execution.cancel(ending.reason, ending.cancelled_by)

    async def close(self) -> None:
        """Release the agent and its tools, the tools too if the agent fails to close."""
        async with AsyncExitStack() as rest:
            rest.push_async_callback(self._toolbox.close)
            rest.push_async_callback(self._agent.close)
