"""The tables of PgQueuer, which say what tasks are due; they may be dropped and made again."""

from functools import cache
from typing import Any

from evalwright.store.postgres.schema import BY_ALL, ROLE, guarded


@cache
def queue_settings() -> Any:
    """How PgQueuer names and makes its tables.

    They are unlogged: after a crash of the server they are empty, and are filled again from what
    is due.
    """
    from pgqueuer.domain.settings import DBSettings, Durability

    return DBSettings(durability=Durability.volatile)


def queue_script() -> str:
    """The statements that make the tables, in place of what is left of them.

    Without the trigger that notifies: within a transaction that writes, it halves what PostgreSQL
    commits.
    """
    from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment

    settings = queue_settings()
    builder = QueryBuilderEnvironment(settings)
    return f"""
{builder.build_uninstall_query()}
{builder.build_install_query()}
DROP TRIGGER {settings.trigger} ON {settings.queue_table};
"""


def queue_guards() -> str:
    """The statements that give rows of the queue only to those who see every tenant.

    Sequences are logged all the same: on a standby that takes over, others cannot be read.
    """
    settings = queue_settings()
    queue, log = settings.queue_table, settings.queue_table_log
    return f"""
DROP POLICY IF EXISTS only_its_tenant ON {queue};
DROP POLICY IF EXISTS only_its_tenant ON {log};
{guarded(queue, "SELECT, INSERT, UPDATE, DELETE", BY_ALL)}
{guarded(log, "SELECT, INSERT, UPDATE, DELETE, TRUNCATE", BY_ALL)}
REVOKE TRUNCATE ON {queue} FROM {ROLE};
GRANT USAGE ON SEQUENCE {queue}_id_seq TO {ROLE};
ALTER SEQUENCE {queue}_id_seq SET LOGGED;
ALTER SEQUENCE {log}_id_seq SET LOGGED;
"""
