"""The fixture workflows: one node each, which waits, does nothing, or fails.

Their runs are like any other: recorded, cancelled, paused, and resumed after a crash.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.events import (
    CapBreached,
    Count,
    ErrorDetail,
    Event,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailure,
    RunPaused,
    RunStarted,
)
from evalwright.contracts.run_plan import RunSettings, from_configurable
from evalwright.engine.clock import Clock
from evalwright.engine.plan import limited
from evalwright.engine.recorder import Recorder

NOOP = "conformance-noop"


class NodeStarted(Payload, frozen=True):
    """A node started."""

    TYPE: ClassVar[str] = "node.started"
    node_id: str
    type_id: str
    attempt: Count = 0


class NodeCompleted(Payload, frozen=True):
    """A node completed."""

    TYPE: ClassVar[str] = "node.completed"
    node_id: str


class NodeFailed(Payload, frozen=True):
    """A node failed."""

    TYPE: ClassVar[str] = "node.failed"
    node_id: str
    error: ErrorDetail


class Delay(NamedTuple):
    """How long a node waits without `inputs.delayMs`, and at most, in milliseconds."""

    default_ms: int
    most_ms: int


class FixtureWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with one node."""

    workflow_id: str
    name: str
    node_id: str
    type_id: str
    delay: Delay | None = None
    failure: ErrorDetail | None = None

    def problem(self, inputs: dict[str, Any]) -> Problem | None:
        """Why a run cannot be started with these inputs, if it cannot."""
        given = inputs.get("delayMs", 0)
        if self.delay is None or (type(given) is int and 0 <= given <= self.delay.most_ms):
            return None
        message = f"must be a whole number of milliseconds from 0 to {self.delay.most_ms}"
        return Problem("$.inputs.delayMs", message)

    def used(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The delay; whatever else a caller sends is not repeated in events."""
        known = ("delayMs",) if self.delay else ()
        return {name: inputs[name] for name in known if name in inputs}

    def delay_s(self, inputs: dict[str, Any]) -> float:
        """How long the node waits."""
        if self.delay is None:
            return 0
        given: int = inputs.get("delayMs", self.delay.default_ms)
        return given / 1000

    def executor(
        self, recorder: Recorder, clock: Clock, events: Iterable[Event], limits: RunSettings
    ) -> "WorkflowExecutor":
        """The executor of a run with these recorded events."""
        first, *others = events
        started = first.decode(RunStarted)
        of_node = (NodeStarted.TYPE, NodeCompleted.TYPE, NodeFailed.TYPE)
        types = [event.type for event in others if event.type in of_node]
        progress = NodeProgress(
            self,
            started.inputs or {},
            first.at_us,
            limited(from_configurable(started.configurable or {}), limits).run_timeout_s or 0,
            types.count(NodeStarted.TYPE),
            types[-1:] in ([NodeCompleted.TYPE], [NodeFailed.TYPE]),
        )
        return WorkflowExecutor(recorder, clock, progress)


WORKFLOWS = {
    workflow.workflow_id: workflow
    for workflow in (
        FixtureWorkflow(
            workflow_id=NOOP,
            name="Does nothing",
            node_id="noop",
            type_id="core.noop",
        ),
        FixtureWorkflow(
            workflow_id="conformance-delay",
            name="Waits for inputs.delayMs",
            node_id="delay",
            type_id="core.delay",
            delay=Delay(1_000, 30_000),
        ),
        FixtureWorkflow(
            workflow_id="conformance-cancellable",
            name="Waits long enough to be cancelled",
            node_id="delay",
            type_id="core.delay",
            delay=Delay(30_000, 60_000),
        ),
        FixtureWorkflow(
            workflow_id="conformance-failure",
            name="Fails",
            node_id="fail",
            type_id="core.fail",
            failure=ErrorDetail("conformance_failure", "this workflow always fails"),
        ),
        FixtureWorkflow(
            workflow_id="conformance-idempotent",
            name="Does nothing, whatever inputs.nonce is",
            node_id="noop",
            type_id="core.noop",
        ),
    )
}


class NodeProgress(NamedTuple):
    """How far a run of a workflow has got."""

    workflow: FixtureWorkflow
    inputs: dict[str, Any]
    started_at_us: int
    limit_s: float  # for the whole run
    attempts: int  # at its node
    is_node_done: bool


class WorkflowExecutor:
    """Executes a workflow.

    A pause lets the node end first; an immediate one interrupts it, and it is started again.
    """

    def __init__(self, recorder: Recorder, clock: Clock, progress: NodeProgress) -> None:
        self._recorder = recorder
        self._clock = clock
        self._workflow, self._inputs, self._started_at_us, self._limit_s = progress[:4]
        self._attempts = progress.attempts
        self._is_node_done = progress.is_node_done
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()
        self._broken_off = asyncio.Event()
        self._pausing: RunPaused | None = None  # when the node has ended
        self._is_over = False

    async def run(self) -> None:
        """Execute the node, as often as it takes, and end the run."""
        failure = self._workflow.failure
        try:
            async with asyncio.timeout(self._limit_s - self._taken_ms() / 1000) as limit:
                await self._execute_node()
        except TimeoutError:
            if not limit.expired():
                raise
            limit_ms, message = (
                self._limit_s * 1000,
                f"the run took longer than {self._limit_s:g} s",
            )
            observed = max(limit_ms, self._taken_ms())  # the clock of the day may be set back
            self._recorder.record(None, CapBreached("run-duration", limit_ms, observed))
            failure = ErrorDetail("run_timeout", message)
        taken_ms = self._taken_ms()
        ending = RunFailure(failure, taken_ms) if failure else RunCompleted({}, taken_ms)
        self._recorder.record(None, ending)
        self._is_over = True
        await self._recorder.flush()

    async def _execute_node(self) -> None:
        while not self._is_node_done:
            await self._may_go_on.wait()
            self._record_node(self._start())
            if await self._wait():
                await self._end_node()
        await self._may_go_on.wait()

    def _start(self) -> NodeStarted:
        attempt, self._attempts = self._attempts, self._attempts + 1
        return NodeStarted(self._workflow.node_id, self._workflow.type_id, attempt)

    async def _wait(self) -> bool:
        """Whether the node ended without interruption."""
        try:
            async with asyncio.timeout(self._workflow.delay_s(self._inputs)):
                await self._broken_off.wait()
        except TimeoutError:
            return True
        return False

    async def _end_node(self) -> None:
        self._is_node_done = True
        node_id, failure = self._workflow.node_id, self._workflow.failure
        self._record_node(NodeFailed(node_id, failure) if failure else NodeCompleted(node_id))
        if self._pausing is not None:
            self._may_go_on.clear()
            self._recorder.record(None, self._pausing)
            await self._recorder.flush()
            self._pausing = None

    @property
    def is_paused(self) -> bool:
        """Whether the run is paused, and its log says so."""
        return not self._may_go_on.is_set() and self._pausing is None

    def pause(self, paused: RunPaused, *, immediately: bool) -> bool:
        """Interrupt the node, or stop when it has ended."""
        if not immediately:
            self._pausing = paused
            return False
        self._may_go_on.clear()
        self._broken_off.set()
        return True

    def resume(self) -> None:
        """Start the node again, or continue after it."""
        self._broken_off.clear()
        self._may_go_on.set()

    def drain(self) -> bool:
        """A node that waits is started again."""
        return False

    async def cancel(self, ending: RunCancelled) -> None:
        """End the run, unless it has ended already."""
        if not self._is_over:
            ending = RunCancelled(ending.reason, ending.cancelled_by, self._taken_ms())
            self._recorder.record(None, ending)
        await self._recorder.flush()

    async def close(self) -> None:
        """Nothing to release."""

    def _record_node(self, payload: Payload) -> None:
        self._recorder.record(self._workflow.node_id, payload)

    def _taken_ms(self) -> int:
        return max(0, self._clock.now_us() - self._started_at_us) // 1000
