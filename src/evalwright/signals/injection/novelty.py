"""What is new against a baseline: it counts only where the baseline looked at the same place."""

from collections.abc import Sequence

from evalwright.signals.injection.instructions import Instruction
from evalwright.signals.trace_facts import values_given
from evalwright.signals.trace_view import TraceView, UntrustedText
from evalwright.signals.written_values import plain_words
from evalwright.trace.cached import cached
from evalwright.trace.model import Retrieval, ToolCall

_MOST_LINES = 40
_SHORTEST_LINE = 24


class Novelty:
    """What one trace read that its baseline did not, though it looked there."""

    def __init__(self, view: TraceView) -> None:
        self._view = view
        self._looked: dict[int, bool] = {}

    def is_proven(self, instruction: Instruction, source: UntrustedText) -> bool:
        """Whether the baseline looked where an instruction stands, and did not find it."""
        if self._view.baseline is None or instruction.sentence in self._view.baseline_read:
            return False
        return self._covers(source)

    def is_new(self, passage: str, source: UntrustedText) -> bool:
        """Whether the baseline looked where a passage stands, and did not find it."""
        return self._covers(source) and plain_words(passage) not in self._view.baseline_read

    def reading(self, source: UntrustedText) -> ToolCall | None:
        """The call that brought a text in."""
        return self._calls.get(source.event.index)

    def _covers(self, source: UntrustedText) -> bool:
        """Whether the baseline looked at the place that a text came from."""
        index = source.event.index
        if index not in self._looked:
            self._looked[index] = self._looked_at(source)
        return self._looked[index]

    def _looked_at(self, source: UntrustedText) -> bool:
        baseline = self._view.baseline
        if baseline is None:
            return False
        if isinstance(source.event, Retrieval):
            return bool(baseline.retrievals)
        call = self.reading(source)
        tool = call.tool if call is not None else source.event.tool
        calls = self._view.baseline_tools.get(tool or "", ())
        if call is None or not calls:
            return bool(calls)
        return self._was_given_alike(call, calls) or self._was_read_alike(source)

    def _was_given_alike(self, call: ToolCall, calls: Sequence[ToolCall]) -> bool:
        """Whether a call of the baseline has a value in common with a call, or needs none."""
        baseline = self._view.baseline
        assert baseline is not None
        given = {value for _, value in values_given(self._view.trace)[call.index]}
        earlier = values_given(baseline)
        return not given or any(
            value in given for each in calls for _, value in earlier[each.index]
        )

    def _was_read_alike(self, source: UntrustedText) -> bool:
        """Whether a line of a text also came to the baseline."""
        lines = [
            line for line in source.as_read.split("\n", _MOST_LINES) if len(line) > _SHORTEST_LINE
        ]
        return any(plain_words(line) in self._view.baseline_read for line in lines[:_MOST_LINES])

    @cached
    def _calls(self) -> dict[int, ToolCall]:
        """The call that each result answers, by the result's index."""
        calls = {call.index: call for call in self._view.calls}
        return {result.index: calls[at] for at, result in self._view.results.items()}
