"""Where a log is: from `--db`, `EVALWRIGHT_DB` or the user's data directory to an open log."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.contracts.errors import BadInput

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

VARIABLE = "EVALWRIGHT_DB"


def open_log(url: str | None = None) -> "EventLog":
    """Open the log that was asked for, else the user's own."""
    from evalwright.store.sqlite import SqliteLog

    return SqliteLog(chosen_path(url))


def chosen_path(url: str | None = None) -> Path:
    """The file of the log that was asked for, else of the user's own; it need not exist."""
    if url is not None:
        if not url:
            raise BadInput("--db is empty; name a file, or leave it out")
        return log_path(url)
    return log_path(os.environ.get(VARIABLE), named_by=VARIABLE)


def log_path(url: str | None, named_by: str = "--db") -> Path:
    """The file that a URL or path names."""
    if not url:
        from platformdirs import user_data_path

        return user_data_path("evalwright", appauthor=False) / "evalwright.db"
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _file(url, named_by)
    if scheme != "sqlite":
        # The rest is not repeated: it may hold a password.
        raise BadInput(
            f"{named_by} {scheme}://…: this version keeps its log in SQLite; "
            "name a file or sqlite:///path"
        )
    if not rest.startswith("/") or rest == "/":
        raise BadInput(
            f"{named_by} {url}: write sqlite:///relative/path or sqlite:////absolute/path"
        )
    return _file(rest.removeprefix("/"), named_by)


def _file(name: str, named_by: str) -> Path:
    if name == ":memory:":
        raise BadInput(f"{named_by} {name}: a log is kept in a file; name one")
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise BadInput(
            f"{named_by} {name}: there is no such user; write the path in full"
        ) from None
