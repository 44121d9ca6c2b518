"""Where a log is kept, what to say when that place fails, and how long to put up with it."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evalwright.contracts.errors import (
    BadInput,
    DamagedEventLog,
    LogConflict,
    RunNotFound,
    StoreError,
    StoreUnavailable,
)
from evalwright.contracts.messages import IN_LOGS, Text, phrase
from evalwright.store.records import RecordConflict

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

VARIABLE = "EVALWRIGHT_DB"
BUSY_SECONDS = 30  # that a connection waits for others

_ELSEWHERE = phrase("name a writable file with {@db}")
_REMEDIES: dict[int, Text] = {
    sqlite3.SQLITE_FULL: phrase("free some space, or name a file elsewhere with {@db}"),
    sqlite3.SQLITE_IOERR: phrase(
        "free some space or check the disk, or name a file elsewhere with {@db}"
    ),
    sqlite3.SQLITE_BUSY: "another process holds it; try again when that process has ended",
    sqlite3.SQLITE_READONLY: _ELSEWHERE,
    sqlite3.SQLITE_CANTOPEN: _ELSEWHERE,
    sqlite3.SQLITE_PERM: _ELSEWHERE,
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BAD_VALUES = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)

ATTEMPT_SECONDS = 0.5  # that one attempt waits while another process writes
FIRST_DELAY_SECONDS = 0.05  # between attempts; it doubles up to the next
LONGEST_DELAY_SECONDS = 0.5
QUIET_SECONDS = 1.0  # an outage that is shorter is not worth a line in the logs

_PASSING = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
    }
)

_ALMOST_ADDRESSES = (
    "postgresql:",
    "postgres:",
    "postgresql//",
    "postgres//",
    "sqlite:",
    "sqlite//",
)
_FILES = {"": "file", "-wal": "-wal file", "-shm": "-shm file"}  # by the ending of their names

_logger = logging.getLogger(__name__)


class Patience(NamedTuple):
    """For how many seconds of an outage a write is tried again.

    `requests` have somebody waiting who can ask again. `appends` are what runs have recorded: if
    they are given up, their runs stop. `closing` is for both once the log is being closed.
    """

    requests: float = 60
    appends: float = 60
    closing: float = 30


HOST_PATIENCE = Patience(requests=2, appends=float("inf"), closing=2)


class Misplaced(OSError):
    """The files of the log are not where they were opened."""


def primary_code(error: Exception) -> int:
    """The primary result code of SQLite, without its extension; 0 for any other error."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def may_pass(error: Exception) -> bool:
    """Whether the same write may succeed later: the place failed, and nothing is damaged."""
    return isinstance(error, Misplaced) or primary_code(error) in _PASSING


@dataclass(frozen=True)
class Anchor:
    """The files of a database as they were opened.

    SQLite writes to the files that it has opened, wherever they are now. What is written while they
    are away would be missing from the log that the next process opens in their place.
    """

    place: Path
    known: dict[str, tuple[int, int]] = field(default_factory=dict)  # device and inode, by ending

    def check(self) -> None:
        """Raise `Misplaced` unless every file that was seen before is in its place."""
        for end, name in _FILES.items():
            try:
                status = os.stat(f"{self.place}{end}")  # noqa: PTH116 - before every commit
            except OSError as error:
                if end not in self.known:  # SQLite makes the others when it first writes
                    continue
                is_gone = isinstance(error, FileNotFoundError)
                why = "moved away or deleted" if is_gone else f"out of reach ({error.strerror})"
                raise Misplaced(f"its {name} is {why}; put it back") from None
            found = status.st_dev, status.st_ino
            if self.known.setdefault(end, found) != found:
                message = f"another file is in the place of its {name}; put the original back"
                raise Misplaced(message)


class Outage:
    """The time since writes began to fail."""

    def __init__(self, began: float) -> None:
        self.error = StoreUnavailable("not tried yet", "not tried yet")  # of the last attempt
        self._began = began
        self._delay = FIRST_DELAY_SECONDS
        self._is_logged = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def go_on(self, error: StoreUnavailable) -> None:
        self.error = error
        if not self._is_logged and self.seconds > QUIET_SECONDS:
            self._is_logged = True
            _logger.warning("%s; trying again", error.told(IN_LOGS))

    def refuse_after(self, seconds: float) -> None:
        """Raise once it has lasted so long: whoever asks now would wait for its end in vain."""
        if self.seconds >= seconds:
            raise StoreUnavailable(self.error.said or str(self.error), self.error.reason)

    def wait(self) -> None:
        time.sleep(self._delay)
        self._delay = min(self._delay * 2, LONGEST_DELAY_SECONDS)

    def end(self, place: str) -> None:
        if self._is_logged:
            _logger.warning("%s: the event log is written again, after %.0f s", place, self.seconds)


def open_log(url: str | None = None, patience: Patience | None = None) -> "EventLog":
    """Open the log that is named, else the user's own."""
    address = chosen_address(url)
    if address is not None:
        from evalwright.store.postgres.log import PostgresLog

        return PostgresLog(address, patience=patience)
    from evalwright.store.sqlite.log import SqliteLog

    return SqliteLog(chosen_path(url), patience=patience)


def chosen_address(url: str | None = None) -> str | None:
    """The address of the PostgreSQL database that is named, here or by `EVALWRIGHT_DB`."""
    url = url if url is not None else os.environ.get(VARIABLE, "")
    return url if url.startswith(("postgresql://", "postgres://")) else None


def chosen_path(url: str | None = None) -> Path:
    """The file of the log: as named here, by `EVALWRIGHT_DB`, or in the user's data folder."""
    if url is not None and not url:
        raise BadInput(phrase("{@db} is empty; name a file, or leave it out"))
    named = "{@db:{url}}" if url else f"{VARIABLE} {{url}}"
    url = url or os.environ.get(VARIABLE)
    if not url:
        from platformdirs import user_data_path

        return user_data_path("evalwright", appauthor=False) / "evalwright.db"
    scheme, is_url, name = url.partition("://")
    if not is_url:
        # Raise for what was meant as an address: a file of that name would show the password.
        for start in _ALMOST_ADDRESSES:
            if url.lower().startswith(start):
                raise BadInput(
                    phrase(
                        named + ": hardly a file; write postgresql://user@host/database or "
                        "sqlite:///path, or ./ before the name of a file",
                        url=f"{start}…",
                    )
                )
        name = url
    elif scheme != "sqlite":
        # The rest is not repeated: it may hold a password.
        raise BadInput(
            phrase(
                named + ": a log is in SQLite or in PostgreSQL; "
                "name a file, sqlite:///path or postgresql://user@host/database",
                url=f"{scheme}://…",
            )
        )
    elif not name.startswith("/") or name == "/":
        raise BadInput(
            phrase(named + ": write sqlite:///relative/path or sqlite:////absolute/path", url=url)
        )
    else:
        name = name.removeprefix("/")
    if name == ":memory:":
        raise BadInput(phrase(named + ": a log is kept in a file; name one", url=name))
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise BadInput(
            phrase(named + ": there is no such user; write the path in full", url=name)
        ) from None


def connect(path: Path) -> sqlite3.Connection:
    """A connection that any thread may use, and that waits while others write.

    It does not make the file: one that was moved away must not be replaced by an empty one.
    """
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite itself does not wait here for others that open the file."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


# What reading a file raises: the messages of SQLite name what is in it, which may be no text.
UNREADABLE = (sqlite3.Error, OSError, UnicodeDecodeError)
_NO_TEXT = "Could not decode to UTF-8"


@contextmanager
def clear_errors(place: str) -> Iterator[None]:
    """Turn what SQLite and the operating system raise into errors that name the place."""
    try:
        yield
    except UNREADABLE as error:
        raise explain(place, error) from error


def in_one_line(error: Exception) -> str:
    """What SQLite says, which may quote lines of a definition that it cannot read."""
    return " ".join(str(error).split())


def explain(place: str, error: Exception) -> StoreError:
    """The error to raise for a log that cannot be read or written."""
    if isinstance(error, UnicodeDecodeError) or _NO_TEXT in str(error):
        return DamagedEventLog(
            f"{place}: the database is damaged (a text in it is no UTF-8); "
            "`evalwright db check` says where; restore it from a copy"
        )
    if primary_code(error) in _DAMAGED:
        return DamagedEventLog(
            phrase(
                "{place}: the database is damaged ({error}); "
                "restore it from a copy, or name another file with {@db}",
                place=place,
                error=in_one_line(error),
            )
        )
    if may_pass(error):
        return unavailable(place, error)
    if isinstance(error, OSError):
        elsewhere = error.filename and str(error.filename) != place
        reason = f"{error.strerror or error}" + (f" ({error.filename})" if elsewhere else "")
        message = "{place}: the event log cannot be opened: {reason}; {remedy}"
        return StoreError(phrase(message, place=place, reason=reason, remedy=_ELSEWHERE))
    return StoreError(f"{place}: the event log cannot be used: {in_one_line(error)}")


def unavailable(place: str, error: Exception) -> StoreUnavailable:
    """The error to raise for a log that cannot be used now."""
    remedy = _REMEDIES.get(primary_code(error))
    message = phrase(
        "{place}: the event log cannot be used: {error}" + ("; {remedy}" if remedy else ""),
        place=place,
        error=in_one_line(error),
        remedy=remedy,
    )
    return StoreUnavailable(message, str(error))


class WrongTenant(Exception):
    """A tenant appends to the run of another tenant."""


def blames_the_place(error: Exception) -> bool:
    """Whether the file or its disk failed, rather than what was to be written."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _BAD_VALUES)


class Faults(NamedTuple):
    """What the errors of a database mean."""

    may_pass: Callable[[Exception], bool]
    unavailable: Callable[[str, Exception], StoreUnavailable]
    blames_the_place: Callable[[Exception], bool]
    explain: Callable[[str, Exception], StoreError]
    broken_rule: Callable[[Exception], str | None]  # which what was to be written breaks

    def explain_refusal(self, place: str, run_id: str | None, error: Exception) -> StoreError:
        if isinstance(error, StoreUnavailable):
            return StoreUnavailable(error.said or str(error), error.reason)
        if self.blames_the_place(error):
            return self.explain(place, error)
        if isinstance(error, RecordConflict):
            return RecordConflict(str(error))  # the one caught holds on to all that was written
        if run_id is None:
            return StoreError(f"{place} refused a document: {error!r}")
        why = str(error) if isinstance(error, WrongTenant) else repr(error)
        if rule := self.broken_rule(error):
            why = f"{rule}; is another process executing the same run?"
        return LogConflict(f"run {run_id} in {place} refused an event: {why}")


def _broken_rule(error: Exception) -> str | None:
    return str(error) if isinstance(error, sqlite3.IntegrityError) else None


SQLITE_FAULTS = Faults(may_pass, unavailable, blames_the_place, explain, _broken_rule)


def shown_db(db: str) -> str:
    """The log as it was named, without a password."""
    return db if chosen_address(db) is None else shown_place(db)


def shown_place(db: str | None = None) -> str:
    """The log as it may be shown: an address without its password, or a file."""
    address = chosen_address(db)
    if address is None:
        return str(chosen_path(db))
    from evalwright.store.postgres.address import masked

    return masked(address)


def log_exists(db: str | None) -> bool:
    """Whether there is a file where the log would be; a database makes its tables itself."""
    if chosen_address(db) is not None:
        return True
    path = chosen_path(db)
    with clear_errors(str(path)):
        try:
            path.stat()
        except FileNotFoundError:
            return False
        return True


def nothing_recorded(db: str | None) -> str:
    """What to say where there is no log yet."""
    return f"{shown_place(db)}: no run has been recorded here; start with `evalwright run`"


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
def opened_log(db: str | None, patience: Patience | None = None) -> Iterator["EventLog"]:
    """The log, closed when the caller is done with it."""
    log = open_log(db, patience)
    try:
        yield log
    finally:
        log.close()
