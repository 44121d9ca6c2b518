"""Bringing a PostgreSQL database up to date, and refusing one that this program does not know."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from evalwright.contracts.errors import EvalwrightError, NotAnEventLog, StoreError
from evalwright.contracts.messages import phrase
from evalwright.store.postgres import address
from evalwright.store.postgres.schema import DESCRIBED, MIGRATIONS, ROLE, VERSION

if TYPE_CHECKING:
    from asyncpg import Connection

_LOCK = 0x4556574C  # "EVWL": one process migrates at a time

MIGRATE_SECONDS = 60.0  # for which a migration waits for tables that others use
LOCK_MS = 300  # that it waits for one at a time: shorter than until a deadlock is looked for
_IN_USE = ("40P01", "55P03")  # SQLSTATEs of a deadlock, and of a lock that was not to be had

OLDEST_SERVER = 15  # of those that are tried

_SCHEMA_TABLE = """
CREATE TABLE IF NOT EXISTS evalwright_schema (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    version integer NOT NULL,
    oldest integer NOT NULL
)
"""
_CREATE_ROLE = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{ROLE}') THEN
        CREATE ROLE {ROLE} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
    IF NOT pg_has_role(current_user, '{ROLE}', 'MEMBER') THEN
        GRANT {ROLE} TO CURRENT_USER;
    END IF;
END $$
"""  # noqa: S608 - constants only


class SchemaVersion(NamedTuple):
    """The version of a database, and the oldest one that a program must know to work with it."""

    version: int
    oldest: int


async def read_version(connection: "Connection") -> SchemaVersion:
    """The version of the database, which is 0 if it holds no log."""
    found = await connection.fetchval("SELECT to_regclass('evalwright_schema') IS NOT NULL")
    if not found:
        return SchemaVersion(0, 0)
    return SchemaVersion(
        *await connection.fetchrow("SELECT version, oldest FROM evalwright_schema")
    )


def refuse_unknown(place: str, found: SchemaVersion) -> None:
    """Raise unless this program can work with the database."""
    if found.oldest > VERSION:
        raise NotAnEventLog(
            phrase(
                "{place}: written by a newer Evalwright (schema {found}, this one knows {known}); "
                "update Evalwright or name another database with {@db}",
                place=place,
                found=found.version,
                known=VERSION,
            )
        )
    if found.version < VERSION:
        raise StoreError(
            phrase(
                "{place}: the schema is {found}, and this Evalwright needs {known}; "
                "run `evalwright db migrate` with the same {@db}",
                place=place,
                found=found.version,
                known=VERSION,
            )
        )


def refuse_old_server(place: str, major: int) -> None:
    """Raise unless the server knows all that the tables need."""
    if major < OLDEST_SERVER:
        raise StoreError(
            phrase(
                "{place}: PostgreSQL {major} is too old; name a server of version {oldest} "
                "or later with {@db}",
                place=place,
                major=major,
                oldest=OLDEST_SERVER,
            )
        )


async def migrate(url: str) -> tuple[int, int]:
    """Bring the database to the version of this program; returns the versions before and after."""
    place = address.masked(url)
    connection = await address.connect(url, as_login=True)
    try:
        refuse_old_server(place, connection.get_server_version().major)
        # Roles belong to the server: another database may be migrated at the same moment.
        for attempt in range(10):
            with suppress(*_busy_catalog(last=attempt == 9)):
                await connection.execute(_CREATE_ROLE)
                break
            await asyncio.sleep(0.05)
        # Migrate while others work, who neither wait for long nor lose to this in a deadlock.
        deadline = time.monotonic() + MIGRATE_SECONDS
        while True:
            try:
                async with connection.transaction():
                    await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                    await connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                    return await _migrate(connection, place)
            except Exception as error:
                if address.state(error) not in _IN_USE or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(LOCK_MS / 1000)
    finally:
        await connection.close()


def migrate_now(url: str) -> tuple[int, int]:
    """Bring the database to the version of this program; raises `StoreError`."""
    try:
        return asyncio.run(migrate(url))
    except EvalwrightError:
        raise
    except Exception as error:
        raise address.explain(address.masked(url), error) from error


def _busy_catalog(*, last: bool) -> tuple[type[Exception], ...]:
    asyncpg = address.driver()
    raced = (asyncpg.InternalServerError, asyncpg.UniqueViolationError)
    return () if last else (*raced, asyncpg.DuplicateObjectError)


async def _migrate(connection: "Connection", place: str) -> tuple[int, int]:
    before = await read_version(connection)
    if before.version > VERSION:
        refuse_unknown(place, before)
        return before.version, before.version
    if 0 < before.version < DESCRIBED:
        raise StoreError(
            phrase(
                "{place}: no release has the schema {found}; export the log with the program that "
                "made it (`evalwright db export {$all}`), and import that into an empty database",
                place=place,
                found=before.version,
            )
        )
    await connection.execute(_SCHEMA_TABLE)
    schema = await connection.fetchval("SELECT quote_ident(current_schema())")
    await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {ROLE}")
    for migration in MIGRATIONS[max(0, before.version - DESCRIBED + 1) :]:
        try:
            await connection.execute(migration.script)
        except address.driver().DuplicateTableError as error:
            raise NotAnEventLog(
                phrase(
                    "{place}: a database of another program ({error}); "
                    "name an empty database with {@db}",
                    place=place,
                    error=str(error),
                )
            ) from None
    await connection.execute("DELETE FROM evalwright_schema")
    await connection.execute(
        "INSERT INTO evalwright_schema (version, oldest) VALUES ($1, $2)",
        VERSION,
        MIGRATIONS[-1].oldest,
    )
    return before.version, VERSION
