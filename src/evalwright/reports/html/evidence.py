"""One side of a case: where its evidence stands on the page, and what it says beside the steps."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from evalwright.contracts.report import EvidenceRef
from evalwright.reports.html.display_text import clipped, display_text, shortened
from evalwright.reports.html.markup import Parts
from evalwright.reports.html.steps import payload_of
from evalwright.reports.html.words import RISKS, spoken
from evalwright.trace.model import (
    Event,
    EvidenceTarget,
    FinalOutput,
    ProposedAction,
    RunnerFailure,
    Trace,
)

_LONG = 1_500
_NAMES = {"b": "Baseline", "n": "New"}

Link: TypeAlias = tuple[str, str]  # an anchor of the page, or nothing, and the words


# The events that a reference of a kind and with a name may mean, in their order.
_MEANT: dict[str, Callable[[Trace, str], Iterator[Event]]] = {
    "tool_call": lambda trace, name: (each for each in trace.calls if each.call_id == name),
    "tool_result": lambda trace, name: (each for each in trace.results if each.call_id == name),
    "retrieval_doc": lambda trace, name: (
        each for each in trace.retrievals if name in each.doc_ids
    ),
}


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
            words = f"{words} {display_text(name[:90])}"
        if index is None or not 0 <= index < len(self.trace.events):
            return (f"{self.letter}-answer" if self._answer_is(ref) else ""), words
        return f"{self.letter}-{index}", f"{words}, event {index}"

    def _answer_is(self, ref: EvidenceRef) -> bool:
        return ref.kind == "final_output" and self.unrecorded_answer() is not None

    def _find(self, kind: str, name: str | None) -> int | None:
        """The event that a reference without an index means."""
        if kind not in _MEANT or name is None:
            return None
        event = next(_MEANT[kind](self.trace, name), None)
        return None if event is None else event.index

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

    def actions(self) -> Parts:
        """The proposed actions as rows of a table, with links to the evidence that they name."""
        parts: Parts = []
        for action in self.trace.actions[:100]:
            parts += self._action(action)
        return parts

    def _action(self, action: ProposedAction) -> Parts:
        risk = RISKS[action.risk_level]
        return [
            f'<tr><td>{self.name}</td><th scope="row"><code>',
            action.action_type or "(no type)",
            f'</code></th><td>{risk.sign} {risk.words}</td><td class="value">',
            shortened(action.params, 300),
            "</td><td>",
            "",
            *(self._evidence(action.evidence[:20]) if action.evidence else ("none", "")),
            "</td></tr>\n",
            "",
        ]

    def _evidence(self, cited: Iterable[EvidenceTarget]) -> Parts:
        parts: Parts = []
        for ref in cited:
            index = self._find(ref.kind, ref.id)
            words = f"{spoken(ref.kind)} {ref.id or '(no id)'}"
            separator = "; " if parts else ""
            if index is None:
                parts += (separator, f"{words} (not in the trace)")
            else:
                parts += (f'{separator}<a href="#{self.letter}-{index}">', words, "</a>", "")
        return parts


def failure_words(failure: RunnerFailure) -> str:
    """Why there is no answer, in one line."""
    parts = [
        display_text(failure.kind),
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
