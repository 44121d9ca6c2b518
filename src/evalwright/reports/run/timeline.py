"""The trace of a task as steps: what came when, took how long, cost how much, and belongs to what.

Steps are light: they name their events, and hold nothing of what those say but a name. What is
shown of that is read when it is needed, and masked.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

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
)
from evalwright.engine.invocation import repetition_of

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
        """Where a step begins, as a share of the whole time."""
        return (step.at_us - self.started_us) / self.took_us if self.took_us else 0.0

    def share(self, step: TraceStep) -> float:
        """How long a step took, as a share of the whole time."""
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
    reader = _StepReader()
    last_us = 0
    for event in events:
        reader.take(event)
        last_us = event.at_us
    steps = reader.steps
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


class _StepReader:
    """Makes steps of events as they come."""

    def __init__(self) -> None:
        self.steps: list[TraceStep] = []
        self._open: list[tuple[str, TraceStep]] = []  # invocations, and those within them
        self._calls: dict[str, TraceStep] = {}  # without a result
        self._before_us = 0

    def take(self, event: Event) -> None:
        """Take the next event."""
        make = _STEPS.get(event.type)
        try:
            step = make(self, event) if make else self._step(event, "event", event.type)
        except msgspec.MsgspecError:
            step = self._step(event, "event", f"{event.type}, which cannot be read")
        self._before_us = event.at_us
        if step is not None:
            step.size += len(event.body)
            self.steps.append(step)

    def _step(self, event: Event, kind: StepKind, name: str, **more: Any) -> TraceStep:
        return TraceStep(event.sequence, kind, name, event.at_us, len(self._open), **more)

    def begin(self, event: Event) -> TraceStep:
        """An invocation, of a repetition perhaps."""
        started = event.decode(InvocationStarted)
        number = repetition_of(started.invocation_id)
        name = started.agent_id if number == 1 else f"{started.agent_id}, repetition {number}"
        step = self._step(event, "invocation", name)
        self._open.append((started.invocation_id, step))
        return step

    def complete(self, event: Event) -> None:
        """The end of an invocation, and of those within it; no step of its own."""
        completed = event.decode(InvocationCompleted)
        for place, (invocation_id, step) in enumerate(self._open):
            if invocation_id == completed.invocation_id:
                step.took_us = event.at_us - step.at_us
                step.is_bad = completed.outcome == "failed"
                del self._open[place:]
                return

    def call(self, event: Event) -> TraceStep:
        """A call, whose result may come later."""
        called = msgspec.json.decode(event.body, type=_NamedCall)
        step = self._step(event, "call", called.tool_name)
        self._calls[called.call_id] = step
        return step

    def result(self, event: Event) -> TraceStep | None:
        """The result of a call; a step only if nothing is known of the call."""
        came = msgspec.json.decode(event.body, type=_NamedCall)
        step = self._calls.pop(came.call_id, None)
        is_bad = came.error is not UNSET or came.status not in (UNSET, "ok")
        if step is None:
            return self._step(event, "result", came.tool_name, is_bad=is_bad)
        step.answered = event.sequence
        step.is_bad = is_bad
        step.size += len(event.body)
        took = None if came.duration_ms is UNSET else came.duration_ms * _MS
        step.took_us = event.at_us - step.at_us if took is None else took
        return None

    def model(self, event: Event) -> TraceStep:
        """A call of a model: it is told when it ended, and began after what came before it."""
        used = event.decode(ProviderUsage)
        step = self._step(
            event,
            "model",
            used.model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost_usd=used.cost_estimate_usd,
        )
        before = self._before_us or event.at_us
        step.at_us, step.took_us = before, event.at_us - before
        return step

    def reasoning(self, event: Event) -> TraceStep:
        """What the agent thought."""
        return self._step(event, "reasoning", "")

    def answer(self, event: Event) -> TraceStep:
        """What the agent answered."""
        return self._step(event, "answer", "")

    def judge(self, event: Event) -> TraceStep:
        """What a judge said."""
        said = msgspec.json.decode(event.body, type=_SaidVerdicts)
        name = f"{said.judge} on {said.subject}, sample {said.sample}"
        return self._step(event, "judge", name)

    def finding(self, event: Event) -> TraceStep:
        """What speaks against the agent."""
        found = event.decode(Found).findings
        name = ", ".join(f"{each.severity} {each.kind}" for each in found)
        return self._step(event, "finding", name, is_bad=True)

    def check(self, event: Event) -> TraceStep:
        """What the checks said."""
        checked = msgspec.json.decode(event.body, type=_CheckedAnswer)
        count = len(checked.checks)
        name = "1 check" if count == 1 else f"{count:,} checks"
        return self._step(event, "check", name, is_bad=not checked.passed)

    def score(self, event: Event) -> TraceStep:
        """What the task came to."""
        scored = event.decode(EvalScored)
        return self._step(event, "score", f"{scored.score:.4g}", is_bad=not scored.passed)


_STEPS: dict[str, Any] = {
    InvocationStarted.TYPE: _StepReader.begin,
    InvocationCompleted.TYPE: _StepReader.complete,
    ToolCalled.TYPE: _StepReader.call,
    ToolReturned.TYPE: _StepReader.result,
    ProviderUsage.TYPE: _StepReader.model,
    Reasoned.TYPE: _StepReader.reasoning,
    Decided.TYPE: _StepReader.answer,
    Judged.TYPE: _StepReader.judge,
    Found.TYPE: _StepReader.finding,
    Checked.TYPE: _StepReader.check,
    EvalScored.TYPE: _StepReader.score,
}
