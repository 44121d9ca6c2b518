"""The structural difference of two runs: a pure function of their two logs.

Tasks of a run are executed at the same time, so the order in which their events arrive means
nothing. Events are therefore aligned task by task: the n-th event of a task in one log with the
n-th event of that task in the other.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from evalwright.contracts.events import TERMINAL_TYPES, Event, RunCompleted
from evalwright.contracts.jsonvalue import NotJson, canonical

# What differs between any two runs of the same behaviour: identity, time and durations.
RUN_SCOPED_FIELDS = frozenset(
    {"durationMs", "latencyMs", "engineVersion", "baselineRunId", "diffRef", "tags", "metadata"}
)

_Key = tuple[str, str, int]  # part of the run, task, place within it


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
    a, b = _aligned(a_log), _aligned(b_log)
    pairs = [(a.get(key), b.get(key)) for key in dict.fromkeys((*a, *b))]
    diffs = [found for left, right in pairs if (found := _compare(left, right))]
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


def _aligned(log: Iterable[Event]) -> dict[_Key, Event]:
    counts: dict[tuple[str, str], int] = {}
    aligned = {}
    for event in log:
        part = _part(event)
        place = counts.get(part, 0)
        counts[part] = place + 1
        aligned[(*part, place)] = event
    return aligned


def _part(event: Event) -> tuple[str, str]:
    if event.task_id is not None:
        return "task", event.task_id
    is_end = event.type in TERMINAL_TYPES or event.type == "eval.completed"
    return ("end" if is_end else "start"), ""


def _compare(left: Event | None, right: Event | None) -> EventDiff | None:
    if left is None or right is None:
        present = left or right
        assert present is not None
        if left is None:
            return EventDiff(present.sequence, "added", b_event=_shown(present))
        return EventDiff(present.sequence, "removed", a_event=_shown(present))
    if left.type == right.type and _same(left, right):
        return None
    return EventDiff(left.sequence, "changed", _shown(left), _shown(right))


def _same(left: Event, right: Event) -> bool:
    if left.body == right.body:
        return True
    try:
        return _facts(left) == _facts(right)
    except NotJson:  # nested too deeply to look closer
        return False


def _facts(event: Event) -> str:
    """The payload in canonical form, without what is bound to one run."""
    payload = event.payload()
    if event.type == RunCompleted.TYPE:  # its output is the summary, which holds no content
        return canonical(_without_run_scope(payload))
    return canonical(_without_own(payload) if isinstance(payload, dict) else payload)


def _without_run_scope(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_run_scope(item) for key, item in _without_own(value).items()}
    if isinstance(value, list):
        return [_without_run_scope(item) for item in value]
    return value


def _without_own(fields: dict[str, Any]) -> dict[str, Any]:
    """Only the fields of this object: what an agent says may use the same names further in."""
    return {key: value for key, value in fields.items() if key not in RUN_SCOPED_FIELDS}


def _shown(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.json.decode(event.to_json())
    return shown


def _ended(log: dict[_Key, Event]) -> bool:
    return any(event.type in TERMINAL_TYPES for event in log.values())


def _state_diff(a: dict[_Key, Event], b: dict[_Key, Event]) -> dict[str, Any]:
    states = _state(a), _state(b)
    return {
        name: {"a": states[0].get(name), "b": states[1].get(name)}
        for name in sorted(states[0].keys() | states[1].keys())
        if states[0].get(name) != states[1].get(name)
    }


def _state(log: dict[_Key, Event]) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "open"}
    for event in log.values():
        if event.type in TERMINAL_TYPES:
            state["status"] = event.type.removeprefix("run.")
        elif event.type == "eval.completed":
            state.update(event.payload())
    return state
