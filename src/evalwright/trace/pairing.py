"""Which result answers which call: by call id, and in order where ids are absent or repeated."""

import msgspec

from evalwright.trace.model import Event, ToolCall, ToolResult, Trace


class Step(msgspec.Struct, frozen=True, gc=False):
    """A call with the result that answers it, or another event alone."""

    event: Event
    result: ToolResult | None = None


def pair_steps(trace: Trace) -> list[Step]:
    """The steps of a trace in their order; a result without a call is a step of its own."""
    answers = pair_results(trace)
    taken = {result.index for result in answers.values()}
    return [
        Step(event, answers.get(event.index) if isinstance(event, ToolCall) else None)
        for event in trace.events
        if not (isinstance(event, ToolResult) and event.index in taken)
    ]


def pair_results(trace: Trace) -> dict[int, ToolResult]:
    """The result of each call, by the call's index."""
    waiting: dict[str | None, list[ToolCall]] = {}
    answers: dict[int, ToolResult] = {}
    for event in trace.events:
        if isinstance(event, ToolCall):
            waiting.setdefault(event.call_id, []).append(event)
        elif isinstance(event, ToolResult):
            call = _take(waiting.get(event.call_id), event.tool)
            if call is not None:
                answers[call.index] = event
    return answers


def _take(calls: list[ToolCall] | None, tool: str | None) -> ToolCall | None:
    if not calls:
        return None
    for place, call in enumerate(calls):
        if tool is None or call.tool == tool:
            return calls.pop(place)
    return calls.pop(0)
