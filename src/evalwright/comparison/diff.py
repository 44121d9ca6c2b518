"""The structural difference of two runs: a pure function of their two logs.

Tasks of a run are executed at the same time, so the order in which their events arrive means
nothing. Events are therefore aligned task by task, and within a task by what they say: one more
tool call is one difference, not one in everything that follows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
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
    """Compare two runs; the same logs always give the same difference."""
    a, b = _by_part(a_log), _by_part(b_log)
    diffs = [found for part in {**a, **b} for found in _differences(a[part], b[part])]
    diffs.sort(key=lambda found: found.seq)
    in_flight = not (_ended(a) and _ended(b))
    return RunDiff(
        a=a_id,
        b=b_id,
        diverged_at_seq=diffs[0].seq if diffs else None,
        event_diffs=diffs,
        state_diff=_state_diff(a, b),
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
    """Differences by place alone."""
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
    """What an event says, in canonical form."""
    said = without_run_scope(event.type, event.payload())
    if event.type.startswith("agent.") and isinstance(said, dict):
        said = {key: said[key] for key in said.keys() - AGENT_SCOPED_FIELDS}
    try:
        return event.type, canonical(said)
    except NotJson:  # nested too deeply to look closer
        return event.type, event.body.decode()


def without_run_scope(event_type: str, payload: Any) -> Any:
    """A payload without what differs between any two runs of the same behaviour."""
    if event_type == RunCompleted.TYPE:  # its output is the summary, which holds no content
        return _without_at_any_depth(payload)
    return _without_own(payload) if isinstance(payload, dict) else payload


def _without_at_any_depth(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_at_any_depth(item) for key, item in _without_own(value).items()}
    if isinstance(value, list):
        return [_without_at_any_depth(item) for item in value]
    return value


def _without_own(fields: dict[str, Any]) -> dict[str, Any]:
    """Only the fields of this object: what an agent says may use the same names further in."""
    return {key: value for key, value in fields.items() if key not in RUN_SCOPED_FIELDS}


def _shown(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.json.decode(event.to_json())
    return shown


def _ended(log: dict[_Part, list[Event]]) -> bool:
    return any(event.type in TERMINAL_TYPES for event in log.get(_END, ()))


def _state_diff(a: dict[_Part, list[Event]], b: dict[_Part, list[Event]]) -> dict[str, Any]:
    states = _state(a), _state(b)
    return {
        name: {"a": states[0].get(name), "b": states[1].get(name)}
        for name in sorted(states[0].keys() | states[1].keys())
        if states[0].get(name) != states[1].get(name)
    }


def _state(log: dict[_Part, list[Event]]) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "open"}
    for event in log.get(_END, ()):
        if event.type in TERMINAL_TYPES:
            state["status"] = event.type.removeprefix("run.")
        elif event.type == EvalCompleted.TYPE:
            state.update(event.payload())
    return state
