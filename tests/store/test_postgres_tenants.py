"""Row-level security: what a query that forgets the tenant gets, which is nothing."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from log_documents import a_note, write
from log_events import a_start, an_end, an_event, asked, written

from evalwright.contracts.errors import LogConflict, StoreError
from evalwright.store.postgres import address, migration, schema
from evalwright.store.postgres.connections import TenantConnection, tenants_of
from evalwright.store.postgres.inspection import inspected
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.postgres.schema import EVERY_TENANT, ROLE, SETTING
from evalwright.store.upkeep import PartitionSize
from postgres_server import PostgresServer, database_of, execute

PLAN = '{"suite":{"tasks":"' + "x" * 5000 + '"}}'
START = '{"workflowId":"w","tags":["nightly"]}'
TABLES = (
    "runs",
    "events",
    "contents",
    "run_contents",
    "run_tags",
    "tombstones",
    "records",
    "tenant_sizes",
    "record_sizes",
)


@pytest.fixture(scope="module")
def database() -> str:
    return "postgres"


@pytest.fixture
def log(path: str) -> Iterator[PostgresLog]:
    """A log with something of two tenants in every table."""
    log = PostgresLog(path)
    for tenant in ("a", "b"):
        view = log.for_tenant(tenant)
        for run_id in (f"old-{tenant}", f"new-{tenant}"):
            start, plan = an_event("run.started", None, START), an_event("p", None, PLAN)
            view.append(run_id, [start, plan, an_end()])
            written(view, run_id)
        view.upkeep.prune([f"old-{tenant}"], "old", ())
        write(log, a_note(tenant=tenant))
    yield log
    log.close()


def counts(path: str, tenants: str | None, tables: tuple[str, ...] = TABLES) -> dict[str, int]:
    """How many rows of each table a connection like those of the log sees."""

    async def count() -> dict[str, int]:
        connection = await address.connect(path)
        try:
            if tenants is not None:
                await TenantConnection(connection).see(tenants)
            return {
                table: await connection.fetchval(f"SELECT count(*) FROM {table}")
                for table in tables
            }
        finally:
            await connection.close()

    return asyncio.run(count())


def refusal(path: str, tenants: str, statement: str) -> str:
    async def try_it() -> Any:
        connection = await address.connect(path)
        try:
            await TenantConnection(connection).see(tenants)
            return await connection.execute(statement)
        finally:
            await connection.close()

    with pytest.raises(Exception, match=r"row-level security|permission denied") as raised:
        asyncio.run(try_it())
    return str(raised.value)


def test_who_forgets_the_tenant_gets_nothing(log: PostgresLog, path: str) -> None:
    everything = counts(path, tenants_of([None]))
    assert min(everything.values()) >= 2

    assert counts(path, None) == dict.fromkeys(TABLES, 0)
    assert counts(path, tenants_of(["c"])) == dict.fromkeys(TABLES, 0)
    of_a, of_b = counts(path, tenants_of(["a"])), counts(path, tenants_of(["b"]))
    assert min(of_a.values()) >= 1
    assert {table: of_a[table] + of_b[table] for table in TABLES} == everything
    assert counts(path, tenants_of(["a", "b"])) == everything


@pytest.mark.parametrize("name", ["a", "", "*", "{a}", 'a"b', "a\\", "a,b", "NULL", "ü'; --"])
def test_whatever_a_tenant_is_called_it_sees_its_own(path: str, name: str) -> None:
    log = PostgresLog(path)
    for tenant in (name, "other"):
        view = log.for_tenant(tenant)
        view.append(f"run of {tenant}", [a_start()])
        written(view, f"run of {tenant}")

    view = log.for_tenant(name)
    assert view.run_ids() == [f"run of {name}"]
    assert len(list(view.read(f"run of {name}"))) == 1
    assert counts(path, tenants_of([name]))["events"] == 1
    log.close()


def test_also_a_superuser_takes_the_restricted_role(log: PostgresLog, path: str) -> None:
    assert asked(path, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [(True,)]
    rows = log._database.connections.query(
        "*",
        "SELECT current_user::text, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = $1",
        ROLE,
    )
    assert [tuple(row) for row in rows] == [(ROLE, False, False)]


def test_nobody_writes_for_another_tenant_or_changes_what_is_written(
    log: PostgresLog, path: str
) -> None:
    mine = tenants_of(["a"])
    values = "(1, 9, 0, NULL, 'b', 'x', NULL, '')"
    assert "row-level" in refusal(path, mine, f"INSERT INTO events VALUES {values}")
    assert "row-level" in refusal(
        path, mine, "INSERT INTO records VALUES ('note', 'b', 'k', '', 0)"
    )
    assert "denied" in refusal(path, mine, "UPDATE events SET body = ''")
    assert "denied" in refusal(path, mine, "TRUNCATE events")
    assert "denied" in refusal(path, mine, "UPDATE evalwright_schema SET version = 1")


def test_every_table_with_rows_of_tenants_is_guarded(log: PostgresLog, path: str) -> None:
    unguarded = asked(
        path,
        "SELECT DISTINCT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
        " WHERE c.relkind IN ('r', 'p') AND NOT a.attisdropped"
        " AND a.attname IN ('tenant', 'entrypoint')"
        f" AND has_table_privilege('{ROLE}', c.oid, 'SELECT')"
        " AND c.relnamespace = 'public'::regnamespace"
        " AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
    )
    assert unguarded == []


def test_a_tenant_sees_of_the_fleet_only_why_its_own_runs_wait(log: PostgresLog, path: str) -> None:
    worker = "00000000-0000-0000-0000-000000000001"
    execute(
        path,
        "INSERT INTO fleet_owners (owner) VALUES ('a'), ('b')",
        "INSERT INTO fleet_rates (scope) VALUES ('tenant:a'), ('tenant:b')",
        "INSERT INTO fleet_counters VALUES ('one', 1), ('other', 1)",
        "INSERT INTO fleet_workers (worker, name, concurrency)"
        f" VALUES ('{worker}', 'one', 1), (gen_random_uuid(), 'other', 1)",
        "INSERT INTO fleet_refusals (run_id, tenant, worker, reason)"
        f" VALUES ('x', 'a', '{worker}', 'why'), ('y', 'b', '{worker}', 'why')",
    )
    own = "fleet_refusals"
    tables = (own, "fleet_owners", "fleet_rates", "fleet_counters", "fleet_workers")

    assert counts(path, tenants_of([None]), tables) == dict.fromkeys(tables, 2)
    assert counts(path, tenants_of(["a"]), tables) == dict.fromkeys(tables, 0) | {own: 1}
    assert counts(path, None, tables) == dict.fromkeys(tables, 0)
    other = "INSERT INTO attempts (run_id, tenant, position, task_id) VALUES ('y', 'b', 0, 't')"
    assert "row-level" in refusal(path, tenants_of(["a"]), other)
    assert "denied" in refusal(path, tenants_of(["a"]), "TRUNCATE attempts")


@pytest.fixture
def ordinary(postgres: PostgresServer) -> Iterator[tuple[str, str]]:
    """The addresses of a database for its owner, who may create roles, and for another user."""
    owner, other = (f"user_{secrets.token_hex(4)}" for _ in range(2))
    address = postgres.new_database()
    name = database_of(address)
    postgres.execute(
        f"CREATE ROLE {owner} LOGIN CREATEROLE",
        f"CREATE ROLE {other} LOGIN",
        f"ALTER DATABASE {name} OWNER TO {owner}",
        f"DO $$ BEGIN GRANT {ROLE} TO {owner} WITH ADMIN OPTION;"
        " EXCEPTION WHEN undefined_object THEN NULL; END $$",
    )
    yield address.replace("postgres@", f"{owner}@"), address.replace("postgres@", f"{other}@")
    postgres.drop_database(address)
    postgres.execute(f"DROP OWNED BY {owner}, {other}", f"DROP ROLE {owner}, {other}")


def test_an_ordinary_user_makes_the_tables_and_lets_others_in(ordinary: tuple[str, str]) -> None:
    mine, theirs = ordinary
    with closing(PostgresLog(mine)) as log:
        view = log.for_tenant("a")
        view.append("run", [a_start()])
        written(view)
        assert counts(mine, None) == dict.fromkeys(TABLES, 0)
        assert len(list(view.read("run"))) == 1
        log.for_tenant("b").append("run", [a_start()])
        with pytest.raises(LogConflict, match="does not belong to tenant b"):
            written(log.for_tenant("b"))

    with pytest.raises(StoreError, match=rf"permission denied.*GRANT {ROLE} TO the user"):
        PostgresLog(theirs)
    execute(mine, f"GRANT {ROLE} TO {theirs.partition('//')[2].partition('@')[0]}")
    with closing(PostgresLog(theirs)) as log:
        assert log.run_ids() == ["run"]


def test_an_ordinary_user_brings_a_database_up_to_date(
    ordinary: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = ordinary
    PostgresLog(mine).close()
    more = schema.Migration("CREATE TABLE more (x int)", oldest=1)
    with monkeypatch.context() as later:
        later.setattr(migration, "MIGRATIONS", (*migration.MIGRATIONS, more))
        later.setattr(migration, "VERSION", schema.VERSION + 1)
        assert migration.migrate_now(mine) == (schema.VERSION, schema.VERSION + 1)


def test_documents_are_counted_and_wrong_counts_found(ordinary: tuple[str, str]) -> None:
    """The owner of the tables sees no rows of them either, unless they say whose."""
    mine, _ = ordinary
    with closing(PostgresLog(mine)) as log:
        write(log, a_note("key", b"text"), a_note("other", b"more"))
        assert log.upkeep.sizes("a") == [PartitionSize("a", "note", 2, 7 + 9)]
    with inspected(mine) as inspection:
        assert not list(inspection.problems())
        every = f"SELECT set_config('{SETTING}', '{EVERY_TENANT}', false)"
        execute(mine, every, "UPDATE record_sizes SET bytes = 1")
        (problem,) = inspection.problems()
        assert (problem.rule, problem.place) == ("sizes", "tenant a")
