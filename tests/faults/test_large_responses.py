"""Responses of hundreds of megabytes and millions of events take the memory that is stated."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalwright.comparison.run_folder import RunFolder, Unreadable
from evalwright.contracts import jsonvalue
from faults.soaking import scaled
from subjects.command import COMMAND

MIB = 1 << 20
# Runs a command under a limit of address space, and prints the most memory it used.
UNDER_LIMIT = """
import resource, subprocess, sys
limit = int(sys.argv[1])
done = subprocess.run(
    sys.argv[2:],
    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    stdout=sys.stderr,
)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def a_text(path: Path, size: int) -> None:
    """A response whose answer is one long text."""
    line = "The quick brown fox jumps over the lazy dog. " * 1000
    with path.open("w") as file:
        file.write('{"case_id": "one", "events": [], "final_output": {"content": "')
        for _ in range(size // len(line)):
            file.write(line)
        file.write('"}}')


def many_events(path: Path, count: int) -> None:
    """A response of so many calls and results."""
    with path.open("w") as file:
        file.write('{"case_id": "one", "final_output": {"content": "done"}, "events": [')
        for number in range(count // 2):
            call = {"type": "tool_call", "tool": "db.read", "call_id": f"c{number}", "args": {}}
            answer = {"type": "tool_result", "call_id": f"c{number}", "status": "ok"}
            rest = (
                json.dumps(call | {"args": {"id": number}}),
                json.dumps(answer | {"payload": "x"}),
            )
            file.write(("," if number else "") + ",".join(rest))
        file.write("]}")


def runs(folder: Path) -> list[Path]:
    made = [folder / "old", folder / "new"]
    for each in made:
        each.mkdir()
        (each / "run.json").write_text(json.dumps({"run_id": each.name}))
    return made


@pytest.mark.parametrize("make", [a_text, many_events])
def test_a_large_response_is_compared_within_the_stated_memory(tmp_path: Path, make) -> None:
    size = scaled(20 * MIB, 100 * MIB) if make is a_text else scaled(60_000, 400_000)
    old, new = runs(tmp_path)
    for each in (old, new):
        make(each / "one.json", size)
    data = (old / "one.json").read_bytes()
    values = data.count(b'":') + data.count(b",")
    stated = 250 * MIB + 2 * (6 * len(data) + 100 * values)  # for both sides
    line = ["compare", "--baseline", str(old), "--new", str(new), "--out", str(tmp_path / "out")]
    limit = 2 * stated + 1024 * MIB  # of address space, of which much is never used
    done = subprocess.run(
        [sys.executable, "-c", UNDER_LIMIT, str(limit), str(COMMAND), *line],
        capture_output=True,
        text=True,
        timeout=scaled(120, 1200),
        check=True,
    )
    code, used = map(int, done.stdout.split())
    assert code == 3, done.stderr  # nothing is expected of it
    assert used < stated, f"{used / MIB:.0f} MiB, stated are {stated / MIB:.0f}"


def test_a_response_that_would_take_more_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonvalue, "_SURELY_SMALL", 0)
    monkeypatch.setattr(jsonvalue, "MOST_MEMORY", 1 << 20)
    (run, _) = runs(tmp_path)
    many_events(run / "one.json", 2000)
    found = RunFolder(run).read("one.json")
    assert isinstance(found.value, Unreadable)
    assert "values would take" in found.value.reason
    assert "split it into several cases" in found.value.reason
    assert found.data is None  # what cannot be decoded is not copied either


def test_the_limit_of_memory_is_what_the_pages_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text("utf-8")
    assert jsonvalue.MOST_MEMORY == 2 << 30
    assert "2 GiB of memory" in page
