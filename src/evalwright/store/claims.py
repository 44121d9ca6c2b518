"""Who executes a run: a lock that the operating system drops when its holder dies.

Each run owns two bytes of a lock file beside the database. The first is the right to execute it.
The second is a sign for those who only look: they touch it for an instant, and so can never take
the right from somebody who claims it at that moment. Only POSIX systems have such locks; elsewhere
a second executor is still stopped by the log itself, when it appends.
"""

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalwright.contracts.errors import RunBusy

HAS_LOCKS = importlib.util.find_spec("fcntl") is not None
if HAS_LOCKS:
    import fcntl


class _LockFile:
    """A lock file as this process has it open, and the runs that the process claims in it."""

    def __init__(self, path: Path, flags: int) -> None:
        self.descriptor = os.open(path, flags, 0o600)
        self.runs: set[int] = set()


# To close any descriptor of a file drops every lock that the process has on it, whichever
# descriptor took it. So there is one for each file, open for as long as a claim needs it.
_open_files: dict[tuple[int, int], _LockFile] = {}  # by device and inode
_one_at_a_time = threading.Lock()


@contextmanager
def claim(lock_file: Path, run: int, run_id: str) -> Iterator[None]:
    """Hold the right to execute a run for as long as the context lasts."""
    if not HAS_LOCKS:
        yield
        return
    with _opened(lock_file, os.O_RDWR | os.O_CREAT) as file:
        if run in file.runs or not _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _right(run)):
            raise RunBusy(f"run {run_id} is already being executed; wait until that has ended")
        _lock(file, fcntl.LOCK_EX, _sign(run))
        file.runs.add(run)
    try:
        yield
    finally:
        with _one_at_a_time:
            _lock(file, fcntl.LOCK_UN, _sign(run))
            _lock(file, fcntl.LOCK_UN, _right(run))
            file.runs.discard(run)
            _close_unused(file)


def is_claimed(lock_file: Path, run: int) -> bool:
    """Whether anybody, this process or another, holds the right to execute the run."""
    if not HAS_LOCKS or not lock_file.exists():
        return False
    with _opened(lock_file, os.O_RDONLY) as file:
        if run in file.runs:
            return True
        is_free = _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB, _sign(run))
        if is_free:
            _lock(file, fcntl.LOCK_UN, _sign(run))
        return not is_free


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[_LockFile]:
    """The lock file through its one descriptor, for one thread at a time."""
    with _one_at_a_time:
        file = _open_files.get(_identity(path.stat())) if path.exists() else None
        if file is None:
            file = _LockFile(path, flags)
            _open_files[_identity(os.fstat(file.descriptor))] = file
        try:
            yield file
        finally:
            _close_unused(file)


def _close_unused(file: _LockFile) -> None:
    if not file.runs:
        del _open_files[_identity(os.fstat(file.descriptor))]
        os.close(file.descriptor)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock(file: _LockFile, operation: int, byte: int) -> bool:
    try:
        fcntl.lockf(file.descriptor, operation, 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _right(run: int) -> int:
    return 2 * run


def _sign(run: int) -> int:
    return 2 * run + 1
