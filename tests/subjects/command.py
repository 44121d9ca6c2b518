"""The real `evalwright` command in processes of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from builders import a_suite, as_document
from evalwright.contracts.suite import Suite
from evalwright.store.sqlite.log import SqliteLog
from subjects.forking import IS_POSSIBLE, the_forge

COMMAND = Path(sys.executable).with_name("evalwright")
SUBJECTS = Path(__file__).parent
WITH_LOG = {
    "run",
    "runs",
    "show",
    "replay",
    "rescore",
    "mutants",
    "power",
    "calibrate",
    "diff",
    "demo",
    "compare",
} | {
    "score",
    "tasks",
    "db",
    "baseline",
}
SECONDS = 240  # after which a command hangs


class Finished(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def flat(self) -> str:
        """What is on stdout, however its lines are broken and its columns padded."""
        return " ".join(self.out.split())

    def json(self) -> Any:
        """Everything on stdout as one JSON document."""
        return json.loads(self.out)


def _is_for_python(variable: str) -> bool:
    """Whether a variable of the environment is read when Python starts."""
    return variable.startswith(("PYTHON", "LANG", "LC_", "COVERAGE", "PATH"))


def subject(name: str) -> str:
    """A reference to an agent of this folder: `journal.py:answer`."""
    return str(SUBJECTS / name)


class Evalwright:
    """Calls the command in one folder, with one log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db: Path | None = folder / "log.db"
        self._started: list[subprocess.Popen[bytes]] = []

    def suite(self, suite: Suite | dict[str, Any] | None = None, name: str = "suite.json") -> str:
        """Write a suite into the folder and give its name."""
        document = as_document(suite if suite is not None else a_suite())
        (self.folder / name).write_text(json.dumps(document))
        return name

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> Finished:
        """Run a command to its end: in a fork of a process that has loaded it, where it may be."""
        line, cwd = self.line(*arguments), options.pop("cwd", self.folder)
        can_fork = IS_POSSIBLE and not any(map(_is_for_python, env or ()))
        if can_fork and options.keys() <= {"umask"}:
            given = self.environment(env)
            code, out, err = the_forge().run(line[1:], cwd, given, SECONDS, **options)
            return Finished(code, out.decode(), err.decode())
        done = subprocess.run(
            line,
            cwd=cwd,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            **options,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Begin a command and leave it running."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(
            self.line(*arguments),
            cwd=self.folder,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> Finished:
        """Wait for a command that was left running."""
        out, err = process.communicate(timeout=SECONDS)
        return Finished(process.returncode, (out or b"").decode(), (err or b"").decode())

    def line(self, *arguments: str) -> list[str]:
        """The command line, with `--db` where the command takes it."""
        asks_for_help = "--help" in arguments
        takes_log = self.db is not None and arguments[:1] and arguments[0] in WITH_LOG
        takes_log = takes_log and not asks_for_help
        return [str(COMMAND), *arguments, *(["--db", str(self.db)] if takes_log else [])]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a command."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}

    def events(self, run_id: str | None = None) -> list[dict[str, Any]]:
        """The log of a run, the newest unless said, read without the command."""
        log = SqliteLog(self.db)
        try:
            run_id = run_id or next(iter(log.run_ids()), None)
            recorded = log.read(run_id) if run_id else ()
            return [msgspec.json.decode(event.to_json()) for event in recorded]
        finally:
            log.close()

    def run_ids(self) -> list[str]:
        """All runs, newest first, read without the command."""
        log = SqliteLog(self.db)
        try:
            return log.run_ids()
        finally:
            log.close()

    def end(self) -> None:
        """End what is still running, with its children."""
        for process in self._started:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
