"""The trees that are measured, each installed alone: the commit of the last tag, and this one."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / ".envs"
LOCAL_UV = ROOT / ".uv" / "bin" / "uv"
NAMED = Path(__file__).with_name("last_tag")  # where a clone has no tags: what its last one is
MISSING = """\
Nothing was measured: this copy of the project does not have {name}.
Fetch the history: git fetch --tags --unshallow origin
Or name a commit that you have: .venv/bin/python benchmarks/old/bench.py --old COMMIT"""


class NoOldTreeError(Exception):
    """There is no commit to measure beside; the words say what to do."""


def old_commit(asked: str | None) -> tuple[str, str]:
    """A short name and the commit: what was asked for, the last tag, or the one in the file."""
    if asked:
        return asked, commit_of(asked)
    try:
        tag = git("describe", "--tags", "--abbrev=0", "HEAD^").decode().strip()
    except (subprocess.CalledProcessError, FileNotFoundError):
        tag, commit = NAMED.read_text().split()
        print(f"no tags here; {NAMED.name} says that {tag} is {commit}", file=sys.stderr)
        return tag, commit_of(commit)
    return tag, commit_of(tag)


def commit_of(name: str) -> str:
    wanted = f"{name}^{{commit}}"
    try:
        return git("rev-parse", "--verify", "--quiet", wanted).decode().strip()
    except (subprocess.CalledProcessError, FileNotFoundError):
        raise NoOldTreeError(MISSING.format(name=name)) from None


def git(*command: str) -> bytes:
    # In a container the files may belong to somebody else.
    told = ["git", "-c", f"safe.directory={ROOT}", *command]
    return subprocess.run(told, cwd=ROOT, capture_output=True, check=True).stdout


def old_tree(commit: str) -> Path:
    """An environment with the source of a commit and the packages of its own lock file."""
    folder = FOLDER / f"old-{commit[:12]}"
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        parts = ("src", "pyproject.toml", "uv.lock", "README.md", "LICENSE")
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, *parts))) as files:
            files.extractall(folder, filter="data")
    return install(folder, folder / ".venv")


def this_tree() -> Path:
    return install(ROOT, FOLDER / "this-tree")


def install(source: Path, environment: Path) -> Path:
    """Install what users get, nothing for development: what is installed takes part in a start."""
    uv = shutil.which("uv") or str(LOCAL_UV)
    python = ["--python", sys.executable]
    sync = [uv, "sync", "--quiet", "--locked", "--no-dev", "--compile-bytecode", *python]
    settings = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment)}
    if subprocess.run(sync, cwd=source, env=settings, check=False, capture_output=True).returncode:
        # The second try is for networks whose certificates only the system knows.
        settings |= {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
        subprocess.run(sync, cwd=source, env=settings, check=True)
    compiled = [str(environment / "bin" / "python"), "-m", "compileall", "-q", "src"]
    subprocess.run(compiled, cwd=source, check=True)
    return environment
