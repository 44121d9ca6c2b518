"""What is wrong with the events of a run, line by line."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import a_log, a_suite
from evalwright.engine.suites.validation import check_events

Events = list[dict[str, Any]]


def lines() -> Events:
    """Run started, eval started, planned; five events of the task; eval and run completed."""
    return [json.loads(event.to_json()) for event in a_log(a_suite(1))]


def found(events: Events) -> list[tuple[str, str]]:
    problems = check_events([json.dumps(event).encode() for event in events], "line")
    return [(each.path, each.message) for each in problems]


def numbered(events: Events) -> Events:
    return [{**event, "sequence": number} for number, event in enumerate(events)]


def place(events: Events, kind: str) -> int:
    return next(number for number, event in enumerate(events) if event["type"] == kind)


def changed(number: int, **fields: Any) -> Callable[[Events], Events]:
    return lambda events: [
        {**event, **fields} if place == number else event for place, event in enumerate(events)
    ]


def without(kind: str) -> Callable[[Events], Events]:
    return lambda events: numbered([event for event in events if event["type"] != kind])


def twice(kind: str) -> Callable[[Events], Events]:
    def double(events: Events) -> Events:
        number = place(events, kind)
        again = {**events[number], "eventId": "another"}
        return numbered([*events[: number + 1], again, *events[number + 1 :]])

    return double


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (changed(1, sequence=7), ("line 2", "sequence is 7, expected 1")),
        (changed(2, runId="other"), ("line 3", "runId is 'other', the log is of 'run_a'")),
        (twice("eval.scored"), ("line 8", "task 'task-1' has two eval.scored events")),
        (
            twice("run.completed"),
            ("line 10", "run.completed comes after run.completed, which ends a run"),
        ),
        (
            without("agent.invocation.started"),
            ("line 5", "invocation 'inv-0001' was never started"),
        ),
        (
            without("agent.invocation.completed"),
            ("line 4", "invocation inv-0001 has no agent.invocation.completed"),
        ),
        (lambda _: [], ("line 1", "the log is empty")),
    ],
)
def test_what_breaks_a_rule_is_told_with_its_line(
    change: Callable[[Events], Events], problem: tuple[str, str]
) -> None:
    assert problem in found(change(lines()))


def test_a_sound_log_and_one_of_an_open_run_have_no_problems() -> None:
    assert found(lines()) == []
    assert found(lines()[:5]) == []
    with_blanks = b"\n\n".join(json.dumps(event).encode() for event in lines())
    assert check_events(with_blanks.split(b"\n"), "line") == []


def test_what_is_no_event_is_told_with_its_place() -> None:
    (torn, *_) = check_events([b"{"], "event")
    assert (torn.path, torn.message.startswith("not valid JSON: ")) == ("event 1", True)
    events = lines()
    del events[0]["type"]
    assert found(events)[0][0].startswith("line 1 $")
    events = lines()
    number = place(events, "eval.scored")
    del events[number]["payload"]["taskId"]
    assert found(events)[0][0] == f"line {number + 1} $.payload"
    events = lines()
    events[1]["eventId"] = events[0]["eventId"]
    assert (found(events)[0]) == ("line 2", f"duplicate eventId {events[0]['eventId']!r}")
