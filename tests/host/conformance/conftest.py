"""A host in conformance mode, for all tests of a module."""

from collections.abc import Iterator

import pytest

from evalwright_conformance import EXTENSION
from host.conformance.fixture_runs import IN_CHECKOUT
from host.server import HostProcess, ServedHost, running_host
from subjects.command import Evalwright
from subjects.waiting import Journal


@pytest.fixture
def process(evalwright: Evalwright, journal: Journal) -> HostProcess:
    """`evalwright serve` where it finds the package; not started yet."""
    return HostProcess(evalwright, {**journal.environment, **IN_CHECKOUT})


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host with the seams and workflows of the suite, and without other agents."""
    db = tmp_path_factory.mktemp("conformance") / "host.db"
    with running_host(db, settings={"agents": {}}, extension=EXTENSION) as served:
        yield served
