"""Copies of a log that is in use, and a file without its unused space."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.messages import phrase
from evalwright.store.location import connect, explain, primary_code
from evalwright.store.sqlite.claims import HAS_LOCKS
from evalwright.store.sqlite.migration import inspect_file
from evalwright.store.upkeep import rewrite

if HAS_LOCKS:
    import fcntl

Progress = Callable[[int, int], None]  # bytes written, and how many are expected at most

_CLEAR = "kind = 'webhook' AND json_extract(CAST(body AS TEXT), '$.secret') IS NOT NULL"
_CLEARED = "CAST(json_remove(CAST(body AS TEXT), '$.secret') AS BLOB)"
_BESIDE = ("-wal", "-shm", "-journal", "-claims", "-key")  # the endings of files beside a log
_STOPS = (signal.SIGINT, signal.SIGTERM)
_STEPS = 20_000  # instructions of SQLite between two reports of progress
_REPORT_SECONDS = 1.0


class Backup(NamedTuple):
    """A finished copy: its size, and how many webhooks it has without their secrets."""

    size: int
    without_secret: int


def back_up(source: Path, target: Path, progress: Progress, *, replace: bool = False) -> Backup:
    """Write a copy of a log as it is at this moment, while others write.

    The copy is rebuilt row by row, so it holds nothing that was deleted from the log. It appears
    under its name when it is complete, and only its owner can read it.
    """
    inspect_file(source.resolve(), str(source))
    folder = target.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput(f"{target}: cannot be written: {folder} is not a writable folder")
    log = source.resolve()
    if target.resolve() in (log.with_name(log.name + end) for end in _BESIDE):
        raise BadInput(f"{target}: it belongs to the log; name another file")
    if os.path.lexists(target):
        if not target.is_file():
            raise BadInput(f"{target}: not a file; name another place")
        if target.resolve() == source.resolve():
            raise BadInput(f"{target}: the log itself; name another file")
        if not replace:
            raise _exists(target)
    with _part_of(target) as part:
        with _explained(source, part), closing(connect(source.resolve())) as connection:
            _report(connection, part, progress)
            connection.execute("VACUUM INTO ?", (str(part),))
        with _explained(part, part):
            without_secret = _drop_clear_secrets(part)
        _make_durable(part)
        if not replace and os.path.lexists(target):
            raise _exists(target)
        part.replace(target)
    _make_durable(target.parent)
    return Backup(target.stat().st_size, without_secret)


def _drop_clear_secrets(part: Path) -> int:
    """Keep out what version 0.2 stored in clear text; the host encrypts it when it starts."""
    with closing(connect(part.absolute())) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
        if not columns:
            return 0
        (count,) = connection.execute(f"SELECT count(*) FROM records WHERE {_CLEAR}").fetchone()  # noqa: S608
        if count:
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute("PRAGMA secure_delete = ON")
            changes = f"body = {_CLEARED}"
            if "checksum" in columns:
                changes += ", checksum = NULL"  # as documents of that version have it
            connection.execute(f"UPDATE records SET {changes} WHERE {_CLEAR}")  # noqa: S608
            connection.execute("DELETE FROM records WHERE kind = 'idempotency'")
        return int(count)


def compact(path: Path, progress: Progress) -> None:
    """Rebuild the file of a log without its unused space; nobody can write meanwhile."""
    inspect_file(path.resolve(), str(path))
    with _explained(path, path), closing(connect(path.resolve())) as connection:
        _report(connection, path.resolve(), progress)
        rewrite(connection)


def _exists(target: Path) -> BadInput:
    message = "{target}: exists already; name another file, or replace it with {@force}"
    return BadInput(phrase(message, target=target))


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A new file beside the target, which only this process writes; removed if it stays.

    Its name is always the same, so what a killed process left is found and removed.
    """
    part = target.with_name(f".{target.name}.part")
    journal = part.with_name(f"{part.name}-journal")
    descriptor = None
    try:
        with _uninterrupted():  # else a file could be there that nobody knows of
            while descriptor is None:
                descriptor = _created(part)
        journal.unlink(missing_ok=True)  # of a killed process; it does not belong to the new file
        yield part
    finally:
        if descriptor is not None:
            if _is_still(part, descriptor):
                part.unlink()
            journal.unlink(missing_ok=True)
            os.close(descriptor)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """What interrupts this thread meanwhile does so at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS) if HAS_LOCKS else ()
    try:
        yield
    finally:
        if HAS_LOCKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _created(part: Path) -> int | None:
    """A descriptor of the new file, locked; None if another one was in the way, and is gone."""
    is_new = True
    try:
        descriptor: int | None = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        descriptor, is_new = _existing(part), False
    except OSError as error:
        raise BadInput(f"{part}: cannot be written: {error.strerror}") from None
    if descriptor is None:
        return None
    if not _lock(descriptor):
        os.close(descriptor)
        message = f"{part}: another backup to the same file is being written; wait for it"
        raise CannotEvaluate(message)
    if is_new and _is_still(part, descriptor):
        return descriptor
    if _is_still(part, descriptor):
        part.unlink()
    os.close(descriptor)
    return None


def _existing(part: Path) -> int | None:
    try:
        return os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{part}: in the way: {error.strerror}; remove it") from None


def _lock(descriptor: int) -> bool:
    if HAS_LOCKS:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _is_still(part: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(part), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _explained(source: Path, written: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        is_full = primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        if is_full and written != source:
            message = f"{written}: the copy cannot be written: {error}"
            raise CannotEvaluate(f"{message}; free some space, or name another place") from error
        raise explain(str(source), error) from error
    except sqlite3.Error as error:
        raise explain(str(source), error) from error


def _report(connection: sqlite3.Connection, written: Path, progress: Progress) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    last = time.monotonic()

    def report() -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_SECONDS:
            last = time.monotonic()
            progress(written.stat().st_size, pages * page_size)

    connection.set_progress_handler(report, _STEPS)


def _make_durable(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
