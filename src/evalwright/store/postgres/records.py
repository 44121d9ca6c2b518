"""The documents that are kept with a log in PostgreSQL."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from evalwright.store.postgres.connections import LogConnections, tenants_of
from evalwright.store.postgres.stored_text import end_of_prefix, restored, storable
from evalwright.store.readers import LogReading
from evalwright.store.records import Execute, Forget, Record, RecordChange
from evalwright.store.writer import Writer
from evalwright.store.writes import Write

T = TypeVar("T")

_LISTED = (
    "FROM records WHERE kind = $1 AND tenant = $2 AND key >= $4 AND key > $5{} ORDER BY key"
    " LIMIT $3"
)


class PostgresRecords:
    """Documents by kind, tenant and key."""

    is_local = False

    def __init__(
        self, connections: LogConnections, writer: Callable[[], Writer], reading: LogReading
    ) -> None:
        self._query = connections.query
        self._writer = writer
        self._reading = reading

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        return self._reading.threads.submit(share, read)

    def get(self, kind: str, tenant: str, key: str) -> bytes | None:
        rows = self._query(
            tenants_of([tenant]),
            "SELECT body FROM records WHERE kind = $1 AND tenant = $2 AND key = $3",
            kind,
            tenant,
            storable(key),
        )
        return rows[0][0] if rows else None

    def list(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Record]:
        rows = self._listed("key, body, at_us", (kind, tenant, limit), prefix, after)
        return [Record(restored(key), body, at_us) for key, body, at_us in rows]

    def keys(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[str]:
        rows = self._listed("key", (kind, tenant, limit), prefix, after)
        return [restored(key) for (key,) in rows]

    def _listed(
        self, columns: str, place: tuple[str, str, int], prefix: str, after: str
    ) -> Sequence[Any]:
        prefix, after = storable(prefix), storable(after)
        end = end_of_prefix(prefix)
        bound = "" if end is None else " AND key < $6"
        ends = () if end is None else (end,)
        statement = f"SELECT {columns} {_LISTED.format(bound)}"
        return self._query(tenants_of([place[1]]), statement, *place, prefix, after, *ends)

    def of_all_tenants(self, kind: str) -> Sequence[tuple[str, Record]]:
        rows = self._query(
            tenants_of([None]),
            "SELECT tenant, key, body, at_us FROM records WHERE kind = $1 ORDER BY tenant, key",
            kind,
        )
        return [(tenant, Record(restored(key), body, at_us)) for tenant, key, body, at_us in rows]

    def rows(self, statement: str, *values: str | int | None) -> Sequence[Any]:
        return [tuple(row) for row in self._query(tenants_of([None]), statement, *values)]

    def write(
        self, changes: Sequence[RecordChange | Forget | Execute], *, is_request: bool = True
    ) -> "Future[None]":
        return self._writer().submit(Write(None, (), changes, None, is_request))
