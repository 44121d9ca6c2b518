"""The documents of a database: read at once, written by the thread that writes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from evalwright.contracts.errors import DamagedEventLog
from evalwright.store.checksums import REMEDY
from evalwright.store.records import Execute, Forget, Record, RecordChange, named
from evalwright.store.writer import Writer
from evalwright.store.writes import Write

if TYPE_CHECKING:
    from evalwright.store.readers import LogReading

T = TypeVar("T")

# Keys with a prefix lie between the prefix and the prefix followed by a byte that no text holds.
_LISTED = (
    "FROM records WHERE kind = ? AND tenant = ?"
    " AND key >= ? AND key < ? || CAST(x'FF' AS TEXT) ORDER BY key LIMIT ?"
)
_LIST = f"SELECT key, body, at_us {_LISTED}"
_LIST_KEYS = f"SELECT key {_LISTED}"


class RecordTable(ABC):
    """What a database does with documents."""

    is_local = True
    place: str

    @cached_property
    def reading(self) -> "LogReading":
        from evalwright.store.readers import LogReading

        return LogReading()

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        return self.reading.threads.submit(share, read)

    @property
    @abstractmethod
    def writer(self) -> Writer: ...

    @abstractmethod
    def query(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> "list[Any]": ...

    def get(self, kind: str, tenant: str, key: str) -> bytes | None:
        rows = self.query(
            "SELECT body FROM records WHERE kind = ? AND tenant = ? AND key = ?",
            (kind, tenant, key),
        )
        return self._whole(key, *rows[0]) if rows else None

    def list(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Record]:
        rows = self.query(_LIST, (kind, tenant, _first(prefix, after), prefix, limit))
        return [Record(key, self._whole(key, body), at_us) for key, body, at_us in rows]

    def keys(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[str]:
        rows = self.query(_LIST_KEYS, (kind, tenant, _first(prefix, after), prefix, limit))
        return [key for (key,) in rows]

    def of_all_tenants(self, kind: str) -> Sequence[tuple[str, Record]]:
        rows = self.query(
            "SELECT tenant, key, body, at_us FROM records WHERE kind = ? ORDER BY tenant, key",
            (kind,),
        )
        return [
            (tenant, Record(key, self._whole(key, body), at_us))
            for tenant, key, body, at_us in rows
        ]

    def _whole(self, key: str, body: Any) -> bytes:
        if not isinstance(body, bytes):
            problem = f"{self.place}: document {key} is no longer what was written"
            raise DamagedEventLog(f"{problem}; {REMEDY}")
        return body

    def rows(self, statement: str, *values: str | int | None) -> Sequence[Any]:
        return self.query(statement, named(values))

    def write(
        self, changes: Sequence[RecordChange | Forget | Execute], *, is_request: bool = True
    ) -> "Future[None]":
        return self.writer.submit(Write(None, (), changes, None, is_request))


def _first(prefix: str, after: str) -> str:
    """The least key of a list; the least key after another is that key followed by a zero."""
    return max(prefix, f"{after}\0")
