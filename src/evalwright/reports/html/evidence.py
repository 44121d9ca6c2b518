"""One side of a case: where its evidence stands on the page, and what it says beside the steps."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from evalwright.contracts.report import EvidenceRef
from evalwright.reports.html.steps import payload_of
from evalwright.reports.html.visible import clipped, visible
from evalwright.reports.html.words import RISKS, Label, spoken
from evalwright.trace.model import (
    Event,
    EvidenceTarget,
    FinalOutput,
    Retrieval,
    RunnerFailure,
    ToolCall,
    ToolResult,
    Trace,
)

_LONG = 1_500
_NAMES = {"b": "Baseline", "n": "New"}

Link: TypeAlias = tuple[str, str]  # an anchor of the page, or nothing, and the words


_MEANINGS: dict[str, Callable[[Event, str], bool]] = {
    "tool_call": lambda event, name: isinstance(event, ToolCall) and event.call_id == name,
    "tool_result": lambda event, name: isinstance(event, ToolResult) and event.call_id == name,
    "retrieval_doc": lambda event, name: isinstance(event, Retrieval) and name in event.doc_ids,
}


class ShownAction(NamedTuple):
    """An action that a side proposed."""

    side: str
    name: str
    risk: Label
    params: str
    evidence: list[Link]


class Side:
    """A trace, and the letter that its anchors begin with."""

    def __init__(self, letter: str, trace: Trace) -> None:
        self.letter = letter
        self.name = _NAMES[letter]
        self.trace = trace

    def link(self, ref: EvidenceRef) -> Link:
        """Where the event that proves a signal stands on the page."""
        index = ref.index if ref.index is not None else self._find(ref.kind, ref.call_id or ref.id)
        words = spoken(ref.kind)
        name = ref.call_id or ref.id
        if name:
            words = f"{words} {visible(name[:90])}"
        if index is None or not 0 <= index < len(self.trace.events):
            return (f"{self.letter}-answer" if self._answer_is(ref) else ""), words
        return f"{self.letter}-{index}", f"{words}, event {index}"

    def _answer_is(self, ref: EvidenceRef) -> bool:
        return ref.kind == "final_output" and self.unrecorded_answer() is not None

    def _find(self, kind: str, name: str | None) -> int | None:
        """The event that a reference without an index means."""
        means = _MEANINGS.get(kind)
        if means is None or name is None:
            return None
        return next((event.index for event in self.trace.events if means(event, name)), None)

    def unrecorded_answer(self) -> str | None:
        """The final output, where no event shows it as it is."""
        output = self.trace.output
        if output is None:
            return None
        events = self.trace.events
        recorded = events[output.index] if output.index is not None else None
        if isinstance(recorded, FinalOutput) and _same(recorded.content, output.content):
            return None
        return clipped(payload_of(output), _LONG)

    def actions(self) -> list[ShownAction]:
        """The proposed actions, with links to the evidence that they name."""
        return [
            ShownAction(
                self.name,
                visible(action.action_type or "(no type)"),
                RISKS[action.risk_level],
                clipped(action.params, 300),
                [self._cited(ref) for ref in action.evidence[:20]],
            )
            for action in self.trace.actions[:100]
        ]

    def _cited(self, ref: EvidenceTarget) -> Link:
        index = self._find(ref.kind, ref.id)
        words = f"{spoken(visible(ref.kind))} {visible(ref.id or '(no id)')}"
        return ("", f"{words} (not in the trace)") if index is None else (self._at(index), words)

    def _at(self, index: int) -> str:
        return f"{self.letter}-{index}"


def failure_words(failure: RunnerFailure) -> str:
    """Why there is no answer, in one line."""
    parts = [
        visible(failure.kind),
        f"status {failure.status}" if failure.status is not None else "",
        f"attempt {failure.attempt}" if failure.attempt is not None else "",
        {True: "transient", False: "not transient", None: ""}[failure.transient],
        clipped(failure.message, _LONG) if failure.message else "",
    ]
    return ", ".join(part for part in parts if part)


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except RecursionError:
        return False
