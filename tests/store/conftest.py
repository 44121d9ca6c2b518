"""A log in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
