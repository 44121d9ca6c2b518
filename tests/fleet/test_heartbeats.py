"""The process that speaks for a worker whose loop is held: both of its ends, in this process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evalwright.engine.fleet import heartbeat
from evalwright.engine.fleet.heartbeat import HeartbeatProcess, is_stopped
from fleet.workers_here import Fleet, until

WORKER = uuid.UUID(int=7)


class Child:
    """A process that only seems to be one."""

    made: ClassVar[list["Child"]] = []

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.reading, writing = os.pipe()
        self.stdin = os.fdopen(writing, "wb", buffering=0)
        self.answering, answer = os.pipe()
        self.stdout = os.fdopen(self.answering, "rb")
        os.write(answer, b".")
        os.close(answer)
        self.code: int | None = None
        self.ends: list[str] = []
        self.made.append(self)

    def poll(self) -> int | None:
        return self.code

    def kill(self) -> None:
        self.ends.append("killed")

    def communicate(self) -> None:
        self.ends.append("awaited")

    def said(self) -> bytes:
        return os.read(self.reading, 1000)

    def close(self) -> None:
        os.close(self.reading)
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Child, "made", [])
    monkeypatch.setattr(heartbeat.subprocess, "Popen", Child)
    yield Child.made
    for child in Child.made:
        child.close()


def test_a_worker_keeps_one_process_for_its_heartbeats_and_replaces_one_that_ended(
    made: list[Child],
) -> None:
    process = HeartbeatProcess("postgresql://db", WORKER, 0.5)
    process.start()
    (child,) = made
    facts = ["postgresql://db", str(WORKER), 0.5, os.getpid()]
    assert child.said() == json.dumps(facts).encode() + b"\n"
    assert child.stdout.read() == b"", "it was waited for"
    assert not os.get_blocking(child.stdin.fileno()), "who does not read holds nobody up"
    assert child.command[0] == sys.executable
    assert child.command[-2:] == ["-m", "evalwright.engine.fleet.heartbeat"]
    assert child.options["start_new_session"] is True
    process.report()
    assert child.said() == b"\n"
    assert (len(made), child.ends) == (1, [])
    child.code = 1
    process.report()
    assert (len(made), child.ends) == (2, ["killed", "awaited"])
    process.close()
    process.close()
    assert made[1].ends == ["killed", "awaited"]


def test_a_process_that_takes_nothing_more_is_ended_and_replaced_with_the_next_report(
    made: list[Child],
) -> None:
    process = HeartbeatProcess("postgresql://db", WORKER, 0.5)
    process.report()
    os.set_blocking(made[0].stdin.fileno(), False)
    while not made[0].ends:
        process.report()
    assert made[0].ends == ["killed", "awaited"]
    process.report()
    assert len(made) == 2


def test_a_process_that_was_stopped_works_on_nothing_until_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        try:
            assert not is_stopped(child.pid)
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert is_stopped(child.pid)
            asked: list[list[str]] = []

            def run(command: list[str], **options: Any) -> Any:
                asked.append(command)
                assert options == {"capture_output": True, "check": False}
                return subprocess.CompletedProcess(command, 0, b"T+\n" if len(asked) < 2 else b"S")

            monkeypatch.setattr(heartbeat, "Path", lambda place: Path(f"/nowhere{place}"))
            monkeypatch.setattr(heartbeat.subprocess, "run", run)
            assert is_stopped(child.pid), "another system says it with ps"
            assert not is_stopped(child.pid)
            assert asked == [["/bin/ps", "-o", "state=", "-p", str(child.pid)]] * 2
        finally:
            child.kill()


def test_the_process_speaks_for_a_worker_that_is_silent_until_that_ends(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    ready, is_ready = [], threading.Event()
    write = os.write

    def say(place: int, message: bytes) -> int:
        if place != 1:
            return write(place, message)
        ready.append(message)
        is_ready.set()
        return len(message)

    class Watched(heartbeat._WatchedWorker):
        def __init__(self, *facts: Any) -> None:
            super().__init__(*facts)
            watched.append(self)

    watched: list[Any] = []
    monkeypatch.setattr(heartbeat, "_WatchedWorker", Watched)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading, "rb"))
    monkeypatch.setattr(heartbeat.os, "write", say)
    seen = "SELECT seen_at FROM fleet_workers WHERE worker = $1"
    named = "INSERT INTO fleet_workers (worker, name, concurrency, seen_at)"
    row = f"{named} VALUES ($1, 'held', 1, now() - interval '1 h')"

    async def work() -> None:
        async with fleet.database() as database:
            await database.fetch(row, WORKER)
            before = (await database.fetchrow(seen, WORKER))[0]

            async def is_seen_after(moment: Any) -> bool:
                return bool((await database.fetchrow(seen, WORKER))[0] > moment)

            write(
                writing, json.dumps([database.url, str(WORKER), 0.1, os.getppid()]).encode() + b"\n"
            )
            watching = asyncio.create_task(heartbeat._watch_worker())
            await until(lambda: asyncio.sleep(0, is_ready.is_set()))
            assert ready == [b"."]
            await until(lambda: is_seen_after(before))
            first = (await database.fetchrow(seen, WORKER))[0]
            await until(lambda: is_seen_after(first))
            os.close(writing)
            await watching
            watched[0]._connection.terminate()  # else the end of the process closes it

    asyncio.run(work())


class FailingConnection:
    """One that was lost without anybody's noticing."""

    closed = False

    def is_closed(self) -> bool:
        return self.closed

    async def execute(self, *_: Any) -> None:
        raise ConnectionResetError

    def terminate(self) -> None:
        self.closed = True


def test_nothing_is_said_for_a_worker_that_speaks_or_was_stopped_or_is_silent_for_too_long(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, is_held = [1000.0], [False]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(heartbeat, "is_stopped", lambda _pid: is_held[0])
    worker = uuid.UUID(int=8)

    async def work() -> None:
        async with fleet.database() as database:
            added = "INSERT INTO fleet_workers (worker, name, concurrency) VALUES ($1, 'x', 1)"
            await database.fetch(added, worker)
            watched = heartbeat._WatchedWorker(database.url, str(worker), 2.0, os.getppid())

            async def is_heard_of() -> bool:
                old = "UPDATE fleet_workers SET seen_at = 'epoch' WHERE worker = $1"
                await database.fetch(old, worker)
                await watched.beat()
                found = "SELECT seen_at > 'epoch' FROM fleet_workers WHERE worker = $1"
                return bool((await database.fetchrow(found, worker))[0])

            heard = []
            for silent in (0, 2.5, 2.6, 299, 300):
                now[0] = watched.heard_at + silent
                heard.append(await is_heard_of())
            assert heard == [False, False, True, True, False]
            now[0] = watched.heard_at + 3
            is_held[0] = True
            assert not await is_heard_of()
            is_held[0] = False
            watched._connection.terminate()  # type: ignore[union-attr]
            await is_heard_of()
            assert await is_heard_of(), "over another connection"
            kept = watched._connection
            assert await is_heard_of()
            assert watched._connection is kept
            assert not watched.is_orphan
            failing = FailingConnection()
            watched._connection = failing  # type: ignore[assignment]
            assert not await is_heard_of(), "the database is away"
            assert failing.closed
            kept.terminate()
            assert await is_heard_of(), "it is back"
            watched._connection.terminate()  # type: ignore[union-attr]

    asyncio.run(work())
