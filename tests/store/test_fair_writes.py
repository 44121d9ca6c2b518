"""Which of many waiting writes are written next: as many of each run, in order, and short first."""

from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite import SqliteLog
from evalwright.store.writes import FEW, MANY, Flush, Write, due_flushes, fair_part

runs = st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=4 * MANY)


def writes(names: list[str | None]) -> list[Write]:
    """Writes of runs, each with a number."""
    return [Write(name, [NewEvent("t", None, n, b"{}")], ()) for n, name in enumerate(names)]


@given(names=runs, few_first=st.booleans())
def test_nothing_is_lost_and_each_run_stays_in_order(
    *, names: list[str | None], few_first: bool
) -> None:
    waiting = writes(names)
    now, later = fair_part(list(waiting), few_first=few_first)
    assert now or not waiting
    for name in ("a", "b", "c", None):
        assert [w for w in now + later if w.run_id == name] == [
            w for w in waiting if w.run_id == name
        ]
    assert all(write.run_id is not None for write in later)


def test_few_writes_and_those_of_one_run_are_written_together() -> None:
    for waiting in (writes(["a", "b"] * (MANY // 2)), writes(["a"] * 1000)):
        assert fair_part(waiting, few_first=True) == (waiting, [])


def test_of_many_writes_each_run_gets_as_many() -> None:
    now, later = fair_part(writes(["a"] * 500 + ["b"] * 500), few_first=False)
    assert [write.run_id for write in now] == ["a"] * (MANY // 2) + ["b"] * (MANY // 2)
    assert len(now) + len(later) == 1000


def test_the_few_writes_of_a_run_go_ahead_every_second_time() -> None:
    waiting = writes(["long"] * 500 + ["short"] * FEW)
    now, _ = fair_part(list(waiting), few_first=True)
    assert {write.run_id for write in now} == {"short"}
    now, _ = fair_part(list(waiting), few_first=False)
    assert {write.run_id for write in now} == {"short", "long"}


def test_a_flush_waits_for_what_is_written_later() -> None:
    flushes = [Flush((None, "a"), Future()), Flush(("acme", "b"), Future())]
    assert due_flushes(flushes, []) == (flushes, [])
    assert due_flushes(flushes, writes(["b"])) == (flushes[:1], flushes[1:])


def test_many_writes_of_many_runs_are_all_durable_when_flushed(log: SqliteLog) -> None:
    names = [f"run-{n}" for n in range(40)]
    for number in range(100):
        for name in names:
            kind = "run.started" if number == 0 else "note"
            log.append(name, [NewEvent(kind, None, number, b"{}")])
    for name in reversed(names):
        log.flush(name).result(30)
        assert [event.at_us for event in log.read(name)] == list(range(100))
