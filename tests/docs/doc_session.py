"""A reader's terminal: commands of a page are typed into one shell, and what comes back is read."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from subjects.forking import IS_POSSIBLE, the_forge

LONGEST_SECONDS = 240  # for one command; far more than any of them needs, models included
_END = "\x1e"  # printed after every command, before its exit code and the present folder

# What differs from run to run; `…` stands for whatever else does.
_RUN_ID = r"run_[0-9a-z]{26}"
_VARIABLE = [
    r"\b(?:\d[\d,]* ms|\d\d?(?:\.\d\d?)? s|\d+ min \d+ s)\b",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?",
    r'"(?:latencyMs|durationMs)": ?\d+',
    r'time="\d+\.\d{3}"',
    r"\(\+\d+ characters\)",
]
_TIME_BAR = "[█▏▎▍▌▋▊▉·]{12}"  # a time, drawn
_TOKEN = re.compile(
    "|".join(
        [
            f"(?P<run>{_RUN_ID})",
            "(?P<any>…)",
            f"(?P<bar>(?:(?<= ms  )|(?<=\\d s  )){_TIME_BAR})",
            *_VARIABLE,
        ]
    )
)


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    output: str
    code: int


class Session:
    """One shell in a folder of its own; closing it ends everything that was started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.parent / f"{folder.name}.db"
        self._environment = _environment(folder, self.log)
        self._servers: list[subprocess.Popen[str]] = []
        self._run_ids: dict[str, str] = {}
        self._shell = self._popen(["bash", "--noprofile", "--norc"], folder, forked=IS_POSSIBLE)

    def run(self, command: str) -> Answer:
        """Run one command as a reader would."""
        assert self._shell.stdin is not None
        ending = f"_code=$?; printf '\\n{_END}%s %s\\n' $_code \"$PWD\"; (exit $_code)"
        self._shell.stdin.write(f"{{ {self._known(command)}\n}} </dev/null\n{ending}\n")
        self._shell.stdin.flush()
        output, ending = self._read_until_end(command)
        code, _, folder = ending.rstrip("\n").partition(" ")
        self.folder = Path(folder)
        return Answer(output.removesuffix("\n"), int(code))

    def serve(self, command: str, shown: str) -> None:
        """Start a command that stays, and wait until it has printed what is shown."""
        server = self._popen(["bash", "-c", f"exec {self._known(command)}"], self.folder)
        self._servers.append(server)
        assert server.stdout is not None
        with _watchdog(server):
            lines = [server.stdout.readline() for _ in shown.splitlines()]
        self.compare(shown, "".join(lines), command)

    def compare(self, shown: str, output: str, place: str) -> None:
        """Fail unless the output is what the page shows."""
        pattern, ids = _pattern(shown)
        found = re.fullmatch(pattern, output.rstrip("\n") + "\n")
        if found is None:
            raise AssertionError(f"{place}\n--- the page shows\n{shown}\n--- but it is\n{output}")
        for group, run_id in ids.items():
            real = self._run_ids.setdefault(run_id, found[group])
            assert real == found[group], f"{place}: {run_id} stands for two different runs"
        distinct = set(self._run_ids.values())
        assert len(distinct) == len(self._run_ids), f"{place}: one run is shown under two ids"

    def write(self, name: str, text: str) -> None:
        """Write a file of the page into the present folder."""
        path = (self.folder / name).resolve()
        assert path.is_relative_to(self.folder.resolve()), f"{name} is outside of the folder"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def close(self) -> None:
        for process in [*self._servers, self._shell]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _known(self, command: str) -> str:
        """The command with the run ids of this session in place of those on the page."""
        return re.sub(_RUN_ID, lambda found: self._run_ids.get(found[0], found[0]), command)

    def _read_until_end(self, command: str) -> tuple[str, str]:
        assert self._shell.stdout is not None
        output = ""
        with _watchdog(self._shell):
            for line in self._shell.stdout:
                before, mark, after = line.partition(_END)
                output += before
                if mark:
                    return output, after
        raise AssertionError(f"the shell ended in {command!r} after printing\n{output}")

    def _popen(
        self, arguments: list[str], folder: Path, *, forked: bool = False
    ) -> subprocess.Popen[str]:
        """Start a program; of forked ones, commands are forks of a process that has loaded them."""
        path = self._environment["PATH"]
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env={
                **self._environment,
                "PATH": f"{the_forge().bin}{os.pathsep}{path}" if forked else path,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )


@contextlib.contextmanager
def _watchdog(process: "subprocess.Popen[str]"):
    """End a process that says nothing for too long."""
    timer = threading.Timer(LONGEST_SECONDS, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _environment(folder: Path, log: Path) -> dict[str, str]:
    """A plain environment: this Python's commands first, and nothing of the user's own."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "EVALWRIGHT_DB": str(log),
        "PYTHONDONTWRITEBYTECODE": "1",
        # A reader has not installed the plugins that these tests need: loading them takes seconds.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "evalwright.pytest_plugin",
    }


def _pattern(shown: str) -> tuple[str, dict[str, str]]:
    """A pattern for what a page shows, and which of its groups are run ids."""
    ids: dict[str, str] = {}
    parts = [_line_pattern(line.rstrip(), ids) for line in shown.rstrip("\n").split("\n")]
    return "".join(parts), ids


def _line_pattern(line: str, ids: dict[str, str]) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    pattern, last = "", 0
    for token in _TOKEN.finditer(line):
        pattern += _plain(line[last : token.start()]) + _token_pattern(token, ids)
        last = token.end()
    return pattern + _plain(line[last:]) + r"[ \t]*\n"


def _plain(text: str) -> str:
    """A text as it is, between columns that are as wide as what varies in them."""
    return re.sub(r"(?<=\S)(?:\\ ){2,}", " {2,}", re.escape(text))


def _token_pattern(token: re.Match[str], ids: dict[str, str]) -> str:
    if token["any"]:
        return ".*"
    if token["bar"]:
        return _TIME_BAR
    if token["run"]:
        group = f"run{len(ids)}"
        ids[group] = token["run"]
        return f"(?P<{group}>{_RUN_ID})"
    return next(kind for kind in _VARIABLE if re.fullmatch(kind, token[0]))
