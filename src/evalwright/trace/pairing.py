"""Which result answers which call: by call id, and in order where ids are absent or repeated."""

from collections import deque

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
    waiting = _WaitingCalls()
    answers: dict[int, ToolResult] = {}
    for event in trace.events:
        if isinstance(event, ToolCall):
            waiting.add(event)
        elif isinstance(event, ToolResult):
            call = waiting.take(event)
            if call is not None:
                answers[call.index] = event
    return answers


class _WaitingCalls:
    """Calls without a result so far, in order; every look-up takes constant time on average."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str | None, str | None], deque[ToolCall]] = {}
        self._taken: set[int] = set()

    def add(self, call: ToolCall) -> None:
        for tool in (call.tool, None):  # None is the queue of all tools
            self._queues.setdefault((call.call_id, tool), deque()).append(call)

    def take(self, result: ToolResult) -> ToolCall | None:
        """The first call with this id, rather one of this tool; without an id only such a one."""
        found = None if result.tool is None else self._next(result.call_id, result.tool)
        if found is None and result.tool is not None and result.call_id is None:
            return self._next(None, "")
        return found or self._next(result.call_id, None)

    def _next(self, call_id: str | None, tool: str | None) -> ToolCall | None:
        queue = self._queues.get((call_id, tool))
        while queue:
            call = queue.popleft()
            if call.index not in self._taken:
                self._taken.add(call.index)
                return call
        return None
