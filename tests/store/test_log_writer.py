"""Appending: sequences, units, refusals, flushing and closing."""

import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from log_events import (
    PATIENCE,
    UNUSUAL,
    Place,
    a_score,
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
from evalwright.store import writer
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.sqlite import log as sqlite
from subjects.waiting import eventually

pytestmark = pytest.mark.both_databases


def writer_waits(log: EventLog) -> None:
    """The writer has taken an append and waits for the lock that the test holds."""
    log.append("first", [a_start()])
    eventually(lambda: in_hand(log) == 1, "the writer takes the append")


def in_hand(log: EventLog) -> int:
    """How many appends the writer has taken and not yet written."""
    return log._database.writer.waiting.in_hand


def test_events_get_their_sequence_in_the_order_of_appending(log: EventLog) -> None:
    log.append("run", numbered(0, 2))
    log.append("run", numbered(2))
    written(log)

    assert [(event.sequence, event.body) for event in log.read("run")] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]


def test_a_log_that_is_opened_again_goes_on_where_it_stopped(path: Place) -> None:
    for first in (0, 2, 4):
        log = opened(path)
        log.append("run", numbered(first, 2))
        log.close()

    with_bodies = opened(path)
    assert [int(event.body) for event in with_bodies.read("run")] == list(range(6))
    with_bodies.close()


def test_appends_of_many_threads_stay_whole_and_in_the_order_of_their_thread(
    log: EventLog,
) -> None:
    threads, appends, unit = 6, 60, 3

    def work(name: int) -> None:
        for number in range(appends):
            log.append("run", [an_event(body=f"{name} {number} {part}") for part in range(unit)])

    workers = [threading.Thread(target=work, args=(name,)) for name in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    written(log)

    events = list(log.read("run"))
    assert [event.sequence for event in events] == list(range(threads * appends * unit))
    bodies = [tuple(map(int, event.body.split())) for event in events]
    units = [bodies[start : start + unit] for start in range(0, len(bodies), unit)]
    assert all(
        part == [(name, number, 0), (name, number, 1), (name, number, 2)]
        for part in units
        for name, number, _ in part[:1]
    )
    for name in range(threads):
        assert [number for who, number, part in bodies if who == name and part == 0] == list(
            range(appends)
        )


def test_an_append_becomes_durable_although_nobody_flushes(log: EventLog, path: Place) -> None:
    log.append("run", [a_start()])

    eventually(lambda: rows_of(path) == [(0, "run.started")], "the event is in the file")


# Group commit.


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each statement has been executed by the logs that are opened from now on."""
    executed: Counter[str] = Counter()
    connect = sqlite.connect

    def traced(place: Path) -> sqlite3.Connection:
        connection = connect(place)
        connection.set_trace_callback(lambda sql: executed.update([sql]))
        return connection

    monkeypatch.setattr(sqlite, "connect", traced)
    return executed


@pytest.mark.sqlite_only
def test_appends_that_wait_for_the_disk_are_committed_together(
    statements: Counter[str], log: EventLog, path: Place
) -> None:
    with nobody_can_write(path):
        writer_waits(log)
        statements.clear()
        for number in range(1000):
            log.append("run", numbered(number))
    written(log)

    assert types_of(path) == ["agent.decided"] * 1000
    assert statements["COMMIT"] == 2  # the one that waited, and the thousand


@pytest.mark.sqlite_only
def test_an_append_that_nobody_waits_for_waits_for_company(
    statements: Counter[str], log: EventLog, path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GATHER_SECONDS", UNUSUAL)
    statements.clear()
    for number in range(200):
        log.append("run", numbered(number))
        time.sleep(0)  # the writer could have its turn here
    written(log)

    assert len(types_of(path)) == 200
    assert statements["COMMIT"] == 1


def test_flushing_and_closing_do_not_wait_out_the_gathering_time(
    path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GATHER_SECONDS", UNUSUAL)
    log = opened(path)
    log.append("run", [a_start()])
    written(log)
    assert types_of(path) == ["run.started"]

    log.append("run", [an_event()])
    log.close()
    assert types_of(path) == ["run.started", "agent.decided"]


def test_a_flush_waits_for_the_disk(log: EventLog, path: Place) -> None:
    with nobody_can_write(path):
        log.append("run", [a_start()])
        flush = log.flush("run")
        eventually(lambda: in_hand(log) == 1, "the writer takes the append")
        assert not flush.done()

    flush.result(PATIENCE)
    assert types_of(path) == ["run.started"]


def test_a_flush_of_a_run_without_appends_is_done_at_once(log: EventLog) -> None:
    assert log.flush("nothing").result(PATIENCE) is None


def test_the_backlog_counts_the_appends_that_wait_and_those_being_written(
    log: EventLog, path: Place
) -> None:
    assert log.backlog == 0
    with nobody_can_write(path):
        writer_waits(log)
        for number in range(7):
            log.append("run", numbered(number))
        assert log.backlog == 7 + 1
    written(log)
    assert log.backlog == 0


# Refusals.

BAD_APPENDS = {
    "a second score": [a_score("task-1")],
    "an event after an end": [an_end(), an_event()],
    "a second end": [an_end(), an_end("run.failed")],
    "a score without a task": [an_event("eval.scored", None)],
    "a body that is no text": [an_event()._replace(body=b"\xff")],
    "a body that is no bytes": [an_event()._replace(body=7)],  # type: ignore[arg-type]
    "a time beyond all numbers": [an_event()._replace(at_us=2**70)],
    "a type that is half a character": [an_event("\ud800")],
    "a task id that is no text": [an_event(task_id=["task"])],  # type: ignore[arg-type]
    "what is no event": [None],
}


@pytest.mark.parametrize("bad", BAD_APPENDS.values(), ids=BAD_APPENDS)
def test_a_bad_append_breaks_only_its_own_run(
    log: EventLog, path: Place, bad: list[NewEvent]
) -> None:
    with nobody_can_write(path):
        writer_waits(log)
        log.append("before", [a_start()])
        log.append("run", [a_start(), a_score("task-1")])
        log.append("run", [an_event(), *bad])
        log.append("run", [an_event("agent.reasoned")])
        log.append("after", [a_start()])

    with pytest.raises(LogConflict, match=r"run run in .* refused an event"):
        written(log, "run")
    written(log, "before")
    written(log, "after")
    assert types_of(path, "first") == types_of(path, "before") == types_of(path, "after")
    assert types_of(path, "run") == ["run.started", "eval.scored"]


def test_a_run_that_lost_an_event_takes_no_more(log: EventLog, path: Place) -> None:
    log.append("run", [a_start(), an_end()])
    log.append("run", [an_event()])
    with pytest.raises(LogConflict):
        written(log)

    frames = set()
    for _ in range(3):
        with pytest.raises(
            LogConflict, match="is another process executing the same run"
        ) as raised:
            log.append("run", [an_event()])
        frames.add(len(raised.traceback))
    assert len(frames) == 1, "each refusal keeps the frames of those before"
    with pytest.raises(LogConflict):
        written(log)
    assert types_of(path) == ["run.started", "run.completed"]


def test_what_was_queued_behind_a_lost_event_is_not_written_either(
    log: EventLog, path: Place
) -> None:
    """Else the log would look whole, with an event missing from its middle."""
    log.watch("innocent", lambda _: log.append("run", [an_event("agent.reasoned")]))
    with nobody_can_write(path):
        writer_waits(log)
        log.append("innocent", [a_start()])  # when it is written, the next group gets its append
        log.append("run", [a_start(), an_event("eval.scored", None)])

    with pytest.raises(LogConflict):
        written(log, "run")
    written(log, "innocent")
    assert types_of(path, "run") == []


# Watchers.


def test_watchers_hear_of_events_in_order_and_only_when_they_are_durable(
    log: EventLog, path: Place
) -> None:
    heard: list[bytes] = []
    in_the_file: list[int] = []

    def watcher(events: list[NewEvent]) -> None:
        heard.extend(event.body for event in events)
        in_the_file.append(len(rows_of(path)))
        assert in_the_file[-1] >= len(heard)

    log.watch("run", watcher)  # type: ignore[arg-type]
    for number in range(300):
        log.append("run", numbered(number))
        if number % 50 == 0:
            written(log)
    written(log)

    assert [int(body) for body in heard] == list(range(300))
    assert in_the_file[-1] == 300


def test_watchers_hear_nothing_of_refused_events_and_of_other_runs(log: EventLog) -> None:
    heard: list[str] = []
    log.watch("run", lambda events: heard.extend(event.type for event in events))
    log.append("other", [an_event("agent.reasoned")])
    log.append("run", [a_start(), an_end()])
    log.append("run", [an_event()])
    with pytest.raises(LogConflict):
        written(log)

    assert heard == ["run.started", "run.completed"]


def test_a_watcher_that_raises_is_logged_and_let_go_and_the_log_goes_on(
    log: EventLog, path: Place, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []
    heard: list[str] = []

    def clumsy(events: object) -> None:
        calls.append(1)
        raise ValueError("no such screen")

    log.watch("run", clumsy)
    log.watch("other", lambda events: heard.extend(event.type for event in events))
    with nobody_can_write(path):
        writer_waits(log)
        for _ in range(3):
            log.append("run", [an_event()])
        log.append("other", [a_start()])
    written(log)
    log.append("run", [an_event()])
    written(log)

    assert types_of(path) == ["agent.decided"] * 4
    assert heard == ["run.started"]
    assert len(calls) == 1
    assert "a watcher of run run failed" in caplog.text
    assert "no such screen" in caplog.text
