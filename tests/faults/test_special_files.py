"""Pipes, devices, sockets and links without end are refused at once, whatever names them."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, as_document
from evalwright.contracts.documents import open_input, read_input
from evalwright.contracts.errors import BadInput
from subjects.command import COMMAND, Evalwright, subject

SECONDS = 400  # for all commands of a test; one that waits would never end
AGENT = f"{subject('answers.py')}:yes"

# Runs many commands in one process; each has two minutes, and one that needs them exits with 3.
DRIVER = """
import contextlib, io, json, signal, sys
from pathlib import Path
from evalwright.cli.app import run_app

def stop(*_):
    raise RuntimeError("it waits")

signal.signal(signal.SIGALRM, stop)
ended = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["evalwright", *line]
    said = io.StringIO()
    signal.alarm(120)
    with contextlib.redirect_stderr(said):
        code = run_app()
    signal.alarm(0)
    ended.append([code, said.getvalue()])
Path("ended.json").write_text(json.dumps(ended))
"""

COMMANDS: dict[str, list[str]] = {
    "validate": ["validate", "{}"],
    "compare a side": ["compare", "--baseline", "run", "--new", "{}", "--out", "report"],
    "compare with cases": [
        *("compare", "--baseline", "run", "--new", "run", "--cases", "{}", "--out", "report"),
    ],
    "compare with suppressions": [
        *("compare", "--baseline", "run", "--new", "run", "--suppress", "{}", "--out", "report"),
    ],
    "signals": ["signals", "--traces", "{}", "--out", "signals.jsonl"],
    "signals of a baseline": [
        *("signals", "--traces", "traces.jsonl", "--baseline", "{}", "--out", "signals.jsonl"),
    ],
    "prompts": ["prompts", "{}", "-t", "0"],
    "prompts against a baseline": ["prompts", "prompt.md", "-t", "0", "--baseline", "{}"],
    "run": ["run", "{}", "--agent", AGENT],
    "run with tools": ["run", "suite.json", "--agent", AGENT, "--tools", "{}"],
    "run with a cassette": ["run", "suite.json", "--agent", AGENT, "--cassette", "{}"],
    "run with settings": ["run", "suite.json", "--agent", AGENT, "--config", "{}"],
    "run a manifest": ["run", "suite.json", "--agent", "{}", "--model", "scripted:rules.json"],
    "run a script": ["run", "suite.json", "--agent", AGENT, "--judge", "scripted:{}"],
    "attack": ["attack", "{}"],
    "pack": ["pack", "verify", "{}"],
    "serve": ["serve", "--port", "0", "--config", "{}"],
    "show settings": ["prompts", "--list-models", "--config", "{}"],
}


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


SPECIAL: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "socket": a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "endless": lambda path: path.symlink_to(path.name),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with everything that the commands need besides the special file."""
    folder = tmp_path / "f"  # a socket's path must be short
    folder.mkdir()
    (folder / "suite.json").write_text(json.dumps(as_document(a_suite(tasks=1))))
    (folder / "prompt.md").write_text("# Greet\n\nGreet the customer by name.\n")
    response = {"case_id": "one", "events": [], "final_output": {"content": "yes"}}
    (folder / "traces.jsonl").write_text(json.dumps(response) + "\n")
    (folder / "rules.json").write_text('[{"reply": "yes"}]')
    (folder / "run").mkdir()
    (folder / "run" / "one.json").write_text(json.dumps(response))
    (folder / "run" / "run.json").write_text('{"run_id": "r"}')
    return folder


def ended(folder: Path, lines: list[list[str]]) -> list[tuple[int, str]]:
    environment = {**os.environ, "EVALWRIGHT_DB": str(folder / "log.db")}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(lines)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0
    return [(code, said) for code, said in json.loads((folder / "ended.json").read_text())]


SUFFIXES = {"prompts": "md", "pack": "tgz", "run": "yaml", "signals": "jsonl"}


def test_a_special_file_is_bad_input_at_once(folder: Path) -> None:
    wanted: dict[tuple[str, str], list[str]] = {}
    for kind, make in SPECIAL.items():
        for suffix in ("json", *SUFFIXES.values()):
            make(folder / f"{kind}.{suffix}")
        for words, line in COMMANDS.items():
            name = f"{kind}.{SUFFIXES.get(words, 'json')}"
            wanted[kind, words] = [word.format(name) for word in line]
    for what, (code, said) in zip(wanted, ended(folder, list(wanted.values())), strict=True):
        assert code == 2, (what, said)
        assert f"{what[0]}." in said, (what, said)
        assert "Traceback" not in said, (what, said)


def test_the_device_itself_and_a_folder_that_holds_special_files(folder: Path) -> None:
    for place in ("prompts", "prompts/templates", "report"):
        (folder / place).mkdir()
    os.mkfifo(folder / "prompts" / "templates" / "wait.md")  # read to see if it is a scaffold
    os.mkfifo(folder / "report" / "report.html")
    (folder / "loop").mkdir()
    (folder / "loop" / "again").symlink_to("..")
    lines = [
        ["validate", "/dev/zero"],
        ["signals", "--traces", "/dev/zero", "--out", "signals.jsonl"],
        ["compare", "--baseline", "/dev/zero", "--new", "run", "--out", "report2"],
        ["prompts", "/dev/zero", "-t", "0"],
        ["validate", "/dev/stdin"],  # the null device here
        ["prompts", "prompts", "-t", "0"],
        ["prompts", "loop", "-t", "0"],
        ["validate", "report"],
    ]
    for line, (code, said) in zip(lines, ended(folder, lines), strict=True):
        assert code == 2, (line, said)
        assert "Traceback" not in said, (line, said)


def test_a_pipe_that_nobody_reads_is_not_written_to(folder: Path) -> None:
    for name in ("pipe.xml", "pipe.json"):
        os.mkfifo(folder / name)
    lines = [
        ["run", "suite.json", "--agent", AGENT, "--junit", "pipe.xml"],
        ["compare", "--baseline", "run", "--new", "run", "--out", "new", "--junit", "pipe.xml"],
        ["signals", "--traces", "traces.jsonl", "--out", "pipe.json"],
        ["prompts", "prompt.md", "-t", "0", "-o", "pipe.json"],
        ["attack", "suite.json", "--out", "pipe.json"],
    ]
    for line, (code, said) in zip(lines, ended(folder, lines), strict=True):
        assert code == 2, (line, said)
        assert "it is a named pipe" in said, (line, said)


def test_a_pipe_that_the_shell_hands_over_is_written_to(evalwright: Evalwright) -> None:
    response = {"case_id": "one", "events": [], "final_output": {"content": "yes"}}
    (evalwright.folder / "traces.jsonl").write_text(json.dumps(response) + "\n")
    done = subprocess.run(
        [str(COMMAND), "signals", "--traces", "traces.jsonl", "--out", "/dev/stdout"],
        cwd=evalwright.folder,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"] == "one"


# What is read, and how much of it.


def test_what_the_shell_hands_over_is_read(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    script = f'"$0" run <(cat {suite}) --agent "$1" --agent-id local.answers --quiet'
    done = subprocess.run(
        ["bash", "-c", script, str(COMMAND), AGENT],
        cwd=evalwright.folder,
        env={**evalwright.environment(), "EVALWRIGHT_DB": str(evalwright.db)},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    piped = subprocess.run(
        [str(COMMAND), "validate", "/dev/stdin"],
        input=(evalwright.folder / suite).read_bytes(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == b"/dev/stdin: valid AgentEvalSuite\n"


def test_a_pipe_without_end_is_read_up_to_the_limit() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        with pytest.raises(BadInput, match=r"larger than 1 MiB, the most that is read of it"):
            read_input(f"/dev/fd/{endless.stdout.fileno()}", 1 << 20)
        endless.kill()


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, size: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)
    assert read_input(file, 100) == b"x" * size


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 101)
    with pytest.raises(BadInput, match="larger than 100 bytes"):
        read_input(file, 100)


def test_a_file_that_is_exchanged_for_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    opened = os.open

    def exchange(path: Any, *more: Any) -> int:
        file.unlink()
        os.mkfifo(file)
        return opened(path, *more)

    monkeypatch.setattr(os, "open", exchange)
    with pytest.raises(OSError, match="it is a named pipe, not a file"):
        open_input(file)
