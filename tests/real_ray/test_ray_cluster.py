"""`--on ray`: the same bytes, exit codes and remarks as on this machine, from a real cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from comparing import a_response, files_of

COMMAND = Path(sys.executable).with_name("evalwright")
SECONDS = 300  # a cluster takes its time to start
DAMAGED = b"{]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """More than two shards of 64 MiB, with one line that cannot be read."""
    said = (
        a_response(case_id=f"case-{n}", output="x" * 40_000 + f" {n}@x.example") for n in range(600)
    )
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in said)
    (tmp_path / "new.jsonl").write_bytes(lines + DAMAGED + lines * 2)
    (tmp_path / "old.jsonl").write_bytes(lines)
    return tmp_path


def evalwright(folder: Path, *line: str) -> tuple[int, bytes]:
    done = subprocess.run(
        [COMMAND, *line], cwd=folder, capture_output=True, timeout=SECONDS, check=False
    )
    return done.returncode, done.stderr


def test_signals_are_the_same_as_on_one_machine(folder: Path) -> None:
    line = ("signals", "--traces", "new.jsonl", "--baseline", "old.jsonl", "--out")
    here = evalwright(folder, *line, "here.jsonl", "--jobs", "1")
    there = evalwright(folder, *line, "there.jsonl", "--on", "ray")
    assert here == there
    assert here[0] == 2
    assert b"1 of 1801 records could not be read" in here[1]
    assert (folder / "here.jsonl").read_bytes() == (folder / "there.jsonl").read_bytes()


def test_so_is_a_report(folder: Path) -> None:
    line = ("compare", "--baseline", "old.jsonl", "--new", "new.jsonl", "--fail-on", "none")
    here = evalwright(folder, *line, "--out", "here", "--jobs", "1")
    there = evalwright(folder, *line, "--out", "there", "--on", "ray")
    assert here == there
    assert here[0] == 0
    assert files_of(folder / "here") == files_of(folder / "there")


def test_traces_that_cannot_be_read_are_bad_input(folder: Path) -> None:
    code, said = evalwright(folder, "signals", "--traces", "none.jsonl", "--on", "ray")
    assert (code, b"none.jsonl: cannot be read" in said) == (2, True)
