"""The host that is fuzzed."""

from collections.abc import Iterator

import pytest
from fuzzed_host import SETTINGS, Ground, at_home, prepare

from evalwright.host.access.egress import Egress, EgressPolicy
from host.server import running_host


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    egress = Egress(EgressPolicy(allow_private=True), lookup=at_home)
    db = tmp_path_factory.mktemp("fuzz") / "host.db"
    with running_host(db, settings=SETTINGS, egress=egress) as served:
        yield prepare(served)
