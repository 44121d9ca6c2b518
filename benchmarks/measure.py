"""One measured child process: wall and CPU seconds, peak memory, and what it printed."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")
LIMIT_SECONDS = 1800


class NotMeasuredError(Exception):
    """A measurement that could not be made, and why."""


@dataclass(frozen=True)
class Usage:
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: float


@dataclass(frozen=True)
class Place:
    """Where children work: a folder on a real disk, and an environment without surprises."""

    scratch: Path

    def environment(self) -> dict[str, str]:
        # Settings of the user (log levels, tracing, data folders) would be measured too.
        kept = {k: v for k in ("PATH", "HOME", "LANG") if (v := os.environ.get(k))}
        homes = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
        return kept | {home: str(self.scratch / "home") for home in homes}

    def measure(self, command: list[str], *, cwd: Path, output: Path | None = None) -> Usage:
        """Run the command to its end; its standard output goes to `output`, or nowhere."""
        report = self.scratch / "usage"
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(report)]
        with (output or Path(os.devnull)).open("wb") as stdout:
            code, errors = finish(launcher + command, cwd, self.environment(), stdout.fileno())
        if code != 0:
            raise NotMeasuredError(f"{Path(command[0]).name}: exit {code}: {last_line(errors)}")
        return Usage(*map(float, report.read_text().split()))


def finish(command: list[str], cwd: Path, env: dict[str, str], stdout: int) -> tuple[int, str]:
    # A session of its own, so that whatever the command started can be ended with it.
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=stdout, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        end(process)
        return 1, f"no end within {LIMIT_SECONDS} s"
    except BaseException:
        end(process)
        raise
    return process.returncode, errors.decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "nothing on standard error"
