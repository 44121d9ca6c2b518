"""What goes where: results to stdout, everything else to stderr, files written whole or not."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evalwright.contracts.errors import BadInput, CannotEvaluate

Emit = Callable[[bytes], None]


@contextmanager
def reserved_stdout(*, reserve: bool) -> Iterator[Emit]:
    """Keep stdout for the result: what agents and their children print goes to stderr."""
    sys.stdout.flush()
    if not reserve:
        yield write_stdout
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield lambda data: _write_all(kept, data)
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def write_stdout(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def check_place(path: Path) -> None:
    """Refuse, before the work begins, a file that cannot be written when it is done."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a directory" if path.is_dir() else f"{path.parent} is not a writable folder"
        raise BadInput(f"{path}: cannot be written: {reason}")


def make_folder(path: Path) -> None:
    """Make a folder for results, with its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: the folder cannot be made: {error.strerror}") from None


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file whole: beside its place first, then moved there."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CannotEvaluate(f"{path}: cannot be written: {error.strerror}") from None
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    except OSError as error:
        raise CannotEvaluate(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
