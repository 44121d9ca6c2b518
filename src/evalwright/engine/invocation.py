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
    )
    started = clock.monotonic_s()
    output, error = await _answer(agent, invocation, timeout_s)
    invocation.end()
    latency_ms = round((clock.monotonic_s() - started) * 1000)
    return _done(agent.agent_id, invocation, output, error, latency_ms)


async def _answer(
    agent: Agent, invocation: Invocation, timeout_s: float | None
) -> tuple[Any, ErrorDetail | None]:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            output = await agent.invoke(invocation)
    except TimeoutError:
        return None, _timed_out(timeout_s)
    except AgentFailure as failure:
        return None, failure.error
    if limit.expired():
        return None, _timed_out(timeout_s)
    return output, None


def _timed_out(timeout_s: float | None) -> ErrorDetail:
    return ErrorDetail("agent_timeout", f"no answer within {timeout_s:g} s")


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
