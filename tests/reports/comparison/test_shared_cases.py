"""Cases shared out among processes: the same report, and a clean end when one of them dies."""

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from comparing import Pair, a_call, a_case, a_response, a_result, files_of
from evalwright.comparison.pipeline import Comparer
from evalwright.contracts.errors import CannotEvaluate
from evalwright.reports.comparison import folder
from evalwright.scans.spread import LocalProcesses
from reported import names_in, write
from subjects.command import Evalwright
from subjects.waiting import eventually

CASES = 70
BATCH = 30  # so that there are more than two


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path / "runs")
    for number in range(CASES):
        case_id = f"case-{number}"
        pair.cases.append(a_case(case_id, must_include=["done"]))
        pair.write(pair.baseline, case_id, a_response(case_id=case_id))
        output = "done" if number % 3 else "no"
        new = a_response(a_call(n=number), a_result(), case_id=case_id, output=output)
        pair.write(pair.new, case_id, new)
    pair.save()
    return pair


def share_out(monkeypatch: pytest.MonkeyPatch, cores: int = 3) -> None:
    monkeypatch.setattr(folder, "_IN_A_BATCH", BATCH)
    monkeypatch.setattr(folder, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(folder, "cores", lambda: cores)
    monkeypatch.setattr(folder, "has_threads", lambda: False)  # those of the test runner


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    share_out(monkeypatch)


@pytest.fixture
def another_thread() -> Iterator[None]:
    """A thread that runs beside the test, as a notebook has."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.fixture
def beside(tmp_path: Path, pair: Pair) -> Iterator[Path]:
    """An old report, which must be there afterwards, and nothing new beside it."""
    old = tmp_path / "report"
    old.mkdir()
    (old / "compare-report.json").write_text("the old one")
    before = files_of(tmp_path)
    yield old
    assert files_of(tmp_path) == before
    assert names_in(tmp_path) == {"runs", "report"}


def writing(monkeypatch: pytest.MonkeyPatch, harm) -> None:
    """Let harm befall whoever writes one of the cases."""
    really_compare = Comparer.compare

    def harmed(planned):
        if planned.id == "case-40":
            harm()
        return planned

    def compare(self, planned):
        return really_compare(self, map(harmed, planned))

    monkeypatch.setattr(Comparer, "compare", compare)


def test_several_processes_write_the_same_bytes_as_one(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[int] = []
    really_map = LocalProcesses.map_shards

    def map_shards(self, fn, shards):
        writers.append(self.processes)
        return really_map(self, fn, shards)

    monkeypatch.setattr(LocalProcesses, "map_shards", map_shards)
    write(pair, tmp_path / "alone")
    assert writers == []
    share_out(monkeypatch)
    write(pair, tmp_path / "shared")
    assert writers == [3]
    assert files_of(tmp_path / "alone") == files_of(tmp_path / "shared")


@pytest.mark.usefixtures("another_thread")
def test_no_process_is_forked_beside_another_thread(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pair, tmp_path / "alone")
    monkeypatch.setattr(folder, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(folder, "cores", lambda: 3)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a fork can copy a lock that is held"))
    write(pair, tmp_path / "threaded")
    assert files_of(tmp_path / "alone") == files_of(tmp_path / "threaded")


THREADS = """\
import threading
from evalwright.scans.spread import has_threads
print(has_threads())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(has_threads())
"""


def test_a_process_of_its_own_has_one_thread_until_it_starts_another() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(("cases", "size"), [(1, 1 << 20), (3, 1 << 20), (1_000, 0)])
def test_however_many_cases_are_taken_at_once_the_bytes_are_the_same(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: int, size: int
) -> None:
    write(pair, tmp_path / "usual")
    monkeypatch.setattr("evalwright.comparison.pipeline._AT_ONCE", cases)
    monkeypatch.setattr("evalwright.comparison.pipeline._MOST_BYTES_AT_ONCE", size)
    write(pair, tmp_path / "other")
    assert files_of(tmp_path / "usual") == files_of(tmp_path / "other")


@pytest.mark.usefixtures("processes")
def test_progress_is_told_case_by_case(pair: Pair, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write(pair, tmp_path / "report", lambda done, total: told.append((done, total)))
    assert told == [(number, CASES) for number in range(1, CASES + 1)]


class InACircle:
    """What only a collection frees, as some of what cases leave behind."""

    def __init__(self) -> None:
        self.itself = self


class LeavingCircles:
    """Does nothing, and leaves a circle for each shard; tells how many of them are left."""

    def __init__(self) -> None:
        self.left: list[weakref.ref[InACircle]] = []

    def __call__(self, _shard: int) -> int:
        count = sum(each() is not None for each in self.left)
        self.left.append(weakref.ref(InACircle()))
        return count


@pytest.fixture
def _without_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collections")
def test_what_a_shard_leaves_behind_is_gone_before_the_next() -> None:
    assert list(LocalProcesses(2).map_shards(LeavingCircles(), range(8))) == [0] * 8


@pytest.mark.usefixtures("processes")
def test_a_killed_process_is_said_and_leaves_nothing(
    pair: Pair, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(CannotEvaluate, match="was killed"):
        write(pair, beside)


def _no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("processes")
def test_a_disk_that_is_full_in_a_process_is_said_and_leaves_nothing(
    pair: Pair, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, _no_space)
    with pytest.raises(CannotEvaluate, match="No space left"):
        write(pair, beside)


@pytest.mark.parametrize("cores", [1, 3])
def test_an_interrupt_leaves_the_old_report_and_nothing_else(
    pair: Pair, beside: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    share_out(monkeypatch, cores)

    def interrupt(done: int, _total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(pair, beside, interrupt)


def test_an_interrupt_between_the_old_report_and_the_new_one_brings_the_old_one_back(
    pair: Pair, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_rename = Path.rename
    renamed: list[Path] = []

    def rename(self: Path, target: Path) -> Path:
        renamed.append(self)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        return really_rename(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        write(pair, beside)
    assert len(renamed) == 3


SLOWLY = """\
import time
from evalwright.cli import main
from evalwright.comparison.pipeline import Comparer

compare = Comparer.compare


def slowly(self, planned):
    time.sleep(60)
    return compare(self, planned)


Comparer.compare = slowly
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_command_in_good_order(
    pair: Pair,
    evalwright: Evalwright,
    number: signal.Signals,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = tmp_path_factory.mktemp("slow") / "evalwright"
    command.write_text(f"#!{sys.executable}\n{SLOWLY}")
    command.chmod(0o755)
    monkeypatch.setattr("subjects.command.COMMAND", command)  # it is met while it works
    inputs = files_of(evalwright.folder)
    process = evalwright.start(
        *("compare", "--baseline", "runs/baseline", "--new", "runs/new", "--out", "report")
    )
    eventually(lambda: process.poll() is not None or any(evalwright.folder.glob(".report.*")))
    assert process.poll() is None
    os.killpg(process.pid, number)
    done = evalwright.finish(process)
    assert done.code == 130
    assert done.err.splitlines() == [
        "evalwright: interrupted: what was not finished is not kept; run the command again",
        "exit 130: interrupted",
    ]
    assert files_of(evalwright.folder) == inputs
    assert names_in(evalwright.folder) == {"runs"}
