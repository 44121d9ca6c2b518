"""What must hold of every log, looked at from outside: the wire form of its events alone."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

Events = Sequence[dict[str, Any]]

TERMINAL = {"run.completed", "run.failed", "run.cancelled"}

# One invocation in the order of RFC 0077, a letter for each type; a score may follow. Usage is
# recorded when it is reported, so it may come before tools, and it is all that is left of an
# invocation that a kill cut off before its start was written.
_LETTERS = {
    "agent.invocation.started": "s",
    "agent.reasoned": "r",
    "agent.toolCalled": "t",
    "agent.toolReturned": "a",
    "provider.usage": "u",
    "agent.decided": "d",
    "agent.invocation.completed": "c",
    "eval.scored": "S",
}
_INVOCATION = re.compile("s(?:r|u|ta)*d+c")
_TASK = re.compile(f"u*(?:{_INVOCATION.pattern}u*)+S")


def types(events: Events) -> list[str]:
    """The types of events, in order."""
    return [event["type"] for event in events]


def of_type(events: Events, kind: str) -> list[dict[str, Any]]:
    """The payloads of the events of one type."""
    return [event["payload"] for event in events if event["type"] == kind]


def of_task(events: Events, task_id: str) -> list[dict[str, Any]]:
    """The events of one task."""
    return [event for event in events if event.get("nodeId") == task_id]


def scored_tasks(events: Events) -> set[str]:
    """The tasks that have their score."""
    return {payload["taskId"] for payload in of_type(events, "eval.scored")}


def assert_gap_free(events: Events) -> None:
    """Sequences 0, 1, 2 …, one run, no event id twice."""
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert len({event["runId"] for event in events}) == 1
    assert len({event["eventId"] for event in events}) == len(events)


def assert_brackets_closed(events: Events) -> None:
    """Every invocation that was started was completed, once, in order."""
    open_ids: set[str] = set()
    for event in events:
        if event["type"] == "agent.invocation.started":
            assert event["payload"]["invocationId"] not in open_ids
            open_ids.add(event["payload"]["invocationId"])
        elif event["type"] == "agent.invocation.completed":
            open_ids.remove(event["payload"]["invocationId"])
    assert open_ids == set()


def assert_complete(events: Events) -> None:
    """The log of a run that came to its result: the frame, the brackets, one score per task."""
    assert_gap_free(events)
    assert types(events)[:2] == ["run.started", "eval.started"]
    assert types(events)[-2:] == ["eval.completed", "run.completed"]
    assert sum(kind in TERMINAL for kind in types(events)) == 1
    counts = Counter(types(events))
    assert counts["eval.started"] == counts["eval.completed"] == 1
    (started,) = of_type(events, "eval.started")
    tasks = {event["nodeId"] for event in events if "nodeId" in event}
    assert len(tasks) == started["taskCount"]
    for task_id in tasks:
        shape = task_shape(events, task_id)
        assert _TASK.fullmatch(shape), f"{task_id}: {shape}"
    assert_brackets_closed(events)


def task_shape(events: Events, task_id: str) -> str:
    """The events of a task, a letter each."""
    return "".join(_LETTERS.get(kind, "?") for kind in types(of_task(events, task_id)))
