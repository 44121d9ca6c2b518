"""Quotas: how much a tenant may have in the log, over all its workspaces and test keys."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

from evalwright.contracts.annotation import ANNOTATION_KIND
from evalwright.contracts.pack import PACK_KIND
from evalwright.host.catalogue import AGENT, SUITE
from evalwright.host.errors import ApiError
from evalwright.host.principal import tenant_of
from evalwright.host.prompt_library import EVALUATION_KIND
from evalwright.host.settings import QuotaSettings
from evalwright.store.protocol import EventLog
from evalwright.store.upkeep import PartitionSize

Quota = Literal["bytes", "suites", "runs", "annotations"]

REFRESH_SECONDS = 60.0  # after which documents are counted again
FULL = 0.9  # of a quota, from which on they are counted each time: other hosts write, too
_KINDS: dict[str, Quota | None] = {
    SUITE: "suites",
    ANNOTATION_KIND: "annotations",
    AGENT: None,  # counts by its bytes only
    PACK_KIND: None,
    EVALUATION_KIND: None,
}
_DELETABLE: dict[Quota, str] = {
    "bytes": "runs or suites that are no longer needed",
    "suites": "suites that are no longer needed",
    "runs": "runs that are no longer needed",
    "annotations": "runs that are no longer needed, with their annotations",
}


class _Documents(msgspec.Struct):
    """The documents of a tenant: counted now and then, and kept up to date in between."""

    counted_at: float
    counts: dict[Quota, int]
    bytes: int

    def add(self, quota: Quota, amount: int) -> None:
        """Count what was written since, and until the next count also the request for a run."""
        if quota == "bytes":
            self.bytes += amount
        elif quota in self.counts:
            self.counts[quota] += amount


class Quotas:
    """The quotas of all tenants."""

    def __init__(
        self,
        log: EventLog,
        settings: QuotaSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._is_alone = log.records.is_near
        self._clock = clock
        self._limits: dict[Quota, int] = {
            "bytes": settings.bytes,
            "suites": settings.suites,
            "runs": settings.runs,
            "annotations": settings.annotations,
        }
        self._lock = threading.Lock()  # guards the next two
        self._documents: dict[str, _Documents] = {}
        self._pending: dict[tuple[str, Quota], int] = {}  # being written

    @asynccontextmanager
    async def room_for(
        self, tenant: str, size: int = 0, what: Quota | None = None, count: int = 1
    ) -> AsyncIterator[None]:
        """Make sure that a tenant has room for something that is written in this context.

        `what` is counted besides its size in bytes, `count` times. Raises `ApiError` 403.
        """
        wanted: dict[Quota, int] = {"bytes": size}
        if what is not None:
            wanted[what] = count
        await asyncio.to_thread(self._reserve, tenant, wanted)  # it reads the log
        is_written = False
        try:
            yield
            is_written = True
        finally:
            self._release(tenant, wanted, is_written=is_written)

    def _reserve(self, tenant: str, wanted: dict[Quota, int]) -> None:
        has_room = not self._is_alone and self._has_ample_room(tenant, wanted)
        with self._lock:
            for quota, amount in wanted.items():
                if not has_room:
                    self._check(tenant, quota, amount)
            for quota, amount in wanted.items():
                self._pending[tenant, quota] = self._pending.get((tenant, quota), 0) + amount

    def _has_ample_room(self, tenant: str, wanted: dict[Quota, int]) -> bool:
        """Whether a tenant is far from its quotas: then nobody has to wait for another's look."""
        sizes, documents = self._sizes(tenant), self._documents_of(tenant)
        return all(
            self._sum(tenant, quota, sizes, documents) + amount <= FULL * self._limits[quota]
            for quota, amount in wanted.items()
        )

    def _release(self, tenant: str, wanted: dict[Quota, int], *, is_written: bool) -> None:
        with self._lock:
            known = self._documents.get(tenant)
            for quota, amount in wanted.items():
                self._pending[tenant, quota] -= amount
                if not self._pending[tenant, quota]:
                    del self._pending[tenant, quota]
                if is_written and known is not None:
                    known.add(quota, amount)

    def _check(self, tenant: str, quota: Quota, amount: int) -> None:
        limit = self._limits[quota]
        if self._is_alone and self._used(tenant, quota) + amount <= limit:
            return
        self._documents.pop(tenant, None)  # something may have been deleted meanwhile
        used = self._used(tenant, quota)
        if used + amount > limit:
            remedy = f"delete {_DELETABLE[quota]}, or ask the operator for more"
            message = (
                f"the tenant's quota of {quota} does not allow this: {used} of {limit} are used"
            )
            details = {"quota": quota, "limit": limit, "used": used, "remedy": remedy}
            raise ApiError(403, "quota_exceeded", f"{message}; {remedy}", details)

    def _used(self, tenant: str, quota: Quota) -> int:
        sizes = [] if quota in ("suites", "annotations") else self._sizes(tenant)
        return self._sum(tenant, quota, sizes, self._documents_of(tenant))

    def _sizes(self, tenant: str) -> list[PartitionSize]:
        found = self._log.upkeep.sizes(tenant)
        return [size for size in found if tenant_of(size.tenant) == tenant]

    def _sum(
        self, tenant: str, quota: Quota, sizes: list[PartitionSize], documents: _Documents
    ) -> int:
        pending = self._pending.get((tenant, quota), 0)
        if quota in ("suites", "annotations"):
            return pending + documents.counts[quota]
        if quota == "runs":
            return pending + sum(size.things for size in sizes)
        return pending + sum(size.size for size in sizes) + documents.bytes

    def _documents_of(self, tenant: str) -> _Documents:
        known = self._documents.get(tenant)
        if known is None or self._clock() - known.counted_at > REFRESH_SECONDS:
            known = self._documents[tenant] = self._counted(tenant)
        return known

    def _counted(self, tenant: str) -> _Documents:
        counts: dict[Quota, int] = {"suites": 0, "annotations": 0}
        total = 0
        for kind, quota in _KINDS.items():
            for owner, count, size in self._log.upkeep.document_sizes(kind, tenant):
                if tenant_of(owner) == tenant:
                    total += size
                    if quota is not None:
                        counts[quota] += count
        return _Documents(self._clock(), counts, total)
