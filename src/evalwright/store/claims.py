"""Who executes a run: a lock that the operating system drops when its holder dies.

Each run owns one byte of a lock file beside the database. Only POSIX systems have such locks;
elsewhere a second executor is still stopped by the log itself, when it appends.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalwright.contracts.errors import RunBusy

HAS_LOCKS = importlib.util.find_spec("fcntl") is not None
if HAS_LOCKS:
    import fcntl


@contextmanager
def claim(lock_file: Path, run: int, run_id: str) -> Iterator[None]:
    """Hold the right to execute a run for as long as the context lasts."""
    if not HAS_LOCKS:
        yield
        return
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, run)
        except OSError:
            raise RunBusy(f"run {run_id} is being executed by another process") from None
        yield
    finally:
        os.close(descriptor)


def is_claimed(lock_file: Path, run: int) -> bool:
    """Whether another process holds the right to execute the run."""
    if not HAS_LOCKS or not lock_file.exists():
        return False
    descriptor = os.open(lock_file, os.O_RDONLY)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, run)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
