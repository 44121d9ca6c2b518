"""The place that these tests work in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deploying import DeploymentDesk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[DeploymentDesk]:
    """A log of its own, a clock that stands still, an agent in three versions."""
    desk = DeploymentDesk(tmp_path)
    yield desk
    desk.log.close()
