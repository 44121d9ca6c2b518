"""`evalwright signals --jobs N`: the same result for any number, and a clean end in trouble."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from comparing import a_response
from evalwright.cli.signals import command
from evalwright.scans import spread
from evalwright.scans.spread import LocalProcesses
from subjects.command import COMMAND
from subjects.waiting import eventually

DAMAGED = b"{]\n"


def lines(count: int) -> bytes:
    said = ((a_response(case_id=f"case-{n}", output=f"mail {n}@example.com")) for n in range(count))
    return b"".join(json.dumps(each).encode() + b"\n" for each in said)


@pytest.mark.parametrize(
    "content",
    [lines(60), lines(30) + DAMAGED + lines(30), DAMAGED * 40],
    ids=["sound", "damaged in the middle", "all damaged"],
)
def test_result_code_and_remarks_are_the_same_for_any_number_of_jobs(
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(LocalProcesses, "shard_bytes", 1000)
    monkeypatch.setattr(spread, "has_threads", lambda: False)  # those of the test runner
    traces, good = tmp_path / "traces.jsonl", tmp_path / "good.jsonl"
    traces.write_bytes(content)
    good.write_bytes(lines(20) + DAMAGED)
    assert command.callback is not None
    seen = []
    for jobs in (1, 2, 3):
        out = tmp_path / f"{jobs}.jsonl"
        code = command.callback(
            traces=traces, baseline=good, out=out, show_secrets=False, jobs=jobs, on=None
        )
        seen.append((code, out.read_bytes(), capsys.readouterr().err))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == 2


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", list[int]]]:
    """The command with two processes that are busy for a while."""
    traces = tmp_path / "traces.jsonl"
    traces.write_bytes(lines(100) * 800)
    line = [COMMAND, "signals", "--traces", traces, "--out", tmp_path / "out.jsonl", "--jobs", "2"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True) as process:
        children = two_children_of(process)
        yield process, children
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def two_children_of(process: "subprocess.Popen[bytes]") -> list[int]:
    """Its children, once it has two of them or none any more."""
    eventually(lambda: len(children_of(process.pid)) == 2 or process.poll() is not None)
    return children_of(process.pid)


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in found.read_text().split()] if found.exists() else []


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_an_interrupt_ends_all_processes_and_leaves_nothing(at_work, tmp_path: Path) -> None:
    process, children = at_work
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    process.communicate(timeout=240)
    assert process.returncode == 130
    assert not any(map(is_running, children))
    assert [each.name for each in tmp_path.iterdir()] == ["traces.jsonl"]


def test_a_killed_process_is_said_and_leaves_nothing(at_work, tmp_path: Path) -> None:
    process, children = at_work
    os.kill(children[0], signal.SIGKILL)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 3
    assert b"was killed; is there enough memory?" in said
    assert not is_running(children[1])
    assert [each.name for each in tmp_path.iterdir()] == ["traces.jsonl"]


def test_an_interrupt_while_the_baseline_is_read_ends_all_processes_too(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_bytes(lines(100) * 1500)
    line = [COMMAND, "signals", "--traces", "none.jsonl", "--baseline", "good.jsonl", "--jobs", "2"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(line, cwd=tmp_path, env=environment, start_new_session=True) as process:
        children = two_children_of(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(240) == 130
    assert not any(map(is_running, children))
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_full_disk_for_temporary_files_is_said_and_leaves_nothing(
    jobs: str, tmp_path: Path
) -> None:
    (tmp_path / "good.jsonl").write_bytes(lines(100) * 30)
    (tmp_path / "tmp").mkdir()
    limited = f"ulimit -f 64; exec {COMMAND} signals --traces good.jsonl --baseline good.jsonl"
    done = subprocess.run(
        ["sh", "-c", f"{limited} --jobs {jobs} --out out.jsonl"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert b"evalwright: cannot write temporary files: File too large" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
