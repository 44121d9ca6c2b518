"""Options that several commands share, and the log that they open."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from evalwright.contracts.errors import BadInput
from evalwright.store.location import VARIABLE, open_log
from evalwright.store.protocol import EventLog

F = TypeVar("F", bound=Callable[..., Any])

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The event log, a file or sqlite:///path; else ${VARIABLE}, else the user's data folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON alone on stdout.")


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
