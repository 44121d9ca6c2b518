"""Which of many waiting writes are written next: as many of each run, in order, and short first."""

from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import grows_at_most
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.writes import FEW, MANY, Flush, WaitingWrites, Write, due_flushes

pytestmark = pytest.mark.both_databases


runs = st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=4 * MANY)


def writes(names: list[str | None]) -> list[Write]:
    """Writes of runs, each with a number."""
    return [Write(name, [NewEvent("t", None, n, b"{}")], ()) for n, name in enumerate(names)]


def waiting_for(names: list[str | None]) -> WaitingWrites:
    """Such writes, all of which wait."""
    waiting = WaitingWrites()
    for write in writes(names):
        waiting.add(write)
    return waiting


@given(names=runs, put_back=st.lists(st.integers(0, 5), max_size=5))
def test_nothing_is_lost_and_each_run_stays_in_order(
    names: list[str | None], put_back: list[int]
) -> None:
    waiting, taken = waiting_for(names), list[Write]()
    while waiting.count:
        some = waiting.next_batch()
        assert some
        if put_back and put_back.pop():  # the disk was full
            waiting.put_back(some)
        else:
            assert None not in waiting, "documents never wait"
            taken += some
    for name in ("a", "b", "c", None):
        assert [w for w in taken if w.run_id == name] == [
            w for w in writes(names) if w.run_id == name
        ]


def test_few_writes_and_those_of_one_run_are_written_together_in_order() -> None:
    for names in (["a", None, "b"] * (MANY // 3), ["a"] * 1000):
        waiting = waiting_for(names)
        assert waiting.next_batch() == writes(names)
        assert not waiting.count


def test_of_many_writes_each_run_gets_as_many() -> None:
    waiting = waiting_for(["a"] * 500 + ["b"] * 500)
    assert [write.run_id for write in waiting.next_batch()] == ["a"] * (MANY // 2) + ["b"] * (
        MANY // 2
    )
    assert waiting.count == 1000 - MANY


def test_the_few_writes_of_a_run_go_ahead_unless_others_have_just_waited() -> None:
    waiting = waiting_for(["long"] * 500)
    for write in writes(["short"] * FEW + ["other"] * 100):
        waiting.add(write)
    assert {write.run_id for write in waiting.next_batch()} == {"short"}
    waiting.add(writes(["short"])[0])
    assert {write.run_id for write in waiting.next_batch()} == {"short", "long", "other"}


def test_taking_some_costs_the_same_however_many_wait() -> None:
    def take_often(count: int) -> None:
        for _ in range(100):
            waiting[count].next_batch()

    waiting = {count: waiting_for(["a", "b"] * count) for count in (2_000, 40_000)}
    assert grows_at_most(3, take_often, 2_000, 40_000, floor=0.05)


def test_a_flush_waits_for_what_is_written_later() -> None:
    flushes = [Flush((None, "a"), Future()), Flush(("acme", "b"), Future())]
    assert due_flushes(flushes, waiting_for([])) == (flushes, [])
    assert due_flushes(flushes, waiting_for(["b"])) == (flushes[:1], flushes[1:])


def test_many_writes_of_many_runs_are_all_durable_when_flushed(log: EventLog) -> None:
    names = [f"run-{n}" for n in range(40)]
    for number in range(100):
        for name in names:
            kind = "run.started" if number == 0 else "note"
            log.append(name, [NewEvent(kind, None, number, b"{}")])
    for name in reversed(names):
        log.flush(name).result(120)
        assert [event.at_us for event in log.read(name)] == list(range(100))
