"""Observers: told of every run's events in order, and what a log that lives for long keeps."""

from collections import defaultdict
from collections.abc import Sequence

import pytest
from log_events import (
    Place,
    a_start,
    an_end,
    an_event,
    nobody_can_write,
    numbered,
    opened,
    rows_of,
    types_of,
    written,
)

from evalwright.contracts.errors import LogConflict
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

pytestmark = pytest.mark.both_databases


class Ear:
    """Hears of events, and keeps them by run with the sequences that they must have."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.heard: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)

    def __call__(self, run_id: str, first: int, events: Sequence[NewEvent]) -> None:
        self.calls.append((run_id, first, len(events)))
        self.heard[run_id] += [(first + n, event.body) for n, event in enumerate(events)]


def test_an_observer_is_told_the_run_the_first_sequence_and_the_events(log: EventLog) -> None:
    ear = Ear()
    log.observe(ear)

    log.append("one", numbered(0, 2))
    log.append("two", numbered(0))
    log.append("one", numbered(2, 3))
    written(log, "one")

    assert ear.calls == [("one", 0, 2), ("two", 0, 1), ("one", 2, 3)]
    assert ear.heard["one"] == [(number, b"%d" % number) for number in range(5)]


def test_an_observer_hears_of_all_runs_in_order_and_what_it_hears_is_durable(
    log: EventLog, path: Place
) -> None:
    ear = Ear()
    missing: list[str] = []

    def observer(run_id: str, first: int, events: Sequence[NewEvent]) -> None:
        ear(run_id, first, events)
        if len(rows_of(path, run_id)) < first + len(events):
            missing.append(run_id)

    log.observe(observer)
    for number in range(60):
        log.append(f"run-{number % 3}", numbered(2 * (number // 3), 2))
        if number % 25 == 0:
            written(log)
    written(log)

    assert missing == []
    for run in range(3):
        assert ear.heard[f"run-{run}"] == [(number, b"%d" % number) for number in range(40)]


def test_a_log_that_is_opened_again_tells_of_sequences_that_go_on(path: Place) -> None:
    for first in (0, 2):
        log = opened(path)
        ear = Ear()
        log.observe(ear)
        log.append("run", numbered(first, 2))
        log.close()

        assert ear.calls == [("run", first, 2)]


def test_observers_hear_nothing_of_refused_events_and_of_documents_alone(log: EventLog) -> None:
    ear = Ear()
    log.observe(ear)
    log.append("run", [a_start(), an_end()])
    log.append("run", [an_event()])
    log.records.write([RecordChange("note", "a", "key", b"text")])
    with pytest.raises(LogConflict):
        written(log)

    assert ear.calls == [("run", 0, 2)]


def test_an_observer_that_raises_is_logged_and_let_go_and_others_are_not(
    log: EventLog, path: Place, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    ear = Ear()

    def clumsy(run_id: str, first: int, events: object) -> None:
        calls.append(run_id)
        raise ValueError("no such socket")

    log.observe(clumsy)
    log.observe(ear)
    with nobody_can_write(path):
        log.append("one", numbered(0))
        log.append("two", numbered(0))
    written(log, "one")
    log.append("one", numbered(1))
    written(log, "one")

    assert calls == ["one"]
    assert "an observer failed and is not called again" in caplog.text
    assert "no such socket" in caplog.text
    assert ear.calls == [("one", 0, 1), ("two", 0, 1), ("one", 1, 1)]
    assert types_of(path, "one") == ["agent.decided"] * 2


def test_an_observer_may_read_and_append(log: EventLog) -> None:
    found: list[int] = []

    def observer(run_id: str, first: int, events: Sequence[NewEvent]) -> None:
        found.append(len(list(log.read(run_id))))
        if run_id == "run" and first == 0:
            log.append("echo", [a_start()])

    log.observe(observer)
    log.append("run", numbered(0, 3))
    written(log)
    written(log, "echo")

    assert found == [3, 1]


# What is kept.


@pytest.mark.parametrize("end", TERMINAL_TYPES)
def test_nothing_is_kept_of_a_run_that_has_ended(log: EventLog, end: str) -> None:
    view = log.for_tenant("a")
    for number in range(50):
        run_id = f"run-{number}"
        log.watch(run_id, lambda _: None)
        view.watch(run_id, lambda _: None)
        view.append(run_id, [a_start()])
        view.append(run_id, [an_end(end)])
    written(view, "run-49")
    for number in range(50):
        view.append(f"run-{number}", [], [RecordChange("note", "a", f"{number}", b"text")])
    written(view, "run-49")

    assert kept(log) == {"_positions": 0, "_watchers": 0, "_broken": 0}


def test_of_a_run_that_lost_events_only_the_loss_is_kept(log: EventLog) -> None:
    log.watch("run", lambda _: None)
    log.append("run", [a_start()])
    log.append("run", [an_event("eval.scored", None)])
    with pytest.raises(LogConflict):
        written(log)

    assert kept(log) == {"_positions": 0, "_watchers": 0, "_broken": 2}


def test_an_open_run_is_known_until_it_ends(log: EventLog) -> None:
    log.watch("run", lambda _: None)
    log.append("run", [a_start()])
    written(log)

    assert kept(log) == {"_positions": 1, "_watchers": 1, "_broken": 0}


def kept(log: EventLog) -> dict[str, int]:
    writer = log._database.writer
    return {name: len(getattr(writer, name)) for name in ("_positions", "_watchers", "_broken")}
