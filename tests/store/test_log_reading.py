"""Reading: in order, by type, by the edges, and without holding a run in memory."""

import tracemalloc
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import Place, a_score, a_start, an_end, an_event, numbered, opened, written

from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.store.protocol import EventLog, NewEvent

pytestmark = pytest.mark.both_databases


def write(log: EventLog, run_id: str, events: list[NewEvent]) -> None:
    log.append(run_id, events)
    written(log, run_id)


def test_an_event_is_read_as_it_was_written(log: EventLog) -> None:
    body = '{"text":"naïve ✓ \\u0000 🙂"}'
    write(log, "run", [NewEvent("agent.decided", "task-1", 1_767_225_600_000_001, body.encode())])

    assert list(log.read("run")) == [
        Event("run", 0, "agent.decided", "task-1", 1_767_225_600_000_001, body.encode())
    ]


def test_only_the_types_asked_for_are_read_and_in_order(log: EventLog) -> None:
    write(log, "run", [a_start(), a_score("a"), an_event(), a_score("b"), an_end()])

    found = log.read("run", ["run.completed", "eval.scored"])

    assert [(event.sequence, event.type) for event in found] == [
        (1, "eval.scored"),
        (3, "eval.scored"),
        (4, "run.completed"),
    ]


def test_runs_are_listed_newest_first_and_keep_their_events_apart(log: EventLog) -> None:
    for run_id in ("b", "a", "c"):
        write(log, run_id, [a_start()])
    write(log, "b", [an_end()])

    assert log.run_ids() == ["c", "a", "b"]
    assert [event.type for event in log.read("b")] == ["run.started", "run.completed"]
    assert [event.type for event in log.read("c")] == ["run.started"]


def test_runs_are_listed_in_pages(log: EventLog) -> None:
    for number in range(7):
        write(log, f"run-{number}", [a_start()])
    with log.claim("without events"):
        pass

    assert log.run_ids(limit=3) == ["run-6", "run-5", "run-4"]
    assert log.run_ids(limit=3, before="run-4") == ["run-3", "run-2", "run-1"]
    assert log.run_ids(limit=3, before="run-1") == ["run-0"]
    assert log.run_ids(before="run-2") == ["run-1", "run-0"]
    assert log.run_ids(limit=9, before="run-0") == log.run_ids(limit=0) == []


def test_runs_before_an_unknown_one_are_the_users_mistake(log: EventLog) -> None:
    with pytest.raises(RunNotFound, match="no run unknown"):
        log.run_ids(before="unknown")


@pytest.mark.parametrize("end", TERMINAL_TYPES)
def test_runs_with_events_and_without_an_end_are_found(log: EventLog, end: str) -> None:
    write(log.for_tenant("b"), "first", [a_start()])
    write(log, "ended", [a_start(), an_end(end)])
    write(log.for_tenant("a"), "last", [a_start(), an_event()])
    with log.claim("without events"):
        pass

    assert log.upkeep.abandoned_runs() == [("first", "b"), ("last", "a")]
    assert log.for_tenant("a").upkeep.abandoned_runs() == [("last", "a")]
    assert log.for_tenant("c").upkeep.abandoned_runs() == []


@given(
    length=st.integers(1, 150),
    after=st.integers(-1, 160),
    limit=st.none() | st.integers(0, 160),
    types=st.sampled_from([[], ["x"], ["x", "y"], ["z"]]),
)
def test_a_part_of_a_run_is_what_a_slice_of_all_of_it_would_be(
    shared_log: EventLog, length: int, after: int, limit: int | None, types: list[str]
) -> None:
    run_id = f"run-{length}"
    kinds = ["x" if number % 3 else "y" for number in range(length)]
    if run_id not in shared_log.run_ids():
        write(shared_log, run_id, [an_event(kind) for kind in kinds])

    found = shared_log.read(run_id, types, after, limit)

    expected = [
        (sequence, kind)
        for sequence, kind in enumerate(kinds)
        if sequence > after and (not types or kind in types)
    ]
    assert [(event.sequence, event.type) for event in found] == expected[:limit]


def test_a_claimed_run_without_events_is_read_as_empty(log: EventLog) -> None:
    with log.claim("run"):
        assert list(log.read("run")) == log.edges("run") == []


@pytest.mark.parametrize(
    ("length", "edges"),
    [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (5, [0, 1, 3, 4])],
)
def test_the_edges_of_a_run_are_its_first_and_last_two_events(
    log: EventLog, length: int, edges: list[int]
) -> None:
    write(log, "other", numbered(0, 9))
    write(log, "run", numbered(0, length))

    assert [int(event.body) for event in log.edges("run")] == edges


def test_an_unknown_run_is_the_users_mistake(log: EventLog, path: Place) -> None:
    for ask in (lambda: list(log.read("unknown")), lambda: log.edges("unknown")):
        with pytest.raises(RunNotFound, match=f"no run unknown in {path}; see `evalwright runs`"):
            ask()
    assert issubclass(RunNotFound, BadInput)


def test_a_large_run_is_streamed(log: EventLog, database: str) -> None:
    for _ in range(10):
        write(log, "run", [an_event(body="x" * 1_000)] * 2_000)
    tracemalloc.start()
    try:
        count = sum(1 for _ in log.read("run"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 20_000
    # Of 20 MB; a page of what is far away is larger.
    assert peak < (100_000 if database == "sqlite" else 4_000_000)


@pytest.mark.sqlite_only
def test_the_edges_of_a_large_run_are_found_without_reading_what_is_between(
    path: Place, steps: list[int]
) -> None:
    log = opened(path)
    write(log, "run", numbered(0, 20_000))
    log.close()
    log = opened(path)
    steps.clear()
    assert len(log.edges("run")) == 4
    log.close()

    assert (
        sum(steps) < 2_000
    )  # instructions of SQLite; to look at each event takes 100,000 and more


@pytest.mark.sqlite_only
def test_runs_are_found_among_many_that_have_ended_without_reading_those(
    path: Place, steps: list[int]
) -> None:
    log = opened(path)
    for number in range(500):
        view = log.for_tenant("busy" if number else "quiet")
        view.append(f"run-{number}", [a_start(), *[an_event()] * 50, an_end()])
    log.append("open", [a_start()])
    log.close()
    log = opened(path)

    def cost(ask: Callable[[], object], expected: object) -> int:
        steps.clear()
        assert ask() == expected
        return sum(steps)

    # Instructions of SQLite: one event takes about 10 of them, and there are 26,000.
    assert cost(log.upkeep.abandoned_runs, [("open", "local")]) < 500 * 50
    assert cost(log.for_tenant("quiet").upkeep.abandoned_runs, []) < 500
    assert cost(log.for_tenant("quiet").run_ids, ["run-0"]) < 500
    assert cost(lambda: log.run_ids(2, before="run-2"), ["run-1", "run-0"]) < 500
    busy = log.for_tenant("busy")
    assert cost(lambda: busy.run_ids(2, before="run-9"), ["run-8", "run-7"]) < 500
    assert cost(lambda: len(busy.edges("run-400")), 4) < 500
    log.close()


def test_a_run_may_be_read_while_it_grows(log: EventLog) -> None:
    """A reader sees a state of the log that was true at some moment, and never a gap."""
    write(log, "run", numbered(0, 100))
    reading = log.read("run")
    seen = [next(reading).sequence]
    write(log, "run", numbered(100, 100))
    seen += [event.sequence for event in reading]

    assert len(seen) >= 100
    assert all(after == before + 1 for before, after in pairwise(seen))
    assert len(list(log.read("run"))) == 200


def test_who_appends_to_the_run_that_he_reads_comes_to_an_end(log: EventLog) -> None:
    write(log, "run", numbered(0, 100))

    for event in log.read("run"):
        write(log, "run", numbered(100 + event.sequence))

    assert len(list(log.read("run"))) == 200


def test_several_runs_may_be_read_in_turns(log: EventLog) -> None:
    write(log, "a", numbered(0, 300))
    write(log, "b", numbered(0, 300))

    pairs = list(zip(log.read("a"), log.read("b"), strict=True))

    assert len(pairs) == 300
    assert all((a.run_id, b.run_id, a.sequence) == ("a", "b", b.sequence) for a, b in pairs)


def test_the_events_of_a_task_are_found_wherever_they_are(log: EventLog) -> None:
    others = [an_event(task_id="b")] * 100
    events = [a_start(), an_event(task_id="a"), *others, a_score("a"), a_score("b")]
    write(log, "run", events)

    assert log.upkeep.sequences_of("run", ["a"]) == {"a": [1, 102]}
    assert log.upkeep.sequences_of("run", ["b", "never", "a"])["b"] == [*range(2, 102), 103]
    assert log.upkeep.sequences_of("run", ["never"]) == {}
    assert log.upkeep.sequences_of("unknown", ["a"]) == {}
    assert log.for_tenant("acme").upkeep.sequences_of("run", ["a"]) == {}


@pytest.mark.sqlite_only
def test_the_score_of_a_task_is_found_without_reading_the_run(
    log: EventLog, steps: list[int], path: Place
) -> None:
    write(log, "other", [a_start(), a_score("b")])
    write(log, "run", [a_start(), *numbered(1, 3000), a_score("a"), an_event(), a_score("b")])
    log.for_tenant("acme").append("theirs", [a_start(), a_score("a")])
    written(log, "theirs")
    with closing(opened(path)) as counted:
        counted.upkeep.scored_at("run", ["a"])
        steps.clear()

        found = counted.upkeep.scored_at("run", ["b", "a", "never"])

        assert found == {"a": 3001, "b": 3003}
        assert sum(steps) < 2000
        assert counted.for_tenant("local").upkeep.scored_at("theirs", ["a"]) == {}
