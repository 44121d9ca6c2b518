"""Two traces side by side: which step of one is which step of the other, and where they part."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec

from evalwright.contracts.report import Divergence
from evalwright.trace.model import (
    Event,
    FinalOutput,
    Json,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
)
from evalwright.trace.paired_calls import Step, pair_steps

State: TypeAlias = Literal["same", "changed", "only_baseline", "only_new"]

_MOST_CELLS = 40_000  # of the alignment table; longer traces are aligned in order

_OTHER = {
    ToolCall: "the call has other arguments",
    ToolResult: "the result differs",
    Retrieval: "the retrieval differs",
    Message: "the message differs",
    FinalOutput: "the output differs",
}

_LABELS = {
    ToolResult: "tool_result",
    Retrieval: "retrieval",
    Message: "message",
    FinalOutput: "final_output",
}


class AlignedStep(msgspec.Struct, frozen=True, gc=False):
    """A step of the baseline beside the step of the new trace that corresponds to it."""

    baseline: Step | None
    new: Step | None
    state: State


def align(baseline: Trace, new: Trace) -> list[AlignedStep]:
    """The steps of both traces in order, matched where they do the same kind of thing."""
    left, right = _turns(pair_steps(baseline)), _turns(pair_steps(new))
    if not _are_of_one_script(left, right):
        left, right = [pair_steps(baseline)], [pair_steps(new)]
    turns = zip_longest(left, right, fillvalue=())
    return [step for of_left, of_right in turns for step in _align(of_left, of_right)]


def _turns(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps of a conversation, those of each turn together; it begins with the user."""
    turns: list[list[Step]] = [[]]
    for step in steps:
        if _is_users(step):
            turns.append([])
        turns[-1].append(step)
    return turns


def _is_users(step: Step | None) -> bool:
    return step is not None and isinstance(step.event, Message) and step.event.role == "user"


def _are_of_one_script(left: list[list[Step]], right: list[list[Step]]) -> bool:
    """Whether the user says as much on both sides, or the same for as long as both go on."""
    if len(left) == len(right):
        return True
    both = zip(left[1:], right[1:], strict=False)
    return all(_say_the_same(a[0].event, b[0].event) for a, b in both)


def _align(left: Sequence[Step], right: Sequence[Step]) -> list[AlignedStep]:
    left_keys = [_key(step.event) for step in left]
    right_keys = [_key(step.event) for step in right]
    if left_keys == right_keys:
        return list(map(_aligned, left, right))
    start = 0  # how many steps are the same calls: the table need not hold them
    for a, b, left_key, right_key in zip(left, right, left_keys, right_keys, strict=False):
        if left_key != right_key or not _say_the_same(a.event, b.event):
            break
        start += 1
    middle = _match(left[start:], right[start:], left_keys[start:], right_keys[start:])
    return [_aligned(a, b) for a, b in zip(left[:start], right[:start], strict=True)] + middle


def _key(event: Event) -> tuple[type, str]:
    if type(event) is ToolCall:
        return ToolCall, event.tool
    if type(event) is ToolResult:
        return ToolResult, event.tool or ""
    if type(event) is Message:
        return Message, event.role
    if type(event) is Unknown:
        return Unknown, event.type
    return type(event), ""


def _aligned(a: Step, b: Step) -> AlignedStep:
    before, after = a.result, b.result
    if before is None or after is None:
        same = before is after
    else:
        said = before.status, before.payload, before.error
        same = said == (after.status, after.payload, after.error)
    same = same and _say_the_same(a.event, b.event)
    return AlignedStep(a, b, "same" if same else "changed")


# What an event does or says, beside its name, its time and its ids.
_SUBSTANCE: dict[type, Callable[[Event], Json]] = {
    ToolCall: attrgetter("args"),
    ToolResult: attrgetter("status", "payload", "error"),
    Retrieval: attrgetter("query", "doc_ids", "content"),
    Message: attrgetter("content"),
    FinalOutput: attrgetter("content"),
    Unknown: attrgetter("raw"),
}


def _say_the_same(a: Event, b: Event) -> bool:
    substance = _SUBSTANCE[type(a)]
    return bool(substance(a) == substance(b))


def _match(
    left: Sequence[Step],
    right: Sequence[Step],
    left_keys: Sequence[tuple[type, str]],
    right_keys: Sequence[tuple[type, str]],
) -> list[AlignedStep]:
    steps: list[AlignedStep] = []
    if len(left) * len(right) > _MOST_CELLS:
        for a, b, left_key, right_key in zip(left, right, left_keys, right_keys, strict=False):
            steps += [_aligned(a, b)] if left_key == right_key else _alone([a], [b])
        shorter = min(len(left), len(right))
        return steps + _alone(left[shorter:], right[shorter:])
    # The worth of the best alignment from each pair of places to the ends.
    places: dict[tuple[type, str], list[int]] = defaultdict(list)
    for place in range(len(right) - 1, -1, -1):
        places[right_keys[place]].append(place)
    best = [[0] * (len(right) + 1)]
    for step, key in zip(reversed(left), reversed(left_keys), strict=True):
        # The row above, for one more step, which may match the step at each of some places.
        # The places come last first. A row never rises, so what a match is worth goes on to the
        # left until something is worth as much.
        below = best[-1]
        row = below.copy()
        for place in places[key]:
            worth = below[place + 1] + _worth(step, right[place])
            at = place
            while at >= 0 and row[at] < worth:
                row[at] = worth
                at -= 1
        best.append(row)
    best.reverse()
    i = j = 0
    while i < len(left) and j < len(right):
        here = best[i][j]
        if left_keys[i] == right_keys[j] and here == best[i + 1][j + 1] + _worth(left[i], right[j]):
            steps.append(_aligned(left[i], right[j]))
            i, j = i + 1, j + 1
        elif here == best[i + 1][j]:
            steps.append(AlignedStep(left[i], None, "only_baseline"))
            i += 1
        else:
            steps.append(AlignedStep(None, right[j], "only_new"))
            j += 1
    return steps + _alone(left[i:], right[j:])


def _worth(a: Step, b: Step) -> int:
    return 3 if _say_the_same(a.event, b.event) else 2


def _alone(left: Sequence[Step], right: Sequence[Step]) -> list[AlignedStep]:
    return [AlignedStep(step, None, "only_baseline") for step in left] + [
        AlignedStep(None, step, "only_new") for step in right
    ]


def first_divergence(steps: Sequence[AlignedStep]) -> Divergence | None:
    """The first step that differs in more than wording; else the first that differs at all."""
    in_words, turn = None, 1
    is_talk = any(_is_users(each.baseline) or _is_users(each.new) for each in steps)
    for place, step in enumerate(steps):
        turn += _is_users(step.baseline) or _is_users(step.new)
        if step.state == "same":
            continue
        sides = [side for side in (step.baseline, step.new) if side]
        if not any(isinstance(side.event, Message) for side in sides):
            return _describe(place, step, turn if is_talk else None)
        in_words = in_words or _describe(place, step, turn if is_talk else None)
    return in_words


def _describe(place: int, step: AlignedStep, turn: int | None) -> Divergence:
    reason = "the same call was answered differently"
    if step.baseline is None:
        reason = "only the new run has this step"
    elif step.new is None:
        reason = "only the baseline has this step"
    else:
        before, after = step.baseline.event, step.new.event
        if _key(before) != _key(after) or not _say_the_same(before, after):
            reason = _OTHER.get(type(after), "the event differs")
    return Divergence(
        step=place,
        reason=reason,
        baseline_index=step.baseline.event.index if step.baseline else None,
        new_index=step.new.event.index if step.new else None,
        baseline=_label(step.baseline),
        new=_label(step.new),
        turn=turn,
    )


def _label(step: Step | None) -> str | None:
    if step is None:
        return None
    event = step.event
    if isinstance(event, ToolCall):
        return event.tool or "(a tool without a name)"
    return _LABELS.get(type(event), "event")
