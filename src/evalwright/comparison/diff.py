"""The structural difference of two runs: a pure function of their two logs.

`diff_runs` aligns events task by task, and within a task by what they say: tasks of a run are
executed at the same time, so the order in which their events arrive means nothing, and one more
tool call is one difference, not one in everything that follows. `diff_sequences` aligns events by
their sequence alone, as the protocol defines it for hosts (RFC 0054).
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from evalwright.contracts.events import TERMINAL_TYPES, EvalCompleted, Event, RunCompleted
from evalwright.contracts.jsonvalue import NotJson, canonical

# What differs between any two runs of the same behaviour: identity, time and durations.
RUN_SCOPED_FIELDS = frozenset(
    {
        "durationMs",
        "latencyMs",
        "observed",
        "engineVersion",
        "baseline",
        "baselineRunId",
        "diffRef",
        "group",
        "regression",
        "regressionVsBaseline",
        "tags",
        "metadata",
        "origin",
        "owner",
        "transport",
    }
)

# What two logs with the same sequence of facts differ in: clocks, traces, and whose run it is.
SEQUENCE_SCOPED_FIELDS = frozenset(
    {
        "eventId",
        "runId",
        "causationId",
        "correlationId",
        "timestamp",
        "traceparent",
        "durationMs",
        "latencyMs",
        "observed",
        "diffRef",
        "origin",
        "owner",
    }
)

# The frame of the run says which agent it was; call ids only count the calls.
AGENT_SCOPED_FIELDS = frozenset({"agentId", "callId"})

MOST_ALIGNED = 250_000  # pairs of events within one task

_Fact = tuple[str, str]  # an event's type and what it says
_Part = tuple[str, str]  # a part of the run, and its task where it is one

_START: _Part = ("start", "")
_END: _Part = ("end", "")


class EventDiff(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One place where the logs differ."""

    seq: int
    op: Literal["added", "removed", "changed"]
    a_event: dict[str, Any] | None = None
    b_event: dict[str, Any] | None = None


class RunDiff(msgspec.Struct, frozen=True, rename="camel"):
    """Where two runs differ; empty when they did the same."""

    a: str
    b: str
    diverged_at_seq: int | None
    event_diffs: list[EventDiff]
    state_diff: dict[str, Any]
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


def diff_runs(a_id: str, a_log: Iterable[Event], b_id: str, b_log: Iterable[Event]) -> RunDiff:
    """Compare two runs task by task; the same logs always give the same difference."""
    a, b = _by_part(a_log), _by_part(b_log)
    diffs = [found for part in {**a, **b} for found in _differences(a[part], b[part])]
    diffs.sort(key=lambda found: found.seq)
    return _run_diff((a_id, a[_END]), (b_id, b[_END]), diffs)


def diff_sequences(a_id: str, a_log: Iterable[Event], b_id: str, b_log: Iterable[Event]) -> RunDiff:
    """Compare two runs event by event: number n of the one with number n of the other."""
    ends: tuple[list[Event], list[Event]] = [], []
    diffs = []
    for old, new in zip_longest(a_log, b_log):
        for event, end in zip((old, new), ends, strict=True):
            if event is not None and _part(event) == _END:
                end.append(event)
        if old is None:
            diffs.append(EventDiff(new.sequence, "added", b_event=_shown(new)))
        elif new is None:
            diffs.append(EventDiff(old.sequence, "removed", a_event=_shown(old)))
        elif old.type != new.type or (old.body != new.body and _recorded(old) != _recorded(new)):
            diffs.append(EventDiff(old.sequence, "changed", _shown(old), _shown(new)))
    return _run_diff((a_id, ends[0]), (b_id, ends[1]), diffs)


def _run_diff(
    a: tuple[str, list[Event]], b: tuple[str, list[Event]], diffs: list[EventDiff]
) -> RunDiff:
    in_flight = not (_ended(a[1]) and _ended(b[1]))
    states = _state(a[1]), _state(b[1])
    return RunDiff(
        a=a[0],
        b=b[0],
        diverged_at_seq=diffs[0].seq if diffs else None,
        event_diffs=diffs,
        state_diff={
            name: {"a": states[0].get(name), "b": states[1].get(name)}
            for name in sorted(states[0].keys() | states[1].keys())
            if states[0].get(name) != states[1].get(name)
        },
        truncated=True if in_flight else msgspec.UNSET,
    )


def _by_part(log: Iterable[Event]) -> defaultdict[_Part, list[Event]]:
    parts: defaultdict[_Part, list[Event]] = defaultdict(list)
    for event in log:
        parts[_part(event)].append(event)
    return parts


def _differences(left: list[Event], right: list[Event]) -> Iterator[EventDiff]:
    """Align two lists of events by what they say; what has no counterpart differs."""
    facts = [_facts(event) for event in left], [_facts(event) for event in right]
    if facts[0] == facts[1]:
        return
    if len(left) * len(right) > MOST_ALIGNED:  # to align them by what they say would take too long
        yield from _pairs(left, right, facts)
        return
    for op, a_from, a_to, b_from, b_to in SequenceMatcher(None, *facts, False).get_opcodes():
        if op != "equal":
            changed = slice(a_from, a_to), slice(b_from, b_to)
            yield from _pairs(
                left[changed[0]], right[changed[1]], (facts[0][changed[0]], facts[1][changed[1]])
            )


def _pairs(
    left: list[Event], right: list[Event], facts: tuple[list[_Fact], list[_Fact]]
) -> Iterator[EventDiff]:
    for old, new, a_fact, b_fact in zip_longest(left, right, *facts):
        if a_fact == b_fact:
            continue
        if old is not None and new is not None and old.type == new.type:
            yield EventDiff(old.sequence, "changed", _shown(old), _shown(new))
            continue
        if old is not None:
            yield EventDiff(old.sequence, "removed", a_event=_shown(old))
        if new is not None:
            yield EventDiff(new.sequence, "added", b_event=_shown(new))


def _part(event: Event) -> tuple[str, str]:
    if event.task_id is not None:
        return "task", event.task_id
    is_end = event.type in TERMINAL_TYPES or event.type == EvalCompleted.TYPE
    return _END if is_end else _START


def _facts(event: Event) -> _Fact:
    said = without_run_scope(event.type, event.payload())
    if event.type.startswith("agent.") and isinstance(said, dict):
        said = {key: said[key] for key in said.keys() - AGENT_SCOPED_FIELDS}
    return event.type, _canonical(said, event)


def _recorded(event: Event) -> str:
    """What an event records, but for clocks and identity, in canonical form."""
    return _canonical(_without(event.type, event.payload(), SEQUENCE_SCOPED_FIELDS), event)


def _canonical(said: Any, event: Event) -> str:
    try:
        return canonical(said)
    except NotJson:  # nested too deeply to look closer
        return event.body.decode()


def without_run_scope(event_type: str, payload: Any) -> Any:
    """A payload without what differs between any two runs of the same behaviour."""
    return _without(event_type, payload, RUN_SCOPED_FIELDS)


def _without(event_type: str, payload: Any, names: Container[str]) -> Any:
    if event_type == RunCompleted.TYPE:  # its output is the summary, which holds no content
        return _without_at_any_depth(payload, names)
    return _without_own(payload, names) if isinstance(payload, dict) else payload


def _without_at_any_depth(value: Any, names: Container[str]) -> Any:
    if isinstance(value, dict):
        own = _without_own(value, names)
        return {key: _without_at_any_depth(item, names) for key, item in own.items()}
    if isinstance(value, list):
        return [_without_at_any_depth(item, names) for item in value]
    return value


def _without_own(fields: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    """Only the fields of this object: what an agent says may use the same names further in."""
    return {key: value for key, value in fields.items() if key not in names}


def _shown(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.json.decode(event.to_json())
    return shown


def _ended(end: list[Event]) -> bool:
    return any(event.type in TERMINAL_TYPES for event in end)


def _state(end: list[Event]) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "open"}
    for event in end:
        if event.type in TERMINAL_TYPES:
            state["status"] = event.type.removeprefix("run.")
        elif event.type == EvalCompleted.TYPE:
            state.update(event.payload())
    return state
