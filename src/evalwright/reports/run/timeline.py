"""The trace of a task as steps: what came when, took how long, cost how much, and belongs to what.

Steps are light: they name their events, and hold nothing of what those say but a name. What is
shown of that is read when it is needed, and masked.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
    repetition_of,
)

StepKind: TypeAlias = Literal[
    "invocation", "model", "call", "result", "reasoning", "answer", "judge", "finding", "check",
    "score", "event",
]  # fmt: skip

_MS = 1000


class TraceStep(msgspec.Struct, gc=False):
    """One step; `answered` is the event of a call's result, `depth` how deep it is in the tree."""

    sequence: int
    kind: StepKind
    name: str
    at_us: int
    depth: int
    took_us: int = 0
    answered: int | None = None
    is_bad: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    size: int = 0  # bytes of its events


class TaskTimeline(msgspec.Struct, frozen=True):
    """All steps of a task, in order, and what they come to."""

    steps: Sequence[TraceStep]
    started_us: int
    took_us: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    ends: Sequence[int]  # of each step, the place behind all that is within it

    def offset(self, step: TraceStep) -> float:
        return (step.at_us - self.started_us) / self.took_us if self.took_us else 0.0

    def share(self, step: TraceStep) -> float:
        return step.took_us / self.took_us if self.took_us else 0.0


class _NamedCall(msgspec.Struct, rename="camel"):
    """A call or its result, without what was sent or came back."""

    tool_name: str
    call_id: str
    error: ErrorDetail | msgspec.UnsetType = UNSET
    status: str | msgspec.UnsetType = UNSET
    duration_ms: int | msgspec.UnsetType = UNSET


class _SaidVerdicts(msgspec.Struct):
    judge: str
    subject: str
    sample: int


class _CheckedAnswer(msgspec.Struct):
    passed: bool
    checks: list[msgspec.Raw] = []


def timeline_of(events: Iterable[Event]) -> TaskTimeline:
    """The steps of a task from its events, in order."""
    steps: list[TraceStep] = []
    within: list[tuple[str, TraceStep]] = []  # open invocations, and those within them
    calls: dict[str, TraceStep] = {}  # without a result
    before_us = last_us = 0
    for event in events:
        before_us, last_us = last_us, event.at_us
        try:
            step = _step_of(event, before_us, within, calls)
        except msgspec.MsgspecError:
            name = f"{event.type}, which cannot be read"
            step = TraceStep(event.sequence, "event", name, event.at_us, len(within))
        if step is not None:
            step.size += len(event.body)
            steps.append(step)
    started = min((step.at_us for step in steps), default=0)
    ended = max((step.at_us + step.took_us for step in steps), default=0)
    models = [step for step in steps if step.kind == "model"]
    costs = [step.cost_usd for step in models]
    known = [cost for cost in costs if cost is not None]
    ends, around = [len(steps)] * len(steps), list[int]()  # the steps that one is within
    for place, step in enumerate(steps):
        while around and steps[around[-1]].depth >= step.depth:
            ends[around.pop()] = place
        around.append(place)
    return TaskTimeline(
        steps,
        started,
        max(ended, last_us) - started,
        sum(step.input_tokens for step in models),
        sum(step.output_tokens for step in models),
        sum(known) if models and len(known) == len(costs) else None,
        ends,
    )


def _step_of(
    event: Event,
    before_us: int,
    within: list[tuple[str, TraceStep]],
    calls: dict[str, TraceStep],
) -> TraceStep | None:
    """The step that an event is, if it is one; of ends and results, the step they belong to."""
    sequence, at_us, depth = event.sequence, event.at_us, len(within)
    match event.type:
        case InvocationStarted.TYPE:
            started = event.decode(InvocationStarted)
            number = repetition_of(started.invocation_id)
            name = started.agent_id if number == 1 else f"{started.agent_id}, repetition {number}"
            step = TraceStep(sequence, "invocation", name, at_us, depth)
            within.append((started.invocation_id, step))
            return step
        case InvocationCompleted.TYPE:  # of those within it, too
            completed = event.decode(InvocationCompleted)
            for place, (invocation_id, step) in enumerate(within):
                if invocation_id == completed.invocation_id:
                    step.took_us = at_us - step.at_us
                    step.is_bad = completed.outcome == "failed"
                    del within[place:]
                    break
            return None
        case ToolCalled.TYPE:
            called = msgspec.json.decode(event.body, type=_NamedCall)
            calls[called.call_id] = TraceStep(sequence, "call", called.tool_name, at_us, depth)
            return calls[called.call_id]
        case ToolReturned.TYPE:
            came = msgspec.json.decode(event.body, type=_NamedCall)
            is_bad = came.error is not UNSET or came.status not in (UNSET, "ok")
            if (call := calls.pop(came.call_id, None)) is None:  # nothing is known of the call
                name = came.tool_name
                return TraceStep(sequence, "result", name, at_us, depth, is_bad=is_bad)
            call.answered, call.is_bad = sequence, is_bad
            call.size += len(event.body)
            took = None if came.duration_ms is UNSET else came.duration_ms * _MS
            call.took_us = at_us - call.at_us if took is None else took
            return None
        case ProviderUsage.TYPE:  # told when it ended; it began after what came before it
            used, begun = event.decode(ProviderUsage), before_us or at_us
            return TraceStep(
                sequence,
                "model",
                used.model,
                begun,
                depth,
                at_us - begun,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cost_usd=used.cost_estimate_usd,
            )
        case Reasoned.TYPE | Decided.TYPE:
            kind: StepKind = "answer" if event.type == Decided.TYPE else "reasoning"
            return TraceStep(sequence, kind, "", at_us, depth)
        case Judged.TYPE:
            said = msgspec.json.decode(event.body, type=_SaidVerdicts)
            name = f"{said.judge} on {said.subject}, sample {said.sample}"
            return TraceStep(sequence, "judge", name, at_us, depth)
        case Found.TYPE:
            findings = event.decode(Found).findings
            name = ", ".join(f"{each.severity} {each.kind}" for each in findings)
            return TraceStep(sequence, "finding", name, at_us, depth, is_bad=True)
        case Checked.TYPE:
            checked = msgspec.json.decode(event.body, type=_CheckedAnswer)
            count = len(checked.checks)
            name = "1 check" if count == 1 else f"{count:,} checks"
            return TraceStep(sequence, "check", name, at_us, depth, is_bad=not checked.passed)
        case EvalScored.TYPE:
            scored = event.decode(EvalScored)
            name = f"{scored.score:.4g}"
            return TraceStep(sequence, "score", name, at_us, depth, is_bad=not scored.passed)
    return TraceStep(sequence, "event", event.type, at_us, depth)
