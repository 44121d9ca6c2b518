"""Hosts to test: one in this process for each test, and one as a process of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.caller import Caller
from host.server import HostProcess, ServedHost, running_host
from subjects.command import Evalwright
from subjects.waiting import Journal

_numbers = itertools.count(1)


@pytest.fixture
def gate(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """The gate at which the gated agents of this process wait; it is open in the end."""
    for name, value in journal.environment.items():
        monkeypatch.setenv(name, value)
    yield journal
    journal.open_gate()


@pytest.fixture
def served(tmp_path: Path, gate: Journal) -> Iterator[ServedHost]:
    """A host with the scripted agents, and a log of its own."""
    with running_host(tmp_path / "host.db") as served:
        yield served


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host for all tests of a module, each of which takes a tenant of its own."""
    with running_host(tmp_path_factory.mktemp("host") / "host.db") as served:
        yield served


@pytest.fixture
def newcomer(lasting: ServedHost) -> Caller:
    """A client of the lasting host, of a tenant that has nothing yet."""
    return lasting.caller(f"tenant-{next(_numbers)}")


@pytest.fixture
def caller(served: ServedHost) -> Caller:
    """A client that may do everything, of tenant `acme`."""
    return served.caller()


@pytest.fixture
def process(evalwright: Evalwright, journal: Journal) -> HostProcess:
    """`evalwright serve` with the scripted agents; not started yet."""
    return HostProcess(evalwright, journal.environment)
