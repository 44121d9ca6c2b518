"""Fixtures of tests of the fleet."""

from collections.abc import Iterator

import pytest

from fleet.workers_here import Fleet, a_fleet
from postgres_server import PostgresServer


@pytest.fixture(scope="module")
def fleet(postgres: PostgresServer) -> Iterator[Fleet]:
    """A database for workers of this process; the tests of a module end the runs they begin."""
    address = postgres.new_database()
    with a_fleet(address) as fleet:
        yield fleet
    postgres.drop_database(address)
