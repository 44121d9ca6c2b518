"""What only a log in PostgreSQL does."""

from collections.abc import Iterator

import pytest
from log_events import a_start, an_event, numbered, written

from evalwright.store.location import open_log
from evalwright.store.postgres.log import PostgresLog


@pytest.fixture
def log(postgres_address: str) -> Iterator[PostgresLog]:
    log = open_log(postgres_address)
    assert isinstance(log, PostgresLog)
    yield log
    log.close()


def test_processes_that_append_to_one_run_share_its_sequence(
    log: PostgresLog, postgres_address: str
) -> None:
    other = open_log(postgres_address)
    log.append("run", [a_start()])
    written(log)
    for number in range(20):
        for each in (log, other):
            each.append("run", numbered(number))
    written(log)
    written(other)

    assert [event.sequence for event in log.read("run")] == list(range(41))
    other.close()


def test_a_password_is_not_shown(postgres_address: str) -> None:
    log = open_log(postgres_address.replace("postgres@", "postgres:secret@"))
    log.append("run", [a_start(), an_event("eval.scored", None)])

    with pytest.raises(Exception, match="refused an event") as raised:
        written(log)

    assert "secret" not in f"{log.place} {raised.value!r}"
    log.close()
