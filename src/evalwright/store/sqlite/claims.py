"""Who executes a run: a lock that the operating system drops when its holder dies.

Each run owns two bytes of a lock file beside the database. The first is the right to execute the
run. The second is for processes that only look: they lock it for an instant, and so never take the
right from a process that claims the run at that moment. Only POSIX systems have such locks;
elsewhere a second executor is still stopped by the log, when it appends.
"""

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from evalwright.contracts.errors import RunBusy
from evalwright.store.location import Misplaced

HAS_LOCKS = importlib.util.find_spec("fcntl") is not None
if HAS_LOCKS:
    import fcntl


@dataclass(frozen=True)
class _LockFile:
    path: Path
    descriptor: int
    identity: tuple[int, int]  # device and inode
    runs: set[int] = field(default_factory=set)


# Closing any descriptor of a file drops every lock that the process has on it, whichever
# descriptor took it. So there is one for each file, open for as long as a claim needs it.
_open_files: dict[tuple[int, int], _LockFile] = {}
_one_at_a_time = threading.Lock()


@contextmanager
def claim(lock_file: Path, run: int, run_id: str) -> Iterator[None]:
    """Hold the right to execute a run for as long as the context lasts."""
    if not HAS_LOCKS:
        yield
        return
    right, sign = 2 * run, 2 * run + 1
    with _opened(lock_file, os.O_RDWR | os.O_CREAT) as file:
        if run in file.runs or not _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB, right):
            raise RunBusy(f"run {run_id} is already being executed; wait until it ends")
        _lock(file, fcntl.LOCK_EX, sign)
        file.runs.add(run)
    try:
        yield
    finally:
        with _one_at_a_time:
            _lock(file, fcntl.LOCK_UN, sign)
            _lock(file, fcntl.LOCK_UN, right)
            file.runs.discard(run)
            _close_unused(file)


def is_claimed(lock_file: Path, run: int) -> bool:
    """Whether any process, this one or another, holds the right to execute the run."""
    if not HAS_LOCKS or not lock_file.exists():
        return False
    with _opened(lock_file, os.O_RDONLY) as file:
        if run in file.runs:
            return True
        is_free = _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 2 * run + 1)
        if is_free:
            _lock(file, fcntl.LOCK_UN, 2 * run + 1)
        return not is_free


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[_LockFile]:
    """The lock file through its one descriptor, for one thread at a time."""
    with _one_at_a_time:
        status = path.stat() if path.exists() else None
        file = _open_files.get((status.st_dev, status.st_ino)) if status else None
        if file is None:
            if any(other.path == path for other in _open_files.values()):
                raise Misplaced(f"{path.name} was moved away or replaced; put the original back")
            descriptor = os.open(path, flags, 0o600)
            status = os.fstat(descriptor)
            file = _LockFile(path, descriptor, (status.st_dev, status.st_ino))
            _open_files[file.identity] = file
        try:
            yield file
        finally:
            _close_unused(file)


def _close_unused(file: _LockFile) -> None:
    if not file.runs:
        del _open_files[file.identity]
        os.close(file.descriptor)


def _lock(file: _LockFile, operation: int, byte: int) -> bool:
    try:
        fcntl.lockf(file.descriptor, operation, 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True
