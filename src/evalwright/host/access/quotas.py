"""Quotas: how much a tenant may have in the log, over all its workspaces and test keys.

The log sums up what is there: the events of runs, documents of every kind, and what is left of
deleted runs. What a request is about to add counts from the moment that it is let in. Each route
says in the table what it stores, so none is forgotten.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

from evalwright.contracts.annotation import ANNOTATION_KIND
from evalwright.host.access.idempotency import KEPT_SECONDS
from evalwright.host.access.idempotency import KIND as ANSWERS
from evalwright.host.access.keys import tenant_of
from evalwright.host.http.errors import ApiError
from evalwright.host.http.settings import QuotaSettings
from evalwright.host.library.catalogue import SUITE
from evalwright.store.protocol import EventLog
from evalwright.store.upkeep import RUNS

Quota = Literal["bytes", "suites", "runs", "annotations"]

ANSWER_BYTES = 2048  # that are kept for an Idempotency-Key, unless a handler expects more
SPARE = 0.1  # of the quota, beyond it, for such answers: cancelling and deleting go on
MOST_SPARE_BYTES = 1_000_000
MANY_ANSWERS = 0.1  # of the quota, from which on a refusal mentions them
ATTEMPTS = 5  # at a sum that others change meanwhile; then it is taken to be the highest possible

_KINDS: dict[str, Quota] = {RUNS: "runs", SUITE: "suites", ANNOTATION_KIND: "annotations"}
_DELETABLE: dict[Quota, str] = {
    "bytes": "runs or suites that are no longer needed",
    "suites": "suites that are no longer needed",
    "runs": "runs that are no longer needed",
    "annotations": "runs that are no longer needed, with their annotations",
}


class Stores(NamedTuple):
    """What the requests of a route store for their tenant, besides the bytes of their bodies."""

    what: Quota = "bytes"
    is_free: bool = False  # they end or delete something, or something else bounds them
    asks: bool = False  # their handler asks for room: it knows whether anything is new


BYTES = Stores()
FREE = Stores(is_free=True)
RUN = Stores("runs")


class Room:
    """What a request may still store; its handler asks for more where it knows better."""

    def __init__(self, quotas: "Quotas", tenant: str) -> None:
        self._quotas = quotas
        self._tenant = tenant
        self.held: dict[Quota, int] = {}

    async def reserve(self, stores: Stores, size: int, *, has_key: bool) -> None:
        """What the route of a request stores, as far as that is known before it is handled."""
        if not (stores.is_free or stores.asks):
            await self.need(size, stores.what)
        if has_key:
            await self.need(ANSWER_BYTES, is_answer=True)

    async def need(
        self, size: int, what: Quota = "bytes", count: int = 1, *, is_answer: bool = False
    ) -> None:
        """Reserve so many bytes, and so many of something else; raises `ApiError` 403."""
        wanted: dict[Quota, int] = {"bytes": size}
        if what != "bytes":
            wanted[what] = count
        await self._quotas.reserve(self._tenant, wanted, is_answer=is_answer)
        for quota, amount in wanted.items():
            self.held[quota] = self.held.get(quota, 0) + amount


class Quotas:
    """The quotas of all tenants."""

    def __init__(self, log: EventLog, settings: QuotaSettings) -> None:
        self._log = log
        self._limits: dict[Quota, int] = {
            "bytes": settings.bytes,
            "suites": settings.suites,
            "runs": settings.runs,
            "annotations": settings.annotations,
        }
        self._lock = threading.Lock()  # guards the next three; nobody who holds it reads the log
        self._pending: dict[tuple[str, Quota], int] = defaultdict(int)  # being written
        self._reserved: dict[tuple[str, Quota], int] = defaultdict(int)  # in all, ever
        self._written: dict[str, int] = defaultdict(int)  # requests that ended, by tenant

    @asynccontextmanager
    async def room(self, tenant: str) -> AsyncIterator[Room]:
        """Room for what is written in this context, as far as it is asked for."""
        room = Room(self, tenant)
        try:
            yield room
        finally:
            with self._lock:
                self._written[tenant] += 1
                for quota, amount in room.held.items():
                    self._pending[tenant, quota] -= amount
                    if not self._pending[tenant, quota]:
                        del self._pending[tenant, quota]

    async def reserve(self, tenant: str, wanted: dict[Quota, int], *, is_answer: bool) -> None:
        """Count what is about to be written; raises `ApiError` 403 if there is no room for it."""
        spare = min(int(self._limits["bytes"] * SPARE), MOST_SPARE_BYTES) if is_answer else 0
        reserved = self._log.records.in_reader(tenant, lambda: self._reserve(tenant, wanted, spare))
        await asyncio.wrap_future(reserved)

    def _reserve(self, tenant: str, wanted: dict[Quota, int], spare: int) -> None:
        for attempt in range(ATTEMPTS):
            with self._lock:
                written = self._written[tenant]
                pending = {quota: self._pending.get((tenant, quota), 0) for quota in wanted}
                reserved = {quota: self._reserved[tenant, quota] for quota in wanted}
            counts, answers = self._usage(tenant)
            with self._lock:
                for quota, amount in wanted.items():
                    # What was pending before the sum was read, or was reserved meanwhile, may be
                    # in it or not yet, also if its request has ended since.
                    since = self._reserved[tenant, quota] - reserved[quota]
                    used, limit = counts[quota] + pending[quota] + since, self._limits[quota]
                    if used + amount > limit + (spare if quota == "bytes" else 0):
                        break
                else:
                    for quota, amount in wanted.items():
                        self._pending[tenant, quota] += amount
                        self._reserved[tenant, quota] += amount
                    return
                is_exact = written == self._written[tenant]
            if is_exact or attempt == ATTEMPTS - 1:
                break
        remedy = f"delete {_DELETABLE[quota]}, or ask the operator for more"
        if quota == "bytes" and answers > limit * MANY_ANSWERS:
            hours = KEPT_SECONDS // 3600
            remedy = (
                f"{answers} bytes are responses kept for {hours} hours for Idempotency-Keys: wait, "
                f"send requests that can be repeated without a key, or {remedy}"
            )
        message = f"the tenant's quota of {quota} does not allow this: {used} of {limit} are used"
        details = {"quota": quota, "limit": limit, "used": used, "remedy": remedy}
        raise ApiError(403, "quota_exceeded", f"{message}; {remedy}", details)

    def _usage(self, tenant: str) -> tuple[dict[Quota, int], int]:
        """What a tenant has, and how many bytes of it are kept for Idempotency-Keys."""
        counts: dict[Quota, int] = dict.fromkeys(self._limits, 0)
        answers = 0
        for each in self._log.upkeep.sizes(tenant):
            if tenant_of(each.tenant) == tenant:
                counts["bytes"] += each.size
                if each.kind in _KINDS:
                    counts[_KINDS[each.kind]] += each.things
                if each.kind == ANSWERS:
                    answers += each.size
        return counts, answers
