"""Where a log is kept, and what to say when that place cannot be used."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.contracts.errors import BadInput, DamagedEventLog, RunNotFound, StoreError

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

VARIABLE = "EVALWRIGHT_DB"

_ELSEWHERE = "name a writable file with --db"
_REMEDIES = {
    sqlite3.SQLITE_FULL: "free some space, or name a file elsewhere with --db",
    sqlite3.SQLITE_IOERR: "free some space or check the disk, or name a file elsewhere with --db",
    sqlite3.SQLITE_BUSY: "another process holds it; try again when that process has ended",
    sqlite3.SQLITE_READONLY: _ELSEWHERE,
    sqlite3.SQLITE_CANTOPEN: _ELSEWHERE,
    sqlite3.SQLITE_PERM: _ELSEWHERE,
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BAD_VALUES = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)


def open_log(url: str | None = None) -> "EventLog":
    """Open the log that `--db` names, else the user's own."""
    from evalwright.store.sqlite import SqliteLog

    return SqliteLog(chosen_path(url))


def chosen_path(url: str | None = None) -> Path:
    """The file of the log: from `--db`, `EVALWRIGHT_DB` or the user's data folder."""
    if url is not None and not url:
        raise BadInput("--db is empty; name a file, or leave it out")
    named_by, url = ("--db", url) if url else (VARIABLE, os.environ.get(VARIABLE))
    if not url:
        from platformdirs import user_data_path

        return user_data_path("evalwright", appauthor=False) / "evalwright.db"
    scheme, is_url, name = url.partition("://")
    if not is_url:
        name = url
    elif scheme != "sqlite":
        # The rest is not repeated: it may hold a password.
        raise BadInput(
            f"{named_by} {scheme}://…: this version keeps its log in SQLite; "
            "name a file or sqlite:///path"
        )
    elif not name.startswith("/") or name == "/":
        raise BadInput(
            f"{named_by} {url}: write sqlite:///relative/path or sqlite:////absolute/path"
        )
    else:
        name = name.removeprefix("/")
    if name == ":memory:":
        raise BadInput(f"{named_by} {name}: a log is kept in a file; name one")
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise BadInput(
            f"{named_by} {name}: there is no such user; write the path in full"
        ) from None


@contextmanager
def clear_errors(place: str) -> Iterator[None]:
    """Turn what SQLite and the operating system raise into errors that name the place."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(place, error) from error


def explain(place: str, error: Exception) -> StoreError:
    """The error to raise for a log that cannot be read or written."""
    code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the primary code is the low byte
    if code in _DAMAGED:
        return DamagedEventLog(
            f"{place}: the database is damaged ({error}); "
            "restore it from a copy, or name another file with --db"
        )
    if isinstance(error, OSError):
        elsewhere = error.filename and str(error.filename) != place
        reason = f"{error.strerror or error}" + (f" ({error.filename})" if elsewhere else "")
        return StoreError(f"{place}: the event log cannot be opened: {reason}; {_ELSEWHERE}")
    remedy = f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
    return StoreError(f"{place}: the event log cannot be used: {error}{remedy}")


def blames_the_place(error: Exception) -> bool:
    """Whether the file or its disk failed, rather than what was to be written."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _BAD_VALUES)


def log_exists(db: str | None) -> bool:
    """Whether there is a file where the log would be."""
    path = chosen_path(db)
    with clear_errors(str(path)):
        try:
            path.stat()
        except FileNotFoundError:
            return False
        return True


def nothing_recorded(db: str | None) -> str:
    """What to say where there is no log yet."""
    return f"{chosen_path(db)}: no run has been recorded here; start with `evalwright run`"


def open_existing_log(db: str | None) -> "EventLog":
    """Open a log to read from: unlike one to write to, it is not made when it is missing."""
    if not log_exists(db):
        raise RunNotFound(nothing_recorded(db))
    return open_log(db)


@contextmanager
def existing_log(db: str | None) -> Iterator["EventLog"]:
    """A log to read from, closed when the caller is done with it."""
    log = open_existing_log(db)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def opened_log(db: str | None) -> Iterator["EventLog"]:
    """The log, closed when the caller is done with it."""
    log = open_log(db)
    try:
        yield log
    finally:
        log.close()
