"""A host in conformance mode, for all tests of a module."""

from collections.abc import Iterator

import pytest

from evalwright.host.conformance import EXTENSION
from host.server import ServedHost, running_host


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host with the seams and workflows of the suite, and without other agents."""
    db = tmp_path_factory.mktemp("conformance") / "host.db"
    with running_host(db, settings={"agents": {}}, extension=EXTENSION) as served:
        yield served
