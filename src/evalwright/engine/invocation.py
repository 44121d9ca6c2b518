"""One task: the agent is invoked once, and what it did is recorded."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from evalwright.agents.protocol import Agent, AgentFailure, Invocation, Surroundings
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
)
from evalwright.contracts.planning import AgentFacts
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock
from evalwright.engine.recorder import Recorder

TURN_S = 0.001  # of work on answers, after which agents in the event loop have their turn
CLEANUP_SECONDS = 1.0  # that an agent has to stop when it is cancelled


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What an agent gave for a task: an output, or an error in its place."""

    task: Task
    output: Any
    error: ErrorDetail | None
    latency_ms: int | None  # None: it was recorded by others, who did not say
    usages: list[ProviderUsage]  # of the agent, and of the judges later on
    schema_valid: bool | None = None
    own_calls: int = 0  # how many of the usages are the agent's
    deeds: Sequence[Payload] = ()  # from the start of the invocation to its end, where needed
    unmeasured: Sequence[str] = ()  # what others who recorded it did not say


class Repetition(msgspec.Struct, frozen=True, gc=False):
    """What one invocation for a repeated task came to."""

    score: float
    passed: bool
    latency_ms: int | None
    usages: Sequence[ProviderUsage]
    schema_valid: bool | None = None


class Done(msgspec.Struct, frozen=True, gc=False):
    """What came of an invocation: the answer, and the events that end it."""

    answer: Answer
    closing: list[Payload]


def invocation_id(index: int, attempt: int, repetition: int = 1) -> str:
    """The id of an attempt at the suite's task number `index`: the same in every run."""
    first = f"inv-{index + 1:04d}" if repetition == 1 else f"inv-{index + 1:04d}-r{repetition}"
    return first if attempt == 1 else f"{first}.{attempt}"


def repetition_of(attempt_id: str) -> int:
    """The number of the repetition that an invocation is of, by its id."""
    return int(attempt_id.partition("-r")[2].partition(".")[0] or 1)


def error_decision(agent_id: str, error: ErrorDetail) -> Decided:
    """The decision of an agent that gave none."""
    return Decided(agent_id, {"error": error})


class Invoker:
    """Invokes one agent for the tasks of one run."""

    def __init__(
        self,
        agent: Agent,
        facts: AgentFacts,
        recorder: Recorder,
        clock: Clock,
        surroundings: Surroundings,
        timeout_s: float | None,
        *,
        keep_deeds: bool,
        count: Callable[[ProviderUsage, str], None] = lambda _usage, _task_id: None,
        has_budget: bool = False,
    ) -> None:
        self._agent = agent
        # Agents in the event loop wait while it works; so it never does all of its work at once.
        self._turns = None if getattr(agent, "runs_apart", False) else asyncio.Lock()
        self._turn_ends_s = 0.0
        self._facts = facts
        self._recorder = recorder
        self._clock = clock
        self._surroundings = surroundings
        self._timeout_s = timeout_s
        self._keep_deeds = keep_deeds
        self._count = count
        # What a process that is killed did not see the end of counts towards the budget.
        self._record_start = recorder.note if has_budget else recorder.record

    async def invoke(self, task: Task, attempt_id: str) -> Done:
        """Invoke the agent for one task; its failures are results, never exceptions."""
        recorder, agent_id = self._recorder, self._agent.agent_id
        deeds: list[Payload] = []
        record = recorder.for_task(task.task_id, lambda usage: self._count(usage, task.task_id))

        def record_and_keep(payload: Payload) -> None:
            deeds.append(payload)
            record(payload)

        invocation = Invocation(
            run_id=recorder.run_id,
            invocation_id=attempt_id,
            agent_id=agent_id,
            task=task,
            record=record_and_keep if self._keep_deeds else record,
            keep_pace=recorder.keep_pace,
            surroundings=self._surroundings,
            now_s=self._clock.monotonic_s,
        )
        invocation.allowed_tools = self._agent.allowed_tools
        self._record_start(task.task_id, self._started(invocation))
        output, error, latency_ms = await self._ask(invocation)
        if self._turns is not None and self._clock.monotonic_s() >= self._turn_ends_s:
            async with self._turns:
                await asyncio.sleep(0)
            self._turn_ends_s = self._clock.monotonic_s() + TURN_S
        usages = list(invocation.usages)
        answer = Answer(
            task, output, error, latency_ms, usages, invocation.schema_valid, len(usages), deeds
        )
        decided = error_decision(agent_id, error) if error else Decided(agent_id, output)
        completed = InvocationCompleted(
            attempt_id,
            agent_id,
            "failed" if error else "refused" if invocation.refused else "completed",
            invocation.schema_valid,
            latency_ms=latency_ms,
        )
        if self._keep_deeds:
            deeds += (decided, completed)
        return Done(answer, [decided, completed])

    def _started(self, invocation: Invocation) -> InvocationStarted:
        fixtures, live = invocation.task.fixtures, self._surroundings.live
        allowed = self._agent.allowed_tools
        surface: int | None = None  # how many tools the agent knows of, where that is known
        if allowed is not None and not live:
            surface = len(allowed)
        elif fixtures or live:
            surface = len(invocation.tool_names())
        return InvocationStarted(
            invocation.invocation_id,
            self._agent.agent_id,
            "run-api",
            self._agent.model_class,
            self._facts.version,
            self._facts.channel,
            surface,
            bool(fixtures.memory_seed) if fixtures and not live else None,
        )

    async def _ask(self, invocation: Invocation) -> tuple[Any, ErrorDetail | None, int]:
        """The output or the error, and how many milliseconds the agent took."""
        timeout_s, loop = self._timeout_s, asyncio.get_running_loop()
        started = loop.time()
        ended: asyncio.Future[None] = loop.create_future()
        # Its own task: what the agent cancels or hangs on must not affect the others.
        asked = asyncio.create_task(_ask(self._agent, invocation, ended))
        timer = None if timeout_s is None else loop.call_later(timeout_s, _resolve, ended)
        try:
            await ended
            in_time, taken_s = asked.done(), loop.time() - started
        finally:
            if timer is not None:
                timer.cancel()
            if not asked.done():
                await _abandon(asked)
            invocation.end()
        if in_time and invocation.took_s is not None:  # without what the loop did meanwhile
            taken_s = invocation.took_s
        output, error = _answer(asked) if in_time else (None, None)
        if timeout_s is not None and (not in_time or taken_s > timeout_s):
            error = ErrorDetail("agent_timeout", f"no answer within {timeout_s:g} s")
        return (None if error else output), error, round(taken_s * 1000)


def _answer(asked: "asyncio.Task[Any]") -> tuple[Any, ErrorDetail | None]:
    if asked.cancelled():
        return None, ErrorDetail("agent_error", "the agent cancelled itself")
    error = asked.exception()
    if error is None:
        return asked.result(), None
    if isinstance(error, AgentFailure):
        return None, error.error
    if isinstance(error, GeneratorExit):  # the one exception that a coroutine cannot pass on
        return None, ErrorDetail("agent_error", "GeneratorExit")
    raise error


async def _ask(agent: Agent, invocation: Invocation, ended: "asyncio.Future[None]") -> Any:
    """Invoke the agent, and say so when it has ended: sooner than a callback of the task would."""
    try:
        return await agent.invoke(invocation)
    finally:
        if not ended.done():
            ended.set_result(None)


async def _abandon(asked: "asyncio.Task[Any]") -> None:
    """Tell a task to stop, and wait for it a little; it may not want to."""
    asked.add_done_callback(_look_at_result)
    asked.cancel()
    await asyncio.wait((asked,), timeout=CLEANUP_SECONDS)


def _look_at_result(asked: "asyncio.Task[Any]") -> None:
    if not asked.cancelled():
        asked.exception()  # so that asyncio does not complain that nobody looked


def _resolve(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)
