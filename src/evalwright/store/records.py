"""Documents beside the log: keys, suites, agents and the like, each of a kind and a tenant."""

from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from evalwright.contracts.errors import StoreError

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


class Records(Protocol):
    """Documents by kind, tenant and key."""

    def get(self, kind: str, tenant: str, key: str) -> bytes | None:
        """One document of a tenant."""

    def list(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Record]:
        """Documents of a tenant whose keys begin with a prefix and come after a key, by key."""

    def keys(
        self, kind: str, tenant: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[str]:
        """The keys of the documents that `list` returns, without the documents."""

    def of_all_tenants(self, kind: str) -> Sequence[tuple[str, Record]]:
        """Every document of a kind, with its tenant."""

    def write(self, changes: Sequence[RecordChange]) -> "Future[None]":
        """Write documents as one unit; fails with `RecordConflict` where one is not as expected."""

    def forget(self, kind: str, before_us: int) -> "Future[None]":
        """Delete the documents of a kind that were last written before a time."""

    def erase_deleted(self) -> bool:
        """Rewrite the file, so that nothing deleted is left in it; False if it is too large."""
