"""Who executes a run: a lock that the operating system drops when its holder dies.

Each run owns one byte of a lock file beside the database. Only POSIX systems have such locks;
elsewhere a second executor is still stopped by the log itself, when it appends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalwright.contracts.errors import RunBusy

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]


@contextmanager
def claim(lock_file: Path, run: int, run_id: str) -> Iterator[None]:
    """Hold the right to execute a run for as long as the context lasts."""
    if fcntl is None:  # pragma: no cover - not a POSIX system
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
    if fcntl is None or not lock_file.exists():
        return False
    descriptor = os.open(lock_file, os.O_RDONLY)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, run)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
