"""Where a log is: from `--db`, `EVALWRIGHT_DB` or the user's data directory to an open log."""

import os
from pathlib import Path

from evalwright.contracts.errors import BadInput
from evalwright.store.protocol import EventLog

VARIABLE = "EVALWRIGHT_DB"


def open_log(url: str | None = None) -> EventLog:
    """Open the log that was asked for, else the user's own."""
    from evalwright.store.sqlite import SqliteLog

    return SqliteLog(log_path(url or os.environ.get(VARIABLE)))


def log_path(url: str | None) -> Path:
    """The file that a URL or path names."""
    if not url:
        from platformdirs import user_data_path

        return user_data_path("evalwright", appauthor=False) / "evalwright.db"
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Path(url).expanduser()
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return Path(rest.removeprefix("/")).expanduser()
    if scheme == "sqlite":
        raise BadInput(f"--db {url}: write sqlite:///relative/path or sqlite:////absolute/path")
    raise BadInput(f"--db {url}: this version keeps its log in SQLite; name a file or sqlite:///…")
