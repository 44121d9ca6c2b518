"""What only a log in PostgreSQL does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import (
    a_score,
    a_start,
    an_event,
    asked,
    numbered,
    opened,
    written,
)
from log_processes import a_child

from evalwright.contracts.errors import (
    BadInput,
    LogConflict,
    MissingExtra,
    NotAnEventLog,
    RunBusy,
    StoreError,
)
from evalwright.store.location import open_log
from evalwright.store.postgres import leases, migration, schema
from evalwright.store.postgres.address import driver, explain, masked
from evalwright.store.postgres.connections import LogConnections
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.postgres.stored_text import end_of_prefix, restored, storable
from postgres_server import PostgresServer, in_a_loop
from subjects.waiting import eventually


@pytest.fixture(scope="module")
def database() -> str:
    return "postgres"


@pytest.fixture
def log(path: str) -> Iterator[PostgresLog]:
    log = PostgresLog(path)
    yield log
    log.close()


def test_processes_that_append_to_one_run_share_its_sequence(log: PostgresLog, path: str) -> None:
    with closing(PostgresLog(path)) as other:
        log.append("run", [a_start()])
        written(log)
        for number in range(20):
            for each in (log, other):
                each.append("run", numbered(number))
        written(log)
        written(other)

    assert [event.sequence for event in log.read("run")] == list(range(41))


# Addresses.


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgres://me:pass%40word@host:5/db?sslmode=require", "postgresql://me@host:5/db"),
        ("postgresql://me:a@b@one,two:5/db?password=x", "postgresql://me@one,two:5/db"),
        ("postgresql:///db?host=/run", "postgresql:///db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert masked(address) == shown


def test_no_message_has_the_password(path: str) -> None:
    with closing(open_log(path.replace("postgres@", "postgres:secret@"))) as log:
        log.append("run", [a_start(), an_event("eval.scored", None)])
        with pytest.raises(LogConflict) as raised:
            written(log)
        assert "secret" not in f"{log.place} {raised.value!r}"
    nobody = path.replace("postgres@", "nobody:secret@")
    with pytest.raises(StoreError) as raised:
        open_log(nobody)
    assert "nobody" in str(raised.value)
    assert "secret" not in repr(raised.value)


def test_without_the_extra_the_remedy_is_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'PATH_TO_THE_CLONE\[postgres\]'"):
        open_log(path)


def test_a_bad_address_is_the_users_mistake() -> None:
    with pytest.raises(
        BadInput,
        match=r"//me@host:x/db: not an address of PostgreSQL: the port is not a number",
    ):
        open_log("postgresql://me:secret@host:x/db")


def test_who_is_not_let_in_is_told_what_to_check() -> None:
    refused = driver().InvalidAuthorizationSpecificationError("no pg_hba.conf entry, no encryption")
    wrong = driver().InvalidPasswordError("password authentication failed")
    assert "write ?sslmode=require after the address" in str(explain("place", refused))
    assert "the password in PGPASSWORD" in str(explain("place", wrong))


def test_a_parameter_that_no_server_knows_is_the_users_mistake(path: str) -> None:
    with pytest.raises(BadInput, match=r'not an address of PostgreSQL: unrecognized .* "sslmod"'):
        open_log(f"{path}?sslmod=require")


# Texts.

texts = st.text(st.sampled_from("\0\1\2a\ud7ff\ue000\U0010ffff"), max_size=5)


@given(texts, texts)
def test_texts_are_kept_without_null_characters_in_the_same_order(one: str, two: str) -> None:
    assert restored(storable(one)) == one
    assert "\0" not in storable(one)
    assert (storable(one) < storable(two)) == (one < two)
    assert storable(one + two).startswith(storable(one))


@given(texts, texts)
def test_the_end_of_a_prefix_parts_what_begins_with_it_from_the_rest(
    prefix: str, text: str
) -> None:
    end = end_of_prefix(prefix)
    between = prefix <= text and (end is None or text < end)
    assert between == text.startswith(prefix)


# Claims.


def test_a_claim_lapses_soon_after_its_holder_was_killed(log: PostgresLog, path: str) -> None:
    assert leases.LEASE_SECONDS <= 15
    with a_child("claim_for_a_second", path, "run") as other:
        assert other.hear() == "claimed"
        assert log.is_claimed("run")
        other.kill()

    with pytest.raises(RunBusy), log.claim("run"):
        pass
    eventually(lambda: not log.is_claimed("run"), "the claim lapses")
    with log.claim("run"):
        assert log.is_claimed("run")


def test_a_claim_is_prolonged_while_its_holder_lives(
    log: PostgresLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    until = "SELECT claimed_until FROM runs"
    with log.claim("run"):
        (first,) = asked(path, until)
        eventually(lambda: asked(path, until)[0] > first, "the claim is prolonged")
        assert log.is_claimed("run")


def test_a_claim_that_was_given_up_is_not_prolonged_any_more(log: PostgresLog) -> None:
    with log.claim("run"):
        held = dict(log._database.leases.held)
    values = [*held], [*held.values()], 10.0

    log._database.connections.query("*", leases._PROLONG, *values)

    assert not log.is_claimed("run")


def test_a_claim_whose_answer_was_lost_is_found_to_be_ones_own(
    log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = LogConnections.fetch

    async def fetch_twice(self: LogConnections, tenants: str, statement: str, *values: Any) -> Any:
        if statement == leases._CLAIM:
            await fetch(self, tenants, statement, *values)
        return await fetch(self, tenants, statement, *values)

    monkeypatch.setattr(LogConnections, "fetch", fetch_twice)
    with log.claim("run"):
        assert log.is_claimed("run")
    assert not log.is_claimed("run")


def test_who_has_lost_a_run_to_another_process_appends_no_more(log: PostgresLog, path: str) -> None:
    """Such as a process that was stopped for a while, and does not know it."""
    with closing(PostgresLog(path)) as other, log.claim("run"):
        log.append("run", [a_start()])
        written(log)
        asked(path, "UPDATE runs SET claimed_until = now() - interval '1 second'")
        with other.claim("run"):
            log.append("run", [an_event()])
            with pytest.raises(LogConflict, match="the run was taken over"):
                written(log)
            other.append("run", numbered(1))
            written(other)

    assert [event.body for event in log.read("run")] == [b"{}", b"1"]


# Schemas.


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.new_database()
    yield address
    postgres.drop_database(address)


def test_an_empty_database_gets_its_tables_once(empty: str) -> None:
    opened(empty).close()
    assert asked(empty, "SELECT version FROM evalwright_schema") == [(schema.VERSION,)]
    assert in_a_loop(lambda: migration.migrate(empty)) == (schema.VERSION, schema.VERSION)


def test_a_process_goes_on_beside_a_newer_one_that_has_migrated(empty: str) -> None:
    with closing(opened(empty)) as old:
        asked(empty, "UPDATE evalwright_schema SET version = version + 1")
        old.append("run", [a_start()])
        written(old)
        with closing(opened(empty)) as again:
            assert again.run_ids() == ["run"]


def test_a_database_that_only_newer_versions_know_is_refused(empty: str) -> None:
    opened(empty).close()
    asked(empty, "UPDATE evalwright_schema SET version = 99, oldest = 99")
    with pytest.raises(NotAnEventLog, match="written by a newer Evalwright"):
        opened(empty)


def test_an_older_schema_is_migrated_when_it_is_asked_for(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(empty).close()
    more = schema.Migration("CREATE TABLE more (x int)", oldest=1)
    monkeypatch.setattr(migration, "MIGRATIONS", (*schema.MIGRATIONS, more))
    monkeypatch.setattr(migration, "VERSION", schema.VERSION + 1)
    with pytest.raises(StoreError, match="run `evalwright db migrate`"):
        opened(empty)

    before, after = in_a_loop(lambda: migration.migrate(empty))

    assert (before, after) == (schema.VERSION, schema.VERSION + 1)
    opened(empty).close()
    assert asked(empty, "SELECT * FROM more") == []


def test_a_schema_that_was_never_released_is_refused(empty: str) -> None:
    opened(empty).close()
    asked(empty, "UPDATE evalwright_schema SET version = 3")
    with pytest.raises(StoreError, match="no release has the schema 3"):
        migration.migrate_now(empty)


def test_the_database_of_another_program_is_left_alone(empty: str) -> None:
    asked(empty, "CREATE TABLE runs (distance int)")
    with pytest.raises(NotAnEventLog, match="a database of another program"):
        opened(empty)
    assert asked(empty, "SELECT to_regclass('events')::text") == [(None,)]


# Kills.


@pytest.mark.parametrize("role", ["acknowledge_flushed", "acknowledge_watched"])
def test_a_killed_writer_loses_no_acknowledged_event(path: str, role: str) -> None:
    with a_child(role, path, 0, 0) as child:
        heard = [child.hear() for _ in range(40)]
        heard += child.kill()

    with closing(PostgresLog(path)) as log:
        events = list(log.read("run"))
    assert [(event.sequence, int(event.body)) for event in events] == [
        (number, number) for number in range(len(events))
    ]
    assert len(events) >= int(heard[-1])


def test_one_score_per_task_holds_for_who_goes_around_the_log(log: PostgresLog, path: str) -> None:
    log.append("run", [a_start(), a_score("task")])
    written(log)
    again = "INSERT INTO events SELECT run, 9, at_us, NULL, tenant, type, task_id, body FROM events"
    with pytest.raises(Exception, match="one_score_per_task"):
        asked(path, f"{again} WHERE type = 'eval.scored'")
    for change in ("UPDATE events SET body = ''", "DELETE FROM events", "DELETE FROM runs"):
        with pytest.raises(Exception, match="append-only"):
            asked(path, change)


# Whoever waits within a transaction for longer than five seconds loses the connection.
WATCHED_MIGRATION = """
import asyncio, sys
from evalwright.store.postgres import migration

async def watched(*given):
    before = set(sys.modules)
    done = await migrate(*given)
    print(sorted({each.partition(".")[0] for each in set(sys.modules) - before}))
    return done

migrate, migration._migrate = migration._migrate, watched
asyncio.run(migration.migrate(sys.argv[1]))
"""


def test_nothing_is_loaded_while_the_tables_are_being_made(postgres_address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED_MIGRATION, postgres_address],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_server_that_is_too_old_is_refused_before_anything_is_made(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "OLDEST_SERVER", 99)
    with pytest.raises(StoreError, match="is too old; name a server of version 99 or later"):
        migration.migrate_now(empty)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert asked(empty, tables)[0] == (0,)


def test_roles_that_others_make_at_the_same_moment_are_tried_ten_times() -> None:
    asyncpg = driver()
    busy = migration._busy_catalog(last=False)
    assert asyncpg.DuplicateObjectError in busy
    assert asyncpg.UniqueViolationError in busy
    assert migration._busy_catalog(last=True) == ()
