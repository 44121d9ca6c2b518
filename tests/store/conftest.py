"""A log in a folder or in a database of its own.

Tests marked `both_databases` run with SQLite and with PostgreSQL, unless they are `sqlite_only`.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_events import Place, opened

from evalwright.store.protocol import EventLog
from evalwright.store.sqlite import log as sqlite
from postgres_server import PostgresServer, execute

TABLES = (
    "runs, events, contents, run_contents, run_tags, tombstones, records, tenant_sizes,"
    " record_sizes, writers"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "both_databases" in marks and "database" in metafunc.fixturenames:
        kinds = ["sqlite"] if "sqlite_only" in marks else ["sqlite", "postgres"]
        metafunc.parametrize("database", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> str:
    """Which database keeps the log."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="session")
def reused_address(postgres: PostgresServer) -> Iterator[str]:
    """A database for one test after the other: emptying one is quicker than making one."""
    address = postgres.new_database()
    opened(address).close()
    yield address
    postgres.drop_database(address)


@pytest.fixture
def path(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Where the log is, or will be."""
    if database == "sqlite":
        return tmp_path / "log.db"
    address = str(request.getfixturevalue("reused_address"))
    execute(address, f"TRUNCATE {TABLES} RESTART IDENTITY")
    return address


@pytest.fixture
def log(path: Place) -> Iterator[EventLog]:
    """An open log, closed after the test."""
    log = opened(path)
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
def shared_log(
    database: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[EventLog]:
    """An open log for all examples of a property: each must use names that are its own."""
    if database == "sqlite":
        log = opened(tmp_path_factory.mktemp("shared") / "log.db")
        yield log
        log.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    address = server.new_database()
    log = opened(address)
    yield log
    log.close()
    server.drop_database(address)
