"""Reading beside the thread that serves everybody: fair threads, and what they remember."""

import threading
from collections.abc import Iterator

import pytest

from evalwright.contracts.events import Event
from evalwright.store import readers
from evalwright.store.readers import EndedRuns, ReadingThreads

PATIENCE = 120


@pytest.fixture
def threads() -> Iterator[ReadingThreads]:
    threads = ReadingThreads(most=3, most_per_share=2)
    yield threads
    threads.close()


class Gate:
    """Reads that wait until they may go on, and note that they began."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.begun = threading.Semaphore(0)
        self.names: list[str] = []

    def read(self, name: str) -> str:
        self.names.append(name)
        self.begun.release()
        assert self._open.wait(PATIENCE)
        return name

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)

    def open(self) -> None:
        self._open.set()


def test_what_was_read_or_raised_comes_to_who_asked(threads: ReadingThreads) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    assert threads.submit("acme", lambda: 7).result(PATIENCE) == 7
    with pytest.raises(OSError, match="the disk is gone"):
        threads.submit("acme", fail).result(PATIENCE)
    assert threads.submit("acme", threading.get_ident).result(PATIENCE) != threading.get_ident()


def test_one_share_leaves_a_thread_to_the_others(threads: ReadingThreads) -> None:
    gate = Gate()
    mine = [threads.submit("acme", lambda n=n: gate.read(f"mine {n}")) for n in range(9)]
    gate.wait_for(2)
    assert threads.submit("other", lambda: "read").result(PATIENCE) == "read"
    assert gate.names == ["mine 0", "mine 1"]
    gate.open()
    assert [done.result(PATIENCE) for done in mine] == [f"mine {n}" for n in range(9)]


def test_when_one_read_of_a_share_ends_one_more_of_it_begins(threads: ReadingThreads) -> None:
    first, others = Gate(), Gate()
    reads = [threads.submit("acme", lambda: first.read("one"))]
    reads += [threads.submit("acme", lambda n=n: others.read(n)) for n in ("two", "three", "four")]
    first.wait_for(1)
    others.wait_for(1)
    first.open()
    others.wait_for(1)
    assert threads.submit("other", lambda: "read").result(PATIENCE) == "read"
    assert others.names == ["two", "three"]
    others.open()
    assert [read.result(PATIENCE) for read in reads] == ["one", "two", "three", "four"]


def test_shares_take_turns_however_much_one_asks_for() -> None:
    threads, gate = ReadingThreads(most=1, most_per_share=1), Gate()
    first = threads.submit("acme", lambda: gate.read("first"))
    gate.wait_for(1)
    done = [threads.submit("acme", lambda: gate.names.append("acme")) for _ in range(5)]
    done += [threads.submit("other", lambda: gate.names.append("other")) for _ in range(2)]
    gate.open()
    for each in (first, *done):
        each.result(PATIENCE)
    threads.close()
    assert gate.names == ["first", "acme", "other", "acme", "other", "acme", "acme", "acme"]


def test_closing_does_what_is_queued_and_then_refuses_more() -> None:
    threads = ReadingThreads(most=1)
    done = [threads.submit("acme", lambda n=n: n) for n in range(50)]
    threads.close()
    assert [each.result(0) for each in done] == list(range(50))
    with pytest.raises(RuntimeError):
        threads.submit("acme", int)


# Ended runs.


def edges(run_id: str, end: str = "run.completed", size: int = 10) -> list[Event]:
    return [
        Event(run_id, 0, "run.started", None, 0, b"{}"),
        Event(run_id, 1, end, None, 0, b"x" * size),
    ]


def test_only_ended_runs_are_remembered_and_only_for_their_tenant() -> None:
    ended = EndedRuns()
    ended.put("acme", "run_1", edges("run_1"))
    ended.put("acme", "run_2", edges("run_2", "eval.scored"))
    ended.put("acme", "run_3", [])
    assert ended.get("acme", "run_1") == edges("run_1")
    assert ended.get("other", "run_1") is ended.get(None, "run_1") is None
    assert ended.get("acme", "run_2") is ended.get("acme", "run_3") is None
    ended.clear()
    assert ended.get("acme", "run_1") is None


def test_a_run_is_read_again_after_a_while() -> None:
    now = [0.0]
    ended = EndedRuns(clock=lambda: now[0])
    ended.put("acme", "run_1", edges("run_1"))
    now[0] = readers.ENDED_SECONDS
    assert ended.get("acme", "run_1") is None


def test_no_more_is_remembered_than_the_bound_allows() -> None:
    ended = EndedRuns(most_bytes=30)
    for run_id in ("run_1", "run_2", "run_2", "run_3"):
        ended.put("acme", run_id, edges(run_id))
    kept = [run_id for run_id in ("run_1", "run_2", "run_3") if ended.get("acme", run_id)]
    assert kept == ["run_2", "run_3"]
