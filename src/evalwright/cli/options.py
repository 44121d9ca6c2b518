"""Options that several commands share, and the log that they open."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.store.failure import clear_errors
from evalwright.store.location import VARIABLE, chosen_path, open_log
from evalwright.store.protocol import EventLog

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The event log, a file or sqlite:///path; else ${VARIABLE}, else the user's data folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON alone on stdout.")


class _AboveZero(click.FloatRange):
    """A limit: above 0, and a number in earnest."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is no finite number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number of {self.name}.", param, ctx)
        return number


class Seconds(_AboveZero):
    """A time limit."""

    name = "seconds"


class Dollars(_AboveZero):
    """A limit of cost, in US dollars."""

    name = "dollars"


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
def existing_log(db: str | None) -> Iterator[EventLog]:
    """A log to read from: unlike one to write to, it is not made when it is missing."""
    if not log_exists(db):
        raise RunNotFound(nothing_recorded(db))
    with opened_log(db) as log:
        yield log


@contextmanager
def opened_log(db: str | None) -> Iterator[EventLog]:
    """The log, closed when the command is done with it."""
    log = open_log(db)
    try:
        yield log
    finally:
        log.close()


def read_input(path: Path) -> bytes:
    """The content of a file that the user named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
