"""Fixtures that the tests of the engine, the agents and the command line share."""

import itertools
import os
import secrets
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from postgres_server import (
    NoPostgres,
    PostgresServer,
    binaries,
    refuse_or_skip,
    session_name,
    shared_server,
)
from subjects.command import Evalwright
from subjects.runs import Workshop
from subjects.waiting import Journal

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")

# A shell has what it runs in the background ignore SIGINT, and every child would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

OURS = ("EVALWRIGHT_", "XDG_", "NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what pytest makes of the asserts of 580 modules, also where Python keeps no bytecode.

    Else every worker would make it anew each time: 20 seconds of CPU.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Places that are not there yet."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(
    request: pytest.FixtureRequest, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test reads the settings or touches the log of whoever runs it.

    Only those that have a folder anyway get one: making and removing them all takes a while.
    """
    for name in list(os.environ):
        if name.startswith(OURS):
            monkeypatch.delenv(name)
    has_folder = "tmp_path" in request.fixturenames
    home = request.getfixturevalue("tmp_path") if has_folder else next(homes)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))


@pytest.fixture(autouse=True)
def signals_heard() -> Iterator[None]:
    """A command that was interrupted in this process ignores signals; the next would inherit it."""
    yield
    for number, heard in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, heard or signal.SIG_DFL)


@pytest.fixture
def evalwright(tmp_path: Path) -> Iterator[Evalwright]:
    """The real command, in a folder and with a log of its own."""
    command = Evalwright(tmp_path)
    yield command
    command.end()


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    """The engine in this process, with a log of its own."""
    workshop = Workshop(tmp_path / "log.db")
    yield workshop
    workshop.close()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A file in which the agents of `subjects/journal.py` note what they do."""
    return Journal(tmp_path / "journal.txt")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, one for all processes of the test session."""
    try:
        binaries()
    except NoPostgres as error:
        refuse_or_skip(str(error))
    with shared_server(session_name()) as server:
        yield server


@pytest.fixture
def own_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A PostgreSQL that a test may stop, kill and restart: no other test uses it."""
    with shared_server(f"own-{secrets.token_hex(6)}", postgres.programs) as server:
        yield server


@pytest.fixture
def postgres_address(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database for one test, as `--db` takes it."""
    address = postgres.new_database()
    yield address
    postgres.drop_database(address)
