"""Which result answers which call: by call id, and in order where ids are absent or repeated."""

from collections import deque
from collections.abc import Mapping

import msgspec

from evalwright.trace.cached import kept
from evalwright.trace.model import Event, ToolCall, ToolResult, Trace


class Step(msgspec.Struct, frozen=True, gc=False):
    """A call with the result that answers it, or another event alone."""

    event: Event
    result: ToolResult | None = None


def pair_steps(trace: Trace) -> list[Step]:
    """The steps of a trace in their order; a result without a call is a separate step."""
    answers = pair_results(trace)
    events = [event for event in trace.events if type(event) is not ToolResult]
    if len(answers) < len(trace.results):
        taken = {result.index for result in answers.values()}
        events = [event for event in trace.events if event.index not in taken]
    return [
        Step(event, answers.get(event.index) if type(event) is ToolCall else None)
        for event in events
    ]


@kept  # integrity, signals and pages all ask for it
def pair_results(trace: Trace) -> Mapping[int, ToolResult]:
    """The result of each call, by the call's index."""
    by_id = _pair_by_id(trace)
    return _pair_in_order(trace) if by_id is None else by_id


def are_paired_by_id(trace: Trace) -> bool:
    """Whether every call has a unique id and exactly one result with it, as is usual."""
    by_id = _pair_by_id(trace)
    return by_id is not None and len(by_id) == len(trace.calls) == len(trace.results)


@kept
def _pair_by_id(trace: Trace) -> Mapping[int, ToolResult] | None:
    """The usual case: every call and every result has a unique id."""
    calls: dict[str, int] = {}
    answers: dict[int, ToolResult] = {}
    for call in trace.calls:
        if call.call_id is None or call.call_id in calls:
            return None
        calls[call.call_id] = call.index
    for result in trace.results:
        place = calls.get(result.call_id or "")
        if result.call_id is None or place in answers:
            return None
        if place is not None:
            if result.index < place:  # it precedes its call, so order matters
                return None
            answers[place] = result
    return answers


def _pair_in_order(trace: Trace) -> Mapping[int, ToolResult]:
    waiting = _WaitingCalls()
    answers: dict[int, ToolResult] = {}
    for event in trace.events:
        if isinstance(event, ToolCall):
            waiting.add(event)
        elif isinstance(event, ToolResult):
            call = waiting.pop_call(event)
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

    def pop_call(self, result: ToolResult) -> ToolCall | None:
        """The first call with this id, preferably of this tool; without an id only of this tool."""
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
