"""What keeps a scan from working is told by its real cause, with the file and what helps."""

import errno
import os
import sqlite3
import tempfile
from pathlib import Path

import pytest

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.scans.baseline_traces import keep_baseline
from evalwright.scans.partitions import disk_fault
from evalwright.scans.shards import TraceFiles
from evalwright.scans.spread import LocalProcesses

HERE = tempfile.gettempdir()
ROOM = f"make room in {HERE}, or name another folder with TMPDIR"


def refused(number: int, file: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), *([file] if file else []))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            refused(errno.ENOSPC),
            f"cannot write temporary files: No space left on device; {ROOM}",
        ),
        (
            refused(errno.EACCES, f"{HERE}/evalwright-1/index.db"),
            (
                "cannot write temporary files: Permission denied: "
                f"{HERE}/evalwright-1/index.db; {ROOM}"
            ),
        ),
        (
            sqlite3.OperationalError("database or disk is full"),
            f"cannot write temporary files: database or disk is full; {ROOM}",
        ),
        (refused(errno.EACCES, "/data/traces.jsonl"), "/data/traces.jsonl: Permission denied"),
        (refused(errno.EIO, "/data/traces.jsonl"), "/data/traces.jsonl: Input/output error"),
        (
            refused(errno.EMFILE, "/data/traces.jsonl"),
            "Too many open files; raise `ulimit -n`, or ask for fewer processes with --jobs",
        ),
        (
            BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
            (
                "Resource temporarily unavailable; end other programs, or ask for fewer processes"
                " with --jobs"
            ),
        ),
    ],
)
def test_the_real_cause_is_named_with_its_file_and_the_remedy(error: Exception, said: str) -> None:
    assert str(disk_fault(error)) == said


def test_a_baseline_that_cannot_be_read_is_the_input_at_fault(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").symlink_to(tmp_path / "good.jsonl")  # for root, too
    folder = tmp_path / "kept"
    folder.mkdir()
    with pytest.raises(BadInput, match=r"good\.jsonl: cannot be read: Too many levels"):
        keep_baseline(TraceFiles(tmp_path / "good.jsonl"), folder, LocalProcesses(1))


def test_kept_traces_that_somebody_cleared_away_are_missed_in_words(tmp_path: Path) -> None:
    trace = b'{"case_id": "one", "events": [], "final_output": {"content": "yes"}}\n'
    (tmp_path / "good.jsonl").write_bytes(trace)
    folder = tmp_path / "kept"
    folder.mkdir()
    kept, faults = keep_baseline(TraceFiles(tmp_path / "good.jsonl"), folder, LocalProcesses(1))
    assert faults == []
    for file in folder.iterdir():
        file.unlink()
    with pytest.raises(CannotEvaluate, match="temporary files: unable to open database file; make"):
        kept.get("one")
