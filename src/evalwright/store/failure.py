"""From the errors of SQLite and of the operating system to ours, with what to do about them."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from evalwright.contracts.errors import DamagedEventLog, StoreError

_ELSEWHERE = "name a writable file with --db"
_REMEDIES = {
    sqlite3.SQLITE_FULL: "free some space, or name a file elsewhere with --db",
    sqlite3.SQLITE_IOERR: "free some space or look after the disk, or name a file elsewhere"
    " with --db",
    sqlite3.SQLITE_BUSY: "another process does not let go of it; try again when that has ended",
    sqlite3.SQLITE_READONLY: _ELSEWHERE,
    sqlite3.SQLITE_CANTOPEN: _ELSEWHERE,
    sqlite3.SQLITE_PERM: _ELSEWHERE,
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BAD_VALUES = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)


@contextmanager
def clear_errors(place: str) -> Iterator[None]:
    """Turn what SQLite and the operating system raise into errors that name the place."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(place, error) from error


def explain(place: str, error: Exception) -> StoreError:
    """The error to raise for a log that cannot be read or written."""
    code = _code(error)
    if code in _DAMAGED:
        return DamagedEventLog(
            f"{place}: the database is damaged ({error}); "
            "restore it from a copy, or name another file with --db"
        )
    if isinstance(error, OSError):
        words = _words(error, place)
        return StoreError(f"{place}: the event log cannot be opened: {words}; {_ELSEWHERE}")
    remedy = f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
    return StoreError(f"{place}: the event log cannot be used: {error}{remedy}")


def blames_the_place(error: Exception) -> bool:
    """Whether the file or its disk failed, rather than what was to be written."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _BAD_VALUES)


def _code(error: Exception) -> int:
    """The primary result code of SQLite: the low byte of the extended one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _words(error: OSError, place: str) -> str:
    elsewhere = error.filename and str(error.filename) != place
    return f"{error.strerror or error}" + (f" ({error.filename})" if elsewhere else "")
