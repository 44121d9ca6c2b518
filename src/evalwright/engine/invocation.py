"""One task: the agent is invoked once, what it did is recorded, its output is scored."""

import asyncio
from typing import Any

import msgspec

from evalwright.agents.protocol import Agent, AgentFailure, Invocation
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    EvalScored,
    InvocationCompleted,
    InvocationStarted,
    Outcome,
    Payload,
)
from evalwright.contracts.suite import Task
from evalwright.engine.clock import Clock
from evalwright.engine.recorder import Recorder
from evalwright.scoring.golden import score_golden
from evalwright.scoring.summary import task_cost

PASSING_GOLDEN_SCORE = 1.0
CLEANUP_SECONDS = 1.0  # that an agent has when it is told to stop


class Done(msgspec.Struct, frozen=True, gc=False):
    """What came of an invocation: the events that end it, and the score."""

    error: ErrorDetail | None
    closing: list[Payload]
    scored: EvalScored


def invocation_id(index: int, attempt: int) -> str:
    """The id of an attempt at the suite's task number `index`: the same in every run."""
    first = f"inv-{index + 1:04d}"
    return first if attempt == 1 else f"{first}.{attempt}"


def error_decision(agent_id: str, error: ErrorDetail) -> Decided:
    """The decision of an agent that gave none."""
    return Decided(agent_id, {"error": error})


async def invoke(
    agent: Agent,
    task: Task,
    attempt_id: str,
    recorder: Recorder,
    timeout_s: float | None,
    clock: Clock,
) -> Done:
    """Invoke the agent for one task; its failures are results, never exceptions."""
    fixtures = task.fixtures
    recorder.record(
        task.task_id,
        InvocationStarted(
            attempt_id,
            agent.agent_id,
            "run-api",
            agent.model_class,
            len({entry.tool for entry in fixtures.tool_responses}) if fixtures else None,
            bool(fixtures.memory_seed) if fixtures else None,
        ),
    )
    invocation = Invocation(
        run_id=recorder.run_id,
        invocation_id=attempt_id,
        agent_id=agent.agent_id,
        task=task,
        record=recorder.for_task(task.task_id),
        keep_pace=recorder.keep_pace,
    )
    started = clock.monotonic_s()
    ended = asyncio.get_running_loop().create_future()
    # A task of its own: what the agent cancels or hangs on is nobody else's matter.
    asked = asyncio.create_task(_ask(agent, invocation, ended))
    try:
        await _or_timeout(ended, timeout_s)
        in_time, taken_s = asked.done(), clock.monotonic_s() - started
    except asyncio.CancelledError:
        recorder.record(task.task_id, *invocation.usages)  # it was spent all the same
        raise
    finally:
        if not asked.done():
            await _abandon(asked)
        invocation.end()
    output, error = _answer(asked) if in_time else (None, None)
    if timeout_s is not None and (not in_time or taken_s > timeout_s):
        error = ErrorDetail("agent_timeout", f"no answer within {timeout_s:g} s")
    return _done(agent.agent_id, invocation, output, error, round(taken_s * 1000))


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
        _resolve(ended)


async def _or_timeout(ended: "asyncio.Future[None]", timeout_s: float | None) -> None:
    if timeout_s is None:
        await ended
        return
    timer = asyncio.get_running_loop().call_later(timeout_s, _resolve, ended)
    try:
        await ended
    finally:
        timer.cancel()


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


def _done(
    agent_id: str, invocation: Invocation, output: Any, error: ErrorDetail | None, latency_ms: int
) -> Done:
    task = invocation.task
    assert task.expected.match is not None
    score = 0.0 if error else score_golden(output, task.expected.match)
    decided = error_decision(agent_id, error) if error else Decided(agent_id, output)
    outcome: Outcome = "failed" if error else "completed"
    return Done(
        error=error,
        closing=[
            *invocation.usages,
            decided,
            InvocationCompleted(invocation.invocation_id, agent_id, outcome),
        ],
        scored=EvalScored(
            task.task_id,
            score,
            error is None and score >= PASSING_GOLDEN_SCORE,
            task_cost(invocation.usages),
            latency_ms,
        ),
    )
