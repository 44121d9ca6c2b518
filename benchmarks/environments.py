"""One virtual environment for each peer, made when it is first needed."""

import shutil
import subprocess
import sys
from pathlib import Path

from measure import NotMeasuredError, last_line

FOLDER = Path(__file__).parent / ".envs"
LOCAL_UV = Path(__file__).parents[1] / ".uv" / "bin" / "uv"
VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def environment(package: str) -> Path:
    """The `bin` folder of an environment that has the package in it."""
    folder = FOLDER / package
    ready = folder / ".ready"
    if not ready.exists():
        print(f"making an environment for {package} ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        for command in recipe(folder, package):
            call(command)
        ready.touch()
    return folder / "bin"


def recipe(folder: Path, package: str) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    if uv := find_uv():
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            # Compiled now, as pip does, or the first sample would pay for it.
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, package],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", package],
    ]


def find_uv() -> str | None:
    return shutil.which("uv") or (str(LOCAL_UV) if LOCAL_UV.exists() else None)


def version(package: str) -> str:
    python = environment(package) / "python"
    return call([str(python), "-c", VERSION, package]).strip()


def call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasuredError(f"{Path(command[0]).name}: {last_line(done.stderr)}")
    return done.stdout
