"""Files of earlier versions are brought up to date whole, or stay as they are."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from evalwright.contracts.errors import StoreError
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite import log as sqlite
from evalwright.store.sqlite import migration
from evalwright.store.sqlite.log import SqliteLog
from faults import old_logs
from faults.soaking import scaled, seeds
from subjects.waiting import eventually

RUNS, TASKS = 12, 40


@pytest.fixture
def old(tmp_path: Path) -> list[old_logs.Row]:
    """The events of `old.db`, a log of schema 2."""
    return old_logs.write_old_log(tmp_path / "old.db", 2, RUNS, TASKS)


def died(folder: Path, moments: list[str]) -> list[bool]:
    """Open copies of `old.db` as 0.db, 1.db and so on, each dying at its moment."""
    command = [sys.executable, old_logs.__file__, str(folder), *moments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return [line == "True" for line in done.stdout.split()]


def assert_whole(path: Path, expected: list[old_logs.Row]) -> int:
    """The file is as it was or up to date, and then it can be used; returns which it was."""
    version, as_before = old_logs.version_and_events(path)
    assert as_before in (None, expected)
    assert old_logs.events_in(path) == expected
    log = SqliteLog(path)
    facts = {run.run_id: run for run in log.find_runs()}
    assert {name: run.events for name, run in facts.items()} == {
        f"run-{number}": TASKS * 2 + 3 + number % 2 for number in range(1, RUNS + 1)
    }
    assert sum(run.bytes for run in facts.values()) == sum(len(row[5]) for row in expected)
    log.append("run-2", [NewEvent("run.completed", None, 0, b"{}")])
    log.flush("run-2").result(120)
    log.close()
    return version


@pytest.mark.parametrize("version", [1, 2])
def test_every_event_of_an_old_log_is_read_as_it_was_written(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    expected = old_logs.write_old_log(path, version, RUNS, TASKS)

    assert assert_whole(path, expected) == version
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(*) FROM contents").fetchone() == (3,)  # the suites
        largest = "SELECT max(length(body)) FROM events WHERE type = 'evalwright.planned'"
        assert raw.execute(largest).fetchone()[0] < 100


def test_a_run_that_began_with_large_inputs_is_listed_as_before(tmp_path: Path) -> None:
    """Its beginning is shared before its facts are derived."""
    path = tmp_path / "old.db"
    old_logs.write_old_log(path, 2, 1, 1, notes="x" * 9000)

    log = SqliteLog(path)
    (run,) = log.find_runs()
    log.close()

    assert (run.workflow, run.suite, run.tags) == ("w", "s@1", ["nightly"])


@pytest.mark.parametrize("seed", seeds(short=2, long=50))
def test_damaged_events_are_kept_as_they_are_and_keep_nobody_from_the_others(
    tmp_path: Path, seed: int
) -> None:
    path, chance = tmp_path / "old.db", random.Random(seed)
    written = old_logs.write_old_log(path, 2, RUNS, 1, notes="ü" * 3000)

    def damaged(body: bytes) -> bytes:
        at = chance.randrange(len(body))
        return body[:at] + bytes([chance.choice([0x00, 0x22, 0x5C, 0x80, 0xC3, 0xFF])]) + body[at:]

    expected = [(*row[:5], damaged(row[5]) if row[1] < 3 else row[5]) for row in written]
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER events_are_never_changed")
        raw.executemany(
            "UPDATE events SET body = CAST(? AS TEXT) WHERE seq = ?"
            " AND run = (SELECT run FROM runs WHERE run_id = ?)",
            [(row[5], row[1], row[0]) for row in expected],
        )
        raw.execute(
            "CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events"
            " BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END"
        )

    assert old_logs.events_in(path) == expected
    log = SqliteLog(path)
    assert len(log.find_runs()) == RUNS
    log.close()


@pytest.mark.parametrize("seed", seeds(short=1, long=12))
def test_a_process_that_is_killed_at_any_write_leaves_the_old_log_or_the_new(
    tmp_path: Path, old: list[old_logs.Row], seed: int
) -> None:
    """SIGXFSZ kills at the very write that makes a file too long, also in the middle of a page."""
    size = (tmp_path / "old.db").stat().st_size
    chance = random.Random(seed)
    limits = [0, *sorted(chance.randrange(int(size * 2.2)) for _ in range(scaled(10, 40)))]
    deaths = died(tmp_path, [str(limit) for limit in limits])

    found = [assert_whole(tmp_path / f"{number}.db", old) for number in range(len(limits))]
    assert deaths[0]
    assert deaths[1:] == sorted(deaths[1:], reverse=True)
    assert {version for version, dead in zip(found, deaths, strict=True) if not dead} <= {
        migration.VERSION
    }


@pytest.mark.parametrize("seed", seeds(short=1, long=12))
def test_a_process_that_is_killed_at_any_time_leaves_the_old_log_or_the_new(
    tmp_path: Path, old: list[old_logs.Row], seed: int
) -> None:
    shutil.copyfile(tmp_path / "old.db", tmp_path / "whole.db")
    began = time.monotonic()
    SqliteLog(tmp_path / "whole.db").close()
    whole = time.monotonic() - began
    chance = random.Random(seed)
    moments = [f"@{chance.uniform(0, whole * 1.2):.6f}" for _ in range(scaled(10, 40))]

    died(tmp_path, moments)

    for number in range(len(moments)):
        assert_whole(tmp_path / f"{number}.db", old)


@pytest.mark.parametrize("seed", seeds(short=3, long=30))
def test_a_disk_without_room_leaves_the_old_log_and_says_so(
    tmp_path: Path, old: list[old_logs.Row], seed: int
) -> None:
    path = tmp_path / "old.db"
    size = path.stat().st_size
    room = random.Random(seed).uniform(1.0, 1.3) if seed else 1.0
    with files_of_at_most(int(size * room)), pytest.raises(StoreError, match="free some space"):
        SqliteLog(path)

    assert old_logs.version_and_events(path) == (2, old)
    assert path.stat().st_size == size
    assert assert_whole(path, old) == 2


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process can grow beyond a size: writing more fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# Others who have the file open.

OLD_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("SELECT count(*) FROM events").fetchone()
print("open", flush=True)
for line in sys.stdin:
    connection.execute(line)
    print("done", flush=True)
"""


@contextmanager
def an_old_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of an earlier version that has the file open."""
    command = [sys.executable, "-c", OLD_PROCESS, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


APPENDED = (
    "INSERT INTO events SELECT run, max(seq) + 1, 'x', NULL, 7, 'later' FROM events WHERE run = 2\n"
)


def test_a_file_that_an_older_process_has_open_is_left_alone(
    tmp_path: Path, old: list[old_logs.Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    with an_old_process(path) as process:
        with pytest.raises(StoreError, match="another process has it open; stop that process"):
            SqliteLog(path)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(APPENDED)
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 60)
    later = ("run-2", TASKS * 2 + 3, "x", None, 7, b"later")
    place = max(number for number, row in enumerate(old) if row[0] == "run-2") + 1
    assert old_logs.events_in(path) == [*old[:place], later, *old[place:]]


def test_opening_waits_until_the_older_process_has_ended_and_says_so(
    tmp_path: Path,
    old: list[old_logs.Row],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "old.db"
    monkeypatch.setattr(migration, "NOTICE_SECONDS", 0.0)
    with an_old_process(path) as process:
        told = ""

        def is_waited_for() -> bool:
            nonlocal told
            told += capfd.readouterr().err
            return "waiting" in told

        def end_it_once_it_is_waited_for() -> None:
            try:
                eventually(is_waited_for)
            finally:
                process.kill()

        thread = threading.Thread(target=end_it_once_it_is_waited_for)
        thread.start()
        found = old_logs.events_in(path)
        thread.join()

    assert found == old
    told += capfd.readouterr().err
    assert f"evalwright: waiting for another process that has {path} open" in told
    assert f"evalwright: bringing {path} up to date: 6 of 12 runs, 50%" in told


def test_processes_that_open_an_old_file_at_once_all_succeed(
    tmp_path: Path, old: list[old_logs.Row]
) -> None:
    path = tmp_path / "old.db"
    code = (
        "import sys; from faults import old_logs; from pathlib import Path; sys.stdin.readline();"
        "print(len(old_logs.events_in(Path(sys.argv[1]))))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(scaled(3, 8))
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    assert [process.communicate()[0] for process in processes] == [f"{len(old)}\n"] * len(processes)
