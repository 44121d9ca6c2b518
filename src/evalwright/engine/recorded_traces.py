"""Answers that others recorded, as the events of invocations: what rescoring begins with."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.engine.invocation import error_decision
from evalwright.trace.model import (
    GOOD_STATUSES,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    text_of,
)
from evalwright.trace.pairing import pair_results

RECORDED_AGENT = "local.recorded.agent"  # whoever it was
RETRIEVAL = "retrieval"  # the tool that looking something up counts as
_PROVIDER, _UNKNOWN = "recorded", "unknown"
_FARTHEST_MS = 2**53


def recorded_events(
    trace: Trace, invocation_id: str, agent_id: str, models: Sequence[str] = ()
) -> list[Payload]:
    """The events of an invocation in which the agent did what a trace says."""
    usage, output, failure = trace.usage, trace.output, trace.failure
    if failure is not None:
        error = ErrorDetail(failure.kind or "failed", failure.message or "the agent failed")
    elif output is None:
        error = ErrorDetail("no_answer", "no answer was recorded")
    else:
        error = None
    decided = error_decision(agent_id, error) if error else Decided(agent_id, _content(output))
    took = _whole(usage.duration_ms)
    unmeasured: list[Literal["latency", "tokens", "turns"]] = ["turns"]
    unmeasured += ["tokens"] if usage.input_tokens is usage.output_tokens is None else []
    unmeasured += ["latency"] if took is None else []
    return [
        InvocationStarted(invocation_id, agent_id, "run-api"),
        *_steps(trace, invocation_id, agent_id),
        ProviderUsage(
            _PROVIDER,
            models[0] if models else _UNKNOWN,
            _whole(usage.input_tokens) or 0,
            _whole(usage.output_tokens) or 0,
            cost_estimate_usd=usage.cost_usd if _is_cost(usage.cost_usd) else None,
        ),
        decided,
        InvocationCompleted(
            invocation_id,
            agent_id,
            "failed" if error else "completed",
            latency_ms=took or 0,
            unmeasured=unmeasured,
            coverage=trace.coverage,
        ),
    ]


def _content(output: Any) -> Any:
    return output.content


def _whole(number: float | None) -> int | None:
    return round(number) if number is not None and 0 <= number < _FARTHEST_MS else None


def _is_cost(cost: float | None) -> bool:
    return cost is not None and cost >= 0


def _steps(trace: Trace, invocation_id: str, agent_id: str) -> Iterator[Payload]:
    """Calls, results and thoughts, in order; what was retrieved is the result of a call, too."""
    names: dict[int, tuple[str, str]] = {}  # of results, by their place: the call and its tool
    answers = pair_results(trace)
    for number, event in enumerate(trace.events, 1):
        call_id = f"{invocation_id}:c{number}"
        match event:
            case ToolCall():
                tool = event.tool or _UNKNOWN
                if (answer := answers.get(event.index)) is not None:
                    names[answer.index] = call_id, tool
                yield ToolCalled(agent_id, tool, call_id, event.args)
            case ToolResult():
                call_id, tool = names.get(event.index, (call_id, event.tool or _UNKNOWN))
                yield _returned(event, agent_id, tool, call_id)
            case Retrieval():
                found = list(event.doc_ids) if event.content is None else event.content
                yield ToolCalled(agent_id, RETRIEVAL, call_id, {"query": event.query})
                yield ToolReturned(agent_id, RETRIEVAL, call_id, found, status="ok")
            case Message(role="assistant") if text := text_of(event.content):
                yield Reasoned(agent_id, text)


def _returned(result: ToolResult, agent_id: str, tool: str, call_id: str) -> ToolReturned:
    took = _whole(result.latency_ms)
    duration = msgspec.UNSET if took is None else took
    if is_good(result):
        return ToolReturned(
            agent_id, tool, call_id, result.payload, status="ok", duration_ms=duration
        )
    message = result.error or text_of(result.payload) or result.status or "the tool failed"
    code = "tool_timeout" if "timeout" in result.status.casefold() else "tool_error"
    error = ErrorDetail(code, message)
    return ToolReturned(
        agent_id, tool, call_id, result.payload, error, status="error", duration_ms=duration
    )


def is_good(result: ToolResult) -> bool:
    """Whether a tool answered as it should."""
    return result.status.casefold() in GOOD_STATUSES and not result.error
