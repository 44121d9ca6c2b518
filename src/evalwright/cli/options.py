"""The option that names the log, and the log that commands open by it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from evalwright.contracts.errors import RunNotFound
from evalwright.store.location import VARIABLE, chosen_path, clear_errors, open_log

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The event log, a file or sqlite:///path; else ${VARIABLE}, else the user's data folder.",
)


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


@contextmanager
def existing_log(db: str | None) -> Iterator["EventLog"]:
    """A log to read from: unlike one to write to, it is not made when it is missing."""
    if not log_exists(db):
        raise RunNotFound(nothing_recorded(db))
    with opened_log(db) as log:
        yield log


@contextmanager
def opened_log(db: str | None) -> Iterator["EventLog"]:
    """The log, closed when the command is done with it."""
    log = open_log(db)
    try:
        yield log
    finally:
        log.close()
