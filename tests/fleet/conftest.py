"""Fixtures of tests of the fleet."""

from collections.abc import Iterator

import pytest

from fleet.workers_here import Fleet, a_fleet


@pytest.fixture
def fleet(postgres_address: str) -> Iterator[Fleet]:
    """A database for workers of this process."""
    with a_fleet(postgres_address) as fleet:
        yield fleet
