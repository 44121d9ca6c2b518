"""A log in a folder of its own."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalwright.store import sqlite
from evalwright.store.sqlite import SqliteLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is, or will be."""
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    """An open log, closed after the test."""
    log = SqliteLog(path)
    yield log
    log.close()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The instructions of SQLite, by the hundred, of all logs that the test opens."""
    steps: list[int] = []
    connect = sqlite.connect

    def counted(place: Path) -> sqlite3.Connection:
        connection = connect(place)
        connection.set_progress_handler(lambda: steps.append(100), 100)
        return connection

    monkeypatch.setattr(sqlite, "connect", counted)
    return steps


@pytest.fixture(scope="module")
def shared_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteLog]:
    """An open log for all examples of a property: each must use names that are its own."""
    log = SqliteLog(tmp_path_factory.mktemp("shared") / "log.db")
    yield log
    log.close()
