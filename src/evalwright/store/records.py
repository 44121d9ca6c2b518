"""Documents beside the log: keys, suites, agents and the like, each of a kind and a tenant."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from evalwright.contracts.errors import StoreError
from evalwright.store import checksums

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

_PLACE = "kind = :kind AND tenant = :tenant AND key = :key"
_PUT_RECORD = (
    "INSERT INTO records (kind, tenant, key, body, at_us, checksum)"
    " VALUES (:kind, :tenant, :key, :body, :at_us, :checksum) ON CONFLICT (kind, tenant, key)"
    " DO UPDATE SET body = excluded.body, at_us = excluded.at_us,"
    " checksum = excluded.checksum"
)
FORGOTTEN_AT_ONCE = 1000  # old documents: nobody waits long for the thread that writes
_FORGET = (
    "DELETE FROM records WHERE rowid IN"  # noqa: S608 - constants only
    f" (SELECT rowid FROM records WHERE kind = ? AND at_us < ? LIMIT {FORGOTTEN_AT_ONCE})"
)

LOCAL_TENANT = "local"  # the tenant of runs from the command line


class _Unchecked(Enum):
    ANY = "any"


ANY = _Unchecked.ANY


class RecordConflict(StoreError):
    """A document is not what the writer expected; nothing was written."""


class Record(NamedTuple):
    """A document as it is kept."""

    key: str
    body: bytes
    at_us: int


class RecordChange(NamedTuple):
    """One write of a document; `expected` is what must be there before (None: nothing)."""

    kind: str
    tenant: str
    key: str
    body: bytes | None  # None: delete it
    expected: bytes | Literal[_Unchecked.ANY] | None = ANY


TRIAL = RecordChange("trial", "", "", b"")  # written to see whether anything can be


class Forget(NamedTuple):
    """Documents of a kind are deleted that were last written before a time: some, if many are."""

    kind: str
    before_us: int


@dataclass
class Execute:
    """A statement that is executed with changes of documents; `$1` and so on stand for its values.

    It is written in what SQLite and PostgreSQL have in common.
    """

    statement: str
    values: tuple[str | int | None, ...] = ()
    locks: str = ""

    async def apply(self, connection: Any) -> None:
        """Execute it in PostgreSQL."""
        await connection.execute(self.statement, *self.values)


def named(values: Sequence[str | int | None]) -> dict[str, str | int | None]:
    """Values as SQLite takes them, where a statement calls them `$1` and so on."""
    return {str(number): value for number, value in enumerate(values, 1)}


class Records(Protocol):
    """Documents by kind, tenant and key."""

    @property
    def is_local(self) -> bool:
        """Whether one is read in microseconds, so that even an event loop can wait for it."""

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        """Read on a thread of the log, for a caller that must not wait."""

    def get(self, kind: str, tenant: str, key: str) -> bytes | None: ...

    def list(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Record]: ...

    def keys(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[str]: ...

    def of_all_tenants(self, kind: str) -> Sequence[tuple[str, Record]]:
        """Every document of a kind, with its tenant."""

    def rows(self, statement: str, *values: str | int | None) -> Sequence[Any]:
        """The rows of a statement, which is written as `Execute` wants it; of all tenants."""

    def write(
        self, changes: Sequence[RecordChange | Forget | Execute], *, is_request: bool = True
    ) -> "Future[None]":
        """Write documents as one unit; fails with `RecordConflict` where one is not as expected.

        A request fails with `StoreUnavailable`, or raises it, if the place fails for long; nothing
        of it is written later. Anything else is tried again until it is written.
        """


def every_record(records: Records, kind: str, tenant: str, prefix: str = "") -> Iterator[Record]:
    """All documents of a kind that a tenant has, read by pages."""
    after = ""
    while page := records.list(kind, tenant, prefix, after):
        yield from page
        after = page[-1].key


def apply_change(connection: "sqlite3.Connection", change: RecordChange | Forget | Execute) -> None:
    """Make a change within a transaction; raises `RecordConflict`."""
    execute = connection.execute
    if isinstance(change, Forget):
        execute(_FORGET, change)
        return
    if isinstance(change, Execute):
        execute(change.statement, named(change.values))
        return
    place = {"kind": change.kind, "tenant": change.tenant, "key": change.key}
    if change.expected is not ANY:
        found = execute(f"SELECT body FROM records WHERE {_PLACE}", place).fetchone()  # noqa: S608
        if (None if found is None else bytes(found[0])) != change.expected:
            raise RecordConflict(f"the {change.kind} {change.key!r} has changed meanwhile")
    if change.body is None:
        execute(f"DELETE FROM records WHERE {_PLACE}", place)  # noqa: S608 - constants only
    else:
        at_us = time.time_ns() // 1000
        checksum = checksums.of_values(change.kind, change.tenant, change.key, change.body, at_us)
        row = {**place, "body": change.body, "at_us": at_us, "checksum": checksum}
        execute(_PUT_RECORD, row)
