"""The first place at which two traces part."""

from collections.abc import Sequence

from evalwright.comparison.alignment import AlignedStep, same_call
from evalwright.contracts.report import Divergence
from evalwright.trace.model import FinalOutput, Message, Retrieval, ToolCall, ToolResult
from evalwright.trace.pairing import Step

_OTHER = {
    ToolCall: "the call has other arguments",
    ToolResult: "the result is another",
    Retrieval: "the retrieval is another",
    Message: "the message is another",
    FinalOutput: "the output is another",
}

_LABELS = {
    ToolResult: "tool_result",
    Retrieval: "retrieval",
    Message: "message",
    FinalOutput: "final_output",
}


def first_divergence(steps: Sequence[AlignedStep]) -> Divergence | None:
    """The first step that differs in more than wording; else the first that differs at all."""
    in_words = None
    for place, step in enumerate(steps):
        if step.state == "same":
            continue
        if not _is_message(step):
            return _describe(place, step)
        in_words = in_words or _describe(place, step)
    return in_words


def _is_message(step: AlignedStep) -> bool:
    return any(isinstance(side.event, Message) for side in (step.baseline, step.new) if side)


def _describe(place: int, step: AlignedStep) -> Divergence:
    return Divergence(
        step=place,
        reason=_reason(step),
        baseline_index=step.baseline.event.index if step.baseline else None,
        new_index=step.new.event.index if step.new else None,
        baseline=_label(step.baseline),
        new=_label(step.new),
    )


def _reason(step: AlignedStep) -> str:
    if step.baseline is None:
        return "only the new run has this step"
    if step.new is None:
        return "only the baseline has this step"
    if not same_call(step.baseline.event, step.new.event):
        return _OTHER.get(type(step.new.event), "the event is another")
    return "the same call was answered differently"


def _label(step: Step | None) -> str | None:
    if step is None:
        return None
    event = step.event
    if isinstance(event, ToolCall):
        return event.tool or "(a tool without a name)"
    return _LABELS.get(type(event), "event")
