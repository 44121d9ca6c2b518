"""Flushing and closing while others append: nothing is forgotten, nobody waits for ever."""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from log_events import (
    PATIENCE,
    UNUSUAL,
    Place,
    a_start,
    an_event,
    nobody_can_write,
    numbered,
    opened,
    types_of,
    written,
)

from evalwright.contracts.errors import StoreError
from evalwright.store import writer
from evalwright.store.protocol import EventLog
from evalwright.store.sqlite import file_writer
from evalwright.store.sqlite import log as sqlite
from evalwright.store.sqlite.log import SqliteLog
from subjects.waiting import eventually

pytestmark = pytest.mark.both_databases


def test_a_flush_that_nobody_waits_for_any_more_does_not_stop_the_writer(log: EventLog) -> None:
    log.append("run", [a_start()])
    assert log.flush("run").cancel()

    log.append("run", [an_event()])
    written(log)


async def _flush_until_cancelled(log: EventLog) -> None:
    async with asyncio.timeout(0):
        await asyncio.wrap_future(log.flush("run"))


def test_a_timeout_while_flushing_does_not_stop_the_writer(log: EventLog, path: Place) -> None:
    with nobody_can_write(path):
        log.append("run", [a_start()])
        with pytest.raises(TimeoutError):
            asyncio.run(_flush_until_cancelled(log))

    written(log)
    assert types_of(path) == ["run.started"]


class Interruption:
    """Something that happens once, around a call or at the end of a context."""

    def __init__(self, subject: Any, deed: Callable[[], None]) -> None:
        self._subject = subject
        self._deeds = [deed]

    def before(self) -> None:
        self._happen()
        self._subject()

    def after(self) -> None:
        self._subject()
        self._happen()

    def __enter__(self) -> None:
        self._subject.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._subject.__exit__(*raised)
        if threading.current_thread().name == "event-log-writer":
            self._happen()

    def _happen(self) -> None:
        if self._deeds:
            self._deeds.pop()()


MOMENTS: dict[str, Callable[[Any, Callable[[], None]], None]] = {
    "before it lowers the first signal": lambda writer, deed: setattr(
        writer._arrived, "clear", Interruption(writer._arrived.clear, deed).before
    ),
    "after it lowered the first signal": lambda writer, deed: setattr(
        writer._arrived, "clear", Interruption(writer._arrived.clear, deed).after
    ),
    "before it lowers the second signal": lambda writer, deed: setattr(
        writer._hurry, "clear", Interruption(writer._hurry.clear, deed).before
    ),
    "after it lowered the second signal": lambda writer, deed: setattr(
        writer._hurry, "clear", Interruption(writer._hurry.clear, deed).after
    ),
    "after it took the queue": lambda writer, deed: setattr(
        writer, "_queue", Interruption(writer._queue, deed)
    ),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_what_arrives_while_the_writer_turns_to_its_queue_is_not_forgotten(
    log: EventLog,
    path: Place,
    moment: Callable[[Any, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "GATHER_SECONDS", UNUSUAL)
    flushes: list[Future[None]] = []

    def append_and_flush() -> None:
        log.append("run", [an_event()])
        flushes.append(log.flush("run"))

    moment(log._database.writer, append_and_flush)
    log.append("run", [a_start()])
    written(log)

    flushes[0].result(PATIENCE)
    assert types_of(path) == ["run.started", "agent.decided"]


def test_a_log_is_not_closed_between_the_look_at_an_append_and_its_queueing(path: Place) -> None:
    log = opened(path)
    queue = log._database.writer._queue
    closing = threading.Thread(target=log.close)

    class Slow(str):
        """A run id at which the writer looks for so long that somebody closes the log."""

        __slots__ = ()

        def __hash__(self) -> int:
            if closing.ident is None:
                closing.start()
                eventually(lambda: queue.locked() or not closing.is_alive(), "the log closes")
            return super().__hash__()

    log.append(Slow("run"), [a_start()])
    closing.join()

    assert types_of(path) == ["run.started"]


def test_an_append_while_the_log_is_closed_is_either_written_or_refused(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / f"{attempt}.db"
        log = opened(path)
        taken = Counter[str]()
        began = threading.Barrier(4)

        def work(
            run_id: str,
            log: EventLog = log,
            began: threading.Barrier = began,
            taken: Counter[str] = taken,
        ) -> None:
            log.append(run_id, [an_event()])
            began.wait(PATIENCE)
            taken[run_id] = 1
            for _ in range(100_000):
                try:
                    log.append(run_id, [an_event()])
                except StoreError:
                    return
                taken[run_id] += 1
            raise AssertionError("a closed log goes on taking events")

        workers = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
        for worker in workers:
            worker.start()
        began.wait(PATIENCE)
        log.close()
        for worker in workers:
            worker.join()

        assert {name: len(types_of(path, name)) for name in taken} == taken


def test_a_flush_while_the_log_is_closed_is_answered(tmp_path: Path) -> None:
    for attempt in range(20):
        log = SqliteLog(tmp_path / f"{attempt}.db")
        log.append("run", [a_start()])
        began = threading.Event()
        answers: list[object] = []

        def work(
            log: EventLog = log,
            began: threading.Event = began,
            answers: list[object] = answers,
        ) -> None:
            for _ in range(100_000):
                try:
                    flush = log.flush("run")
                except StoreError as refused:
                    answers.append(refused)
                    return
                began.set()
                answers.append(flush.result(PATIENCE))

        worker = threading.Thread(target=work)
        worker.start()
        assert began.wait(PATIENCE)
        log.close()
        worker.join()

        assert "closed" in str(answers.pop())
        assert set(answers) <= {None}


@pytest.mark.sqlite_only
def test_threads_that_begin_together_share_one_writer(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    class CountedWriter(file_writer.SqliteWriter):
        def __init__(self, connection: sqlite3.Connection, place: str, *rest: Any) -> None:
            started.append(place)
            super().__init__(connection, place, *rest)

    monkeypatch.setattr(sqlite, "SqliteWriter", CountedWriter)
    began = threading.Barrier(8)

    def work() -> None:
        began.wait(PATIENCE)
        log.append("run", [an_event()])

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    written(log)

    assert len(started) == 1
    assert len(list(log.read("run"))) == 8


# Closing.


def test_closing_writes_what_is_queued(path: Place) -> None:
    log = opened(path)
    for number in range(500):
        log.append("run", numbered(number))
    log.close()

    assert len(types_of(path)) == 500


def test_a_log_may_be_closed_twice_and_without_having_been_used(path: Place) -> None:
    unused = opened(path)
    unused.close()
    unused.close()

    used = opened(path)
    used.append("run", [a_start()])
    used.close()
    used.close()
    assert types_of(path) == ["run.started"]


USES: dict[str, Callable[[EventLog], object]] = {
    "append": lambda log: log.append("run", [an_event()]),
    "flush": lambda log: log.flush("run").result(PATIENCE),
    "watch": lambda log: log.watch("new", lambda _: None),
    "observe": lambda log: log.observe(lambda *_: None),
    "read": lambda log: list(log.read("run")),
    "edges": lambda log: log.edges("run"),
    "run_ids": lambda log: log.run_ids(),
    "abandoned_runs": lambda log: log.upkeep.abandoned_runs(),
    "a tenant's run_ids": lambda log: log.for_tenant("a").run_ids(),
    "records.get": lambda log: log.records.get("suite", "a", "key"),
    "records.list": lambda log: log.records.list("suite", "a"),
    "records.of_all_tenants": lambda log: log.records.of_all_tenants("suite"),
    "records.write": lambda log: log.records.write([]),
    "is_claimed": lambda log: log.is_claimed("run"),
    "claim": lambda log: log.claim("run").__enter__(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("past", ["a writer", "a reader"])
def test_a_closed_log_says_so(path: Place, use: Callable[[EventLog], object], past: str) -> None:
    log = opened(path)
    log.append("run", [a_start()])
    log.close()
    if past == "a reader":
        log = opened(path)
        log.close()

    with pytest.raises(StoreError, match=r": .*closed"):
        use(log)
    assert types_of(path) == ["run.started"]
